//! Where the file tools may go.

use std::{fs, os::unix::fs::symlink};

use serde_json::json;
use tempfile::TempDir;

use super::Place;

#[tokio::test]
async fn no_path_leads_out_of_the_workspace() {
    let place = Place::with(&[("sub/a.txt", "inside")]);
    let outside = place.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    symlink(&outside, place.root.join("link")).unwrap();
    symlink("../../outside", place.root.join("sub/link")).unwrap();
    symlink(outside.join("new"), place.root.join("dangling")).unwrap();
    symlink("sub", place.root.join("to-sub")).unwrap();
    let before = place.everything();
    let absolute = outside.join("secret").to_str().unwrap().to_owned();
    for path in [
        absolute.as_str(),
        "../outside/secret",
        "link/secret",
        "link/none/new",
        "sub/link/secret",
        "sub/link/../outside/secret",
        "none/../../outside/secret",
        "none/none/../../../outside/secret",
        "to-sub/../../outside/secret",
        "dangling",
        "/etc/hostname",
        "/proc/self/root/etc/hostname",
        "../project-2/a",
    ] {
        for (tool, args) in [
            ("read_file", json!({ "file_path": path })),
            ("write_file", json!({ "file_path": path, "content": "x" })),
            (
                "edit",
                json!({ "file_path": path, "old_string": "", "new_string": "x" }),
            ),
            (
                "edit",
                json!({ "file_path": path, "old_string": "secret", "new_string": "x" }),
            ),
            ("list_directory", json!({ "path": path })),
            ("glob", json!({ "pattern": "*", "path": path })),
            ("grep_search", json!({ "pattern": ".", "path": path })),
        ] {
            let (kind, message) = place.refusal(tool, args.clone()).await;
            assert_eq!(kind, "outside_workspace", "{tool} {path}: {message}");
            assert!(message.contains("--include-directories"), "{message}");
            assert_eq!(
                place.preview(tool, &args).unwrap_err().kind,
                "outside_workspace"
            );
        }
    }
    assert_eq!(place.everything(), before);
}

#[tokio::test]
async fn paths_that_stay_inside_are_followed() {
    let place = Place::with(&[("sub/a.txt", "inside")]);
    symlink("sub", place.root.join("link")).unwrap();
    symlink(place.root.join("sub/a.txt"), place.root.join("file")).unwrap();
    symlink("project", place.dir.path().join("alias")).unwrap();
    let absolute = place.root.join("sub/a.txt");
    let alias = place.dir.path().join("alias/link/a.txt");
    for path in [
        "sub/a.txt",
        "./sub//a.txt",
        "link/a.txt",
        "file",
        "link/../sub/a.txt",
        "none/../sub/a.txt",
        "../project/sub/a.txt",
        absolute.to_str().unwrap(),
        alias.to_str().unwrap(),
    ] {
        assert_eq!(
            place
                .answer("read_file", json!({ "file_path": path }))
                .await,
            "inside",
            "{path}"
        );
    }
}

#[tokio::test]
async fn an_allowed_folder_is_part_of_the_workspace() {
    let other = TempDir::new().unwrap();
    let link = other.path().join("link");
    symlink(other.path(), &link).unwrap();
    let place = Place::allowing(vec![link]);
    let path = other.path().join("new.txt").to_str().unwrap().to_owned();
    place
        .answer("write_file", json!({ "file_path": path, "content": "x" }))
        .await;
    assert_eq!(fs::read_to_string(path).unwrap(), "x");
}

#[tokio::test]
async fn a_circle_of_links_is_an_error() {
    let place = Place::new();
    symlink("b", place.root.join("a")).unwrap();
    symlink("a", place.root.join("b")).unwrap();
    let (kind, message) = place
        .refusal("read_file", json!({ "file_path": "a" }))
        .await;
    assert_eq!(kind, "io");
    assert!(message.contains("links"), "{message}");
}

#[tokio::test]
async fn what_is_no_regular_file_is_refused_without_waiting() {
    let place = Place::allowing(vec!["/dev".into()]);
    let pipe = place.root.join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.root.join("socket")).unwrap();
    fs::create_dir(place.root.join("folder")).unwrap();
    for (path, what) in [
        ("pipe", "a pipe"),
        ("socket", "a socket"),
        ("folder", "a folder"),
        ("/dev/zero", "a device"),
        ("/dev/full", "a device"),
    ] {
        for (tool, args) in [
            ("read_file", json!({ "file_path": path })),
            ("write_file", json!({ "file_path": path, "content": "x" })),
            (
                "edit",
                json!({ "file_path": path, "old_string": "a", "new_string": "x" }),
            ),
        ] {
            let (kind, message) = place.refusal(tool, args).await;
            assert_eq!(kind, "not_regular", "{tool} {path}: {message}");
            assert!(message.contains(what), "{message}");
        }
    }
    // A search passes over them.
    let found = place.answer("grep_search", json!({ "pattern": "x" })).await;
    assert_eq!(found, "[No line matches in `.`.]\n");
}
