//! `write_file`, and how every change gets to the disk.

use std::{
    env, fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

use agent::tool::Display;
use serde_json::json;
use testkit::faults::{OtherUser, SmallDisk};

use super::{Place, block_on, is_alone, run_alone};

#[tokio::test]
async fn a_new_file_comes_with_its_folders() {
    let place = Place::new();
    let args = json!({ "file_path": "a/b/c.txt", "content": "one\ntwo\n" });
    let out = place.run("write_file", args).await.unwrap();
    assert_eq!(out.text, "Created `a/b/c.txt` with 2 lines.");
    assert_eq!(place.text("a/b/c.txt"), "one\ntwo\n");
    let Display::Diff {
        path,
        diff,
        n_added,
        n_removed,
        ..
    } = out.display
    else {
        panic!()
    };
    assert_eq!(
        (path, n_added, n_removed),
        (place.root.join("a/b/c.txt"), 2, 0)
    );
    assert_eq!(
        diff,
        "--- /dev/null\n+++ b/a/b/c.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    );
}

#[tokio::test]
async fn a_replaced_file_keeps_its_mode_and_leaves_nothing_beside_it() {
    let place = Place::with(&[("run.sh", "old\nsame\n")]);
    let path = place.root.join("run.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let args = json!({ "file_path": "run.sh", "content": "new\nsame\n" });
    let out = place.run("write_file", args.clone()).await.unwrap();
    assert_eq!(out.text, "Replaced `run.sh`: 1 line added, 1 line removed.");
    assert_eq!(place.text("run.sh"), "new\nsame\n");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o750);
    assert_eq!(fs::read_dir(&place.root).unwrap().count(), 1);
    let inode = fs::metadata(&path).unwrap().ino();
    let same = place.answer("write_file", args).await;
    assert_eq!(same, "`run.sh` already has exactly this content.");
    assert_eq!(
        fs::metadata(&path).unwrap().ino(),
        inode,
        "the file was left alone"
    );
}

#[tokio::test]
async fn a_link_stays_and_what_it_leads_to_is_written() {
    let place = Place::with(&[("real/a.txt", "old")]);
    symlink("real/a.txt", place.root.join("link")).unwrap();
    symlink("real/new.txt", place.root.join("dangling")).unwrap();
    for (path, target) in [("link", "real/a.txt"), ("dangling", "real/new.txt")] {
        place
            .answer("write_file", json!({ "file_path": path, "content": "new" }))
            .await;
        assert_eq!(place.text(target), "new");
        assert!(
            fs::symlink_metadata(place.root.join(path))
                .unwrap()
                .is_symlink()
        );
    }
}

#[tokio::test]
async fn a_failed_write_removes_what_it_made_on_the_way() {
    let place = Place::with(&[("file", "x")]);
    let before = place.everything();
    let long = "n".repeat(300);
    for path in [
        "file/below".to_owned(),
        format!("new/{long}"),
        format!("{long}/a"),
    ] {
        let (kind, message) = place
            .refusal("write_file", json!({ "file_path": path, "content": "y" }))
            .await;
        assert!(kind == "io" || kind == "not_found", "{kind}: {message}");
        assert_eq!(place.everything(), before, "{path}");
    }
}

/// case-B10
#[test]
fn a_full_disk_leaves_the_old_content_whole() {
    const TEST: &str = "tools::write::a_full_disk_leaves_the_old_content_whole";
    if !is_alone(TEST) {
        let Some(disk) = SmallDisk::with_size_kib(256) else {
            return;
        };
        let mut command = disk.fault().command(&env::current_exe().unwrap());
        command.env("TMPDIR", disk.path());
        return run_alone(TEST, command);
    }
    let place = Place::new();
    block_on(async {
        let old = "old line\n".repeat(1_000);
        place.put("a.txt", &old);
        place.put("fill", "");
        let mut fill = fs::File::options()
            .append(true)
            .open(place.root.join("fill"))
            .unwrap();
        while std::io::Write::write_all(&mut fill, &[b'x'; 512]).is_ok() {}
        let before = place.everything();
        let new = "x".repeat(100_000);
        for (tool, args) in [
            (
                "write_file",
                json!({ "file_path": "a.txt", "content": new }),
            ),
            (
                "write_file",
                json!({ "file_path": "b.txt", "content": new }),
            ),
            (
                "write_file",
                json!({ "file_path": "new/c.txt", "content": new }),
            ),
            (
                "edit",
                json!({
                    "file_path": "a.txt",
                    "old_string": "old",
                    "new_string": "new".repeat(50),
                    "replace_all": true
                }),
            ),
            (
                "edit",
                json!({ "file_path": "d.txt", "old_string": "", "new_string": new }),
            ),
        ] {
            let (kind, message) = place.refusal(tool, args).await;
            assert_eq!(kind, "io");
            assert!(
                message.contains("is as it was") && message.contains("space"),
                "{message}"
            );
            assert!(
                place.everything() == before,
                "{tool}: {:?}",
                place.everything().keys()
            );
        }
        // A person made room: the same call works.
        drop(fill);
        fs::remove_file(place.root.join("fill")).unwrap();
        place
            .answer(
                "write_file",
                json!({ "file_path": "a.txt", "content": new }),
            )
            .await;
        assert_eq!(place.text("a.txt"), new);
    });
}

/// As another user, since root may write everything.
#[test]
fn a_read_only_file_is_not_replaced() {
    const TEST: &str = "tools::write::a_read_only_file_is_not_replaced";
    if !is_alone(TEST) {
        let Some(user) = OtherUser::new(&env::current_exe().unwrap()) else {
            return;
        };
        return run_alone(TEST, user.fault().command(user.program()));
    }
    let place = Place::with(&[("a.txt", "old")]);
    let path = place.root.join("a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    block_on(async {
        let args = json!({ "file_path": "a.txt", "content": "new" });
        assert_eq!(place.preview("write_file", &args).unwrap_err().kind, "io");
        let (kind, message) = place.refusal("write_file", args).await;
        assert_eq!(kind, "io");
        assert!(message.contains("Permission denied"), "{message}");
        assert_eq!(place.text("a.txt"), "old");
    });
}
