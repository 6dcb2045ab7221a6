//! Pictures beside a transcript: kept once, read as they were, and gone with their session.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use transcript::{
    layout::DataRoot,
    media::{MediaDir, Medium},
    reader::load,
    record::{Body, Content, Part},
    store::{self, Fork},
};

use crate::rig::{Rig, answer, user};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_picture_is_kept_once_for_its_owner_alone_and_read_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let media = MediaDir::of(&folder.path().join("chats/s.jsonl"));
    let first = media.keep("image/png", PNG).unwrap();
    let second = media.keep("image/png", PNG).unwrap();
    assert_eq!(first, second);
    assert_eq!(names(&folder.path().join("chats")), ["s.media"]);
    assert_eq!(names(media.path()), [first.sha256.as_str()]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(media.path()), 0o700);
    assert_eq!(mode(&media.path().join(&first.sha256)), 0o600);
    assert_eq!(media.read(&first).unwrap(), PNG);
}

#[test]
fn a_picture_that_was_changed_cut_or_named_by_others_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let media = MediaDir::of(&folder.path().join("s.jsonl"));
    let medium = media.keep("image/png", PNG).unwrap();
    let path = media.path().join(&medium.sha256);
    for bytes in [&PNG[1..], b"another picture", b""] {
        fs::write(&path, bytes).unwrap();
        assert!(media.read(&medium).is_err(), "{bytes:?}");
    }
    fs::write(folder.path().join("secret"), "x").unwrap();
    for name in ["../secret", "/etc/passwd", ""] {
        let medium = Medium {
            sha256: name.to_owned(),
            ..medium.clone()
        };
        assert!(media.read(&medium).is_err(), "{name}");
    }
    // What is not whole is replaced.
    media.keep("image/png", PNG).unwrap();
    assert_eq!(media.read(&medium).unwrap(), PNG);
}

#[test]
fn a_picture_that_cannot_be_kept_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.media"), "a file in its place").unwrap();
    let media = MediaDir::of(&folder.path().join("s.jsonl"));
    assert!(media.keep("image/png", PNG).is_err());
    assert_eq!(names(folder.path()), ["s.media"]);
}

#[test]
fn a_record_refers_to_its_pictures_and_a_reader_finds_them() {
    let rig = Rig::new();
    let recorder = rig.begin();
    let kept = MediaDir::of(&rig.path()).keep("image/png", PNG).unwrap();
    recorder.append(user("before"));
    recorder.append(Body::User {
        message: Content {
            role: "user".to_owned(),
            parts: vec![Part::text("look")],
        },
        media: vec![kept.clone()],
    });
    answer(recorder.close()).unwrap();
    assert!(!String::from_utf8(rig.bytes()).unwrap().contains("PNG"));
    let loaded = load(&rig.path()).unwrap();
    assert_eq!(loaded.records[0].media(), []);
    assert_eq!(loaded.records[1].media(), std::slice::from_ref(&kept));
    assert_eq!(loaded.media_dir.read(&kept).unwrap(), PNG);
}

#[test]
fn a_fork_has_the_pictures_too_and_each_session_loses_only_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let root = DataRoot::new(folder.path());
    let project = root.project(Path::new("/p"));
    let rig = Rig::new();
    let recorder = rig.begin();
    recorder.append(user("x"));
    answer(recorder.close()).unwrap();
    let (old, new) = (
        "5e551014-0000-4000-8000-000000000001",
        "0f0f0f0f-0000-4000-8000-000000000000",
    );
    fs::create_dir_all(project.chats_dir()).unwrap();
    fs::write(project.transcript(old), rig.bytes()).unwrap();
    let media = MediaDir::of(&project.transcript(old));
    let medium = media.keep("image/png", PNG).unwrap();
    let target = project.transcript(new);
    let fork = Fork {
        source: &project.transcript(old),
        target: &target,
        session_id: new,
        cwd: "/p",
    };
    store::fork(&fork).unwrap();
    let shared = MediaDir::of(&target);
    assert_eq!(shared.read(&medium).unwrap(), PNG);
    let links = fs::metadata(shared.path().join(&medium.sha256)).unwrap();
    assert_eq!(links.nlink(), 2, "it lies on the disk once");
    assert!(store::fork(&fork).is_err(), "it exists already");
    assert_eq!(shared.read(&medium).unwrap(), PNG, "and stays as it is");
    store::delete(&root, &store::find(&root, old).unwrap()).unwrap();
    assert!(!media.path().exists());
    assert_eq!(shared.read(&medium).unwrap(), PNG);
}

#[test]
fn an_archived_session_takes_the_pictures_with_it_that_stayed_behind() {
    let folder = tempfile::tempdir().unwrap();
    let root = DataRoot::new(folder.path());
    let project = root.project(Path::new("/p"));
    let id = "5e551014-0000-4000-8000-000000000001";
    fs::create_dir_all(project.archive_dir()).unwrap();
    let archived = project.archive_dir().join(format!("{id}.jsonl"));
    fs::write(&archived, "{}\n").unwrap();
    let media = MediaDir::of(&project.transcript(id));
    media.keep("image/png", PNG).unwrap();
    let session = store::Found {
        session_id: id.to_owned(),
        path: archived,
    };
    store::delete(&root, &session).unwrap();
    assert!(!media.path().exists());
}
