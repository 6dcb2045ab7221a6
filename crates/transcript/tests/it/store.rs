//! Stored sessions as files: listed, found, forked, deleted.

use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::transcripts::{self, CWD, conversation, id, with};
use transcript::{
    layout::{DataRoot, ProjectDir},
    lock,
    reader::load,
    store::{self, DeleteError, FindError, Fork, ForkError, Found, SkipReason},
    verify::verify,
};

/// A data root with one project.
struct Store {
    _folder: TempDir,
    root: DataRoot,
    project: ProjectDir,
}

impl Store {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = DataRoot::new(folder.path());
        let project = root.project(Path::new(CWD));
        fs::create_dir_all(project.archive_dir()).unwrap();
        Self {
            _folder: folder,
            root,
            project,
        }
    }

    /// Session `n`, last written to at minute `n`.
    fn session(&self, n: u64, records: &[Value]) -> PathBuf {
        self.file(n, &transcripts::file(records))
    }

    fn file(&self, n: u64, bytes: &[u8]) -> PathBuf {
        let path = self.project.transcript(&session_id(n));
        fs::write(&path, bytes).unwrap();
        set_minute(&path, n);
        path
    }

    fn rows(&self, limit: Option<usize>) -> Vec<String> {
        let listing = store::list(&self.project, Some(CWD), limit);
        listing.rows.into_iter().map(|row| row.session_id).collect()
    }

    fn found(&self, n: u64) -> Found {
        store::find(&self.root, &session_id(n)).unwrap()
    }
}

fn set_minute(path: &Path, minute: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(60 * minute);
    File::options()
        .append(true)
        .open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

fn session_id(n: u64) -> String {
    format!("abc{n:05x}-5e55-4000-8000-000000000000")
}

fn ids(numbers: &[u64]) -> Vec<String> {
    numbers.iter().map(|n| session_id(*n)).collect()
}

/// case-D05, N01; U5.
#[test]
fn one_bad_file_hides_no_other() {
    let store = Store::new();
    store.session(1, &conversation(2));
    store.file(2, b"");
    store.file(3, b"garbage\n");
    store.session(
        4,
        &[with(conversation(1).remove(0), "cwd", json!("/elsewhere"))],
    );
    store.session(5, &conversation(2));
    fs::create_dir(store.project.transcript(&session_id(6))).unwrap();
    fs::write(store.project.chats_dir().join("notes.jsonl"), "x").unwrap();
    fs::write(
        store
            .project
            .chats_dir()
            .join(format!("{}.ledger.jsonl", session_id(5))),
        "x",
    )
    .unwrap();
    let listing = store::list(&store.project, Some(CWD), None);
    let rows: Vec<_> = listing
        .rows
        .iter()
        .map(|row| row.session_id.clone())
        .collect();
    assert_eq!(rows, ids(&[5, 1]));
    assert_eq!(listing.n_foreign, 1);
    let skipped: Vec<_> = listing
        .skipped
        .iter()
        .map(|s| (s.session_id.clone(), s.reason))
        .collect();
    assert_eq!(
        skipped,
        [
            (session_id(6), SkipReason::NotAFile),
            (session_id(3), SkipReason::NoRecord),
            (session_id(2), SkipReason::Empty),
        ]
    );
    // The folder is shared, the session is not.
    assert_eq!(
        store::list(&store.project, Some("/elsewhere"), None)
            .rows
            .len(),
        1
    );
    assert_eq!(store::list_all(&store.root, None).rows.len(), 3);
}

#[test]
fn a_page_holds_the_newest_and_says_how_many_are_left() {
    let store = Store::new();
    for n in 0..300 {
        store.session(n, &conversation(2));
    }
    store.file(300, b"");
    assert_eq!(store.rows(Some(3)), ids(&[299, 298, 297]));
    assert_eq!(store.rows(None).len(), 300);
    assert_eq!(store.rows(Some(0)), [""; 0]);
    assert_eq!(store::list(&store.project, Some(CWD), Some(10)).n_more, 290);
    assert_eq!(
        store::list(&ProjectDir::new("/nowhere"), None, None).rows,
        []
    );
}

#[test]
fn a_row_says_what_the_ends_of_the_file_say() {
    let store = Store::new();
    let mut records = conversation(2);
    records[0] = with(
        transcripts::user(1, None, &"ä".repeat(250)),
        "gitBranch",
        json!("main"),
    );
    records.push(transcripts::title(3, Some(2), "old"));
    records.push(transcripts::title(4, Some(3), "a name"));
    let path = store.session(7, &records);
    let row = store::list(&store.project, Some(CWD), None).rows.remove(0);
    assert_eq!(
        serde_json::to_value(&row).unwrap(),
        json!({
            "sessionId": session_id(7),
            "startTime": "2026-11-30T10:00:01.000Z",
            "mtime": 7 * 60_000,
            "prompt": format!("{}...", "ä".repeat(200)),
            "gitBranch": "main",
            "customTitle": "a name",
            "titleSource": "manual",
            "filePath": path,
            "cwd": CWD,
            "nBytes": fs::metadata(&path).unwrap().len(),
            "openElsewhere": false,
        })
    );
    let _lock = lock::acquire(&path).unwrap();
    assert!(store::list(&store.project, None, None).rows[0].open_elsewhere);
}

/// case-H05: a prompt of megabytes, and a title in the middle of nowhere.
#[test]
fn a_row_of_a_big_file_is_read_from_its_ends() {
    let store = Store::new();
    let text = format!("\"é\\n\u{1f600}{}", "long ".repeat(1 << 18));
    let mut records = vec![transcripts::user(1, None, &text)];
    store.session(1, &records);
    let row = |store: &Store| store::list(&store.project, Some(CWD), None).rows.remove(0);
    let prompt = row(&store).prompt.unwrap();
    assert!(
        prompt.starts_with("\"é\\n\u{1f600}long long") && prompt.ends_with("..."),
        "{prompt}"
    );
    assert_eq!(prompt.chars().count(), 203);
    records.push(transcripts::title(2, Some(1), "at the end"));
    records.push(transcripts::assistant(3, Some(2), "about \"custom_title\""));
    store.session(1, &records);
    assert_eq!(row(&store).title.as_deref(), Some("at the end"));
    records.push(transcripts::user(4, Some(3), &text));
    store.session(1, &records);
    assert_eq!(row(&store).title, None);
}

/// case-F04; the whole id wins, letter case does not matter.
#[test]
fn a_session_is_found_by_the_beginning_of_its_id() {
    let store = Store::new();
    for n in [1, 2, 0x100] {
        store.session(n, &conversation(1));
    }
    let found = |query: &str| store::find(&store.root, query);
    assert_eq!(found("ABC001").unwrap().session_id, session_id(0x100));
    assert_eq!(
        found(&session_id(1).to_uppercase()).unwrap().session_id,
        session_id(1)
    );
    match found("abc000") {
        Err(error @ FindError::Ambiguous { .. }) => {
            assert!(error.to_string().contains(&session_id(1)));
            assert!(error.to_string().contains(&session_id(2)));
        }
        other => panic!("{other:?}"),
    }
    for query in [
        "",
        "ffff",
        "../abc",
        "abc00001-5e55-4000-8000-000000000000x",
    ] {
        assert!(
            matches!(found(query), Err(FindError::NotFound { .. })),
            "{query}"
        );
    }
    // The same id in two projects is two sessions.
    let other = store.root.project(Path::new("/other"));
    fs::create_dir_all(other.chats_dir()).unwrap();
    fs::write(
        other.transcript(&session_id(1)),
        transcripts::file(&conversation(1)),
    )
    .unwrap();
    assert!(matches!(
        found(&session_id(1)),
        Err(FindError::Ambiguous { .. })
    ));
}

#[test]
fn an_id_is_taken_in_whatever_letter_case_and_when_archived() {
    let store = Store::new();
    store.session(1, &conversation(1));
    fs::write(
        store
            .project
            .archive_dir()
            .join(format!("{}.jsonl", session_id(2))),
        "",
    )
    .unwrap();
    assert!(store::exists(&store.project, &session_id(1).to_uppercase()));
    assert!(store::exists(&store.project, &session_id(2)));
    assert!(!store::exists(&store.project, &session_id(3)));
    assert_eq!(store::all(&store.root).len(), 2);
}

/// case-D05: “last” is the last readable one, and says what it skipped.
#[test]
fn the_newest_session_is_the_newest_that_can_be_read() {
    let store = Store::new();
    store.session(1, &conversation(2));
    store.session(
        2,
        &[with(conversation(1).remove(0), "cwd", json!("/elsewhere"))],
    );
    store.file(3, b"garbage");
    store.file(4, b"");
    let newest = store::newest(&store.project, CWD);
    assert_eq!(newest.found.unwrap().session_id, session_id(1));
    let skipped: Vec<_> = newest
        .skipped
        .iter()
        .map(|s| s.session_id.clone())
        .collect();
    assert_eq!(skipped, ids(&[4, 3]));
    assert_eq!(store::newest(&store.project, "/nowhere").found, None);
}

/// case-O05, N01.
#[test]
fn a_deletion_takes_all_of_one_session_and_nothing_of_another() {
    let store = Store::new();
    let path = store.session(1, &conversation(2));
    let other = store.session(2, &conversation(2));
    let chats = store.project.chats_dir();
    let mine = [
        chats.join(format!("{}.runtime.json", session_id(1))),
        chats.join(format!("{}.ledger.jsonl", session_id(1))),
    ];
    let subagents = store.project.subagents_dir(&session_id(1));
    let history = store.root.file_history_dir(&session_id(1));
    let fragment = store
        .root
        .log_dir()
        .join("fragments")
        .join(format!("{}-17", session_id(1)));
    fs::create_dir_all(fragment.parent().unwrap()).unwrap();
    fs::write(&fragment, "canary").unwrap();
    let kept = store.project.subagents_dir(&session_id(2));
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "x").unwrap();
    for dir in [&subagents, &history, &kept] {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("agent-1.jsonl"), "canary").unwrap();
    }
    symlink(outside.path(), history.join("link")).unwrap();
    for file in &mine {
        fs::write(file, "canary").unwrap();
    }
    let removed = store::delete(&store.root, &store.found(1)).unwrap();
    assert_eq!(removed.paths.len(), 6);
    assert_eq!(removed.paths.last(), Some(&path));
    for gone in mine.iter().chain([&path, &subagents, &history, &fragment]) {
        assert!(!gone.exists(), "{}", gone.display());
    }
    assert!(other.exists() && kept.join("agent-1.jsonl").exists());
    assert!(outside.path().join("precious").exists());
}

/// case-D06, R5.
#[test]
fn a_session_that_is_open_elsewhere_is_not_deleted() {
    let store = Store::new();
    let path = store.session(1, &conversation(2));
    let lock = lock::acquire(&path).unwrap().unwrap();
    let refused = store::delete(&store.root, &store.found(1)).unwrap_err();
    assert!(matches!(refused, DeleteError::OpenElsewhere { .. }));
    assert!(path.exists());
    drop(lock);
    store::delete(&store.root, &store.found(1)).unwrap();
}

const NEW_ID: &str = "0f0f0f0f-0000-4000-8000-000000000000";

fn forked(store: &Store, source: &Path) -> (store::Forked, PathBuf) {
    let target = store.project.transcript(NEW_ID);
    let request = Fork {
        source,
        target: &target,
        session_id: NEW_ID,
        cwd: "/new",
    };
    (store::fork(&request).unwrap(), target)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_fork_is_the_active_chain_in_a_session_of_its_own() {
    let store = Store::new();
    let old = transcripts::SESSION_ID;
    let prompt_id = format!("{old}########0");
    let telemetry = json!({"uiEvent": {"prompt_id": prompt_id, "response_text": format!("\"prompt_id\":\"{old}#")}});
    let records = [
        with(
            transcripts::user(1, None, "hi"),
            "futureField",
            json!({"a": [1, 2.50]}),
        ),
        transcripts::assistant(2, Some(1), "given up"),
        transcripts::system(3, Some(1), "session_source", json!({})),
        transcripts::system(4, Some(3), "ui_telemetry", telemetry),
        transcripts::system(5, Some(4), "future_thing", json!({"b": true})),
        with(
            transcripts::assistant(6, Some(5), "hello"),
            "forkedFrom",
            json!({"sessionId": "x", "messageUuid": "y"}),
        ),
        transcripts::title(7, Some(6), "a name"),
    ];
    let source = store.session(1, &records);
    let before = fs::read(&source).unwrap();
    let (forked, target) = forked(&store, &source);
    assert_eq!(forked.n_records, 5);
    assert_eq!(forked.tail, Some(id(7)));
    assert_eq!(forked.title.unwrap().text, "a name");
    let copied = lines(&target);
    let numbers = [1_usize, 4, 5, 6, 7];
    for (at, (copy, n)) in copied.iter().zip(numbers).enumerate() {
        let mut expected = records[n - 1].clone();
        expected["sessionId"] = json!(NEW_ID);
        expected["cwd"] = json!("/new");
        expected["parentUuid"] = json!((at > 0).then(|| id(numbers[at - 1] as u64)));
        expected["forkedFrom"] = json!({"sessionId": old, "messageUuid": id(n as u64)});
        if n == 4 {
            expected["systemPayload"]["uiEvent"]["prompt_id"] = json!(format!("{NEW_ID}########0"));
        }
        assert_eq!(*copy, expected);
    }
    assert_eq!(copied.len(), numbers.len());
    assert_eq!(
        fs::metadata(&target).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(fs::read(&source).unwrap(), before);
    assert_eq!(
        fs::read_dir(store.project.chats_dir()).unwrap().count(),
        3,
        "two sessions and the archive"
    );
    assert!(verify(&target).unwrap().sound());
}

/// R27: a copy does not look more complete than its original.
#[test]
fn a_fork_keeps_its_gaps_visible() {
    let store = Store::new();
    let mut records = conversation(5);
    records[3] = transcripts::system(4, Some(3), "turn_result", json!({}));
    records.remove(2);
    let source = store.session(1, &records);
    let (forked, target) = forked(&store, &source);
    // The record behind the gap is left out; the gap is not.
    assert_eq!((forked.n_records, forked.n_gaps), (3, 1));
    let loaded = load(&target).unwrap();
    let gaps: Vec<_> = loaded
        .records
        .iter()
        .map(|record| record.gap_before)
        .collect();
    assert_eq!(gaps, [false, false, true]);
    assert!(!verify(&target).unwrap().sound());
}

#[test]
fn a_fork_copies_all_parts_of_a_record_and_what_only_raw_text_can_hold() {
    let store = Store::new();
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let half = transcripts::line(&transcripts::assistant(2, Some(1), "DEEP"));
    let half = String::from_utf8(half).unwrap();
    let half = half.replace("\"DEEP\"", &format!("\"x\\ud83d\",\"more\":{deep}"));
    let part = transcripts::line(&transcripts::assistant(2, Some(1), " and more"));
    let first = transcripts::line(&conversation(1)[0]);
    let source = store.file(1, &[&first, half.as_bytes(), &part].concat());
    let (forked, target) = forked(&store, &source);
    assert_eq!(forked.n_records, 2);
    let texts: Vec<_> = load(&target).unwrap().records[1]
        .content()
        .unwrap()
        .parts
        .into_iter()
        .filter_map(|part| part.text)
        .collect();
    assert_eq!(texts, ["x\u{fffd}", " and more"]);
    assert!(fs::read_to_string(&target).unwrap().contains(&deep));
}

/// case-A03: a fork that could not be made is an error and leaves nothing.
#[test]
fn a_fork_that_fails_leaves_nothing() {
    let store = Store::new();
    let source = store.session(1, &conversation(2));
    let target = store.session(2, &conversation(1));
    let before = fs::read(&target).unwrap();
    let n_files = || fs::read_dir(store.project.chats_dir()).unwrap().count();
    let n_before = n_files();
    let fork = |source: &Path, target: &Path| {
        store::fork(&Fork {
            source,
            target,
            session_id: NEW_ID,
            cwd: "/new",
        })
        .unwrap_err()
    };
    assert!(matches!(fork(&source, &target), ForkError::Exists { .. }));
    assert_eq!(fs::read(&target).unwrap(), before);
    let new = store.project.transcript(NEW_ID);
    assert!(matches!(
        fork(&store.project.transcript("none"), &new),
        ForkError::Read(_)
    ));
    let empty = store.file(3, b"garbage\n");
    assert!(matches!(fork(&empty, &new), ForkError::Empty));
    assert_eq!(n_files(), n_before + 1);
    let below_a_file = source.join("x.jsonl");
    let failed = fork(&source, &below_a_file);
    assert!(matches!(failed, ForkError::Write { .. }));
    // R28.
    assert!(!failed.to_string().contains(source.to_str().unwrap()));
}
