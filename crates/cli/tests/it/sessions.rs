//! Stored sessions from the command line.

use std::{fs, process::Stdio};

use serde_json::Value;
use testkit::{home::Home, run::read_until};

use crate::world::{command, onrecord, result, transcript, valid_prefix, yolo};

const FIRST: &str = "11111111-0000-4000-8000-000000000001";

fn first_session(home: &Home) {
    onrecord(
        home,
        &[
            "--model",
            "offline",
            "--session-id",
            FIRST,
            "-p",
            "my first prompt",
        ],
    );
}

#[test]
fn a_session_is_listed_shown_renamed_exported_and_deleted() {
    let home = Home::new();
    first_session(&home);
    let list = onrecord(&home, &["sessions", "list"]);
    assert!(list.stdout.contains(FIRST) && list.stdout.contains("my first prompt"));
    assert!(
        onrecord(&home, &["sessions", "show", "1111"])
            .stdout
            .contains("my first prompt")
    );

    let renamed = onrecord(&home, &["sessions", "rename", FIRST, "a better name"]);
    assert_eq!(renamed.code, 0, "{renamed:?}");
    let records = valid_prefix(&transcript(&home));
    assert_eq!(
        records.last().unwrap()["systemPayload"]["customTitle"],
        "a better name"
    );
    let list = onrecord(&home, &["sessions", "list", "--json"]);
    let row: Value = serde_json::from_str(list.stdout.trim()).unwrap();
    assert_eq!(row["sessionId"], FIRST);
    assert_eq!(row["customTitle"], "a better name");

    let export = onrecord(&home, &["sessions", "export", FIRST, "--format", "json"]);
    let export: Value = serde_json::from_str(&export.stdout).unwrap();
    assert_eq!(export["sessionId"], FIRST);
    assert!(
        onrecord(&home, &["sessions", "export", FIRST])
            .stdout
            .contains("my first prompt")
    );

    let deleted = onrecord(&home, &["sessions", "delete", FIRST]);
    assert_eq!(deleted.code, 0);
    assert!(
        deleted.stdout.contains(&format!("chats/{FIRST}.jsonl")),
        "what went is listed"
    );
    let data_root = home.data_root();
    assert!(!deleted.stdout.contains(data_root.to_str().unwrap()), "R28");
    assert!(home.transcripts().is_empty());
}

/// Invariant 3.
#[test]
fn verify_finds_damage_with_65_and_writes_nothing() {
    let home = Home::new();
    first_session(&home);
    let path = transcript(&home);
    assert_eq!(onrecord(&home, &["sessions", "verify", FIRST]).code, 0);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"uuid\":\"half\n");
    fs::write(&path, &bytes).unwrap();
    let ran = onrecord(&home, &["sessions", "verify", "--all", "--json"]);
    assert_eq!(ran.code, 65);
    let report: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert_eq!(report["sound"], false);
    assert_eq!(report["nRecords"], 2);
    assert_eq!(report["target"], FIRST);
    assert!(
        !ran.stdout.contains(home.data_root().to_str().unwrap()),
        "R28"
    );
    assert_eq!(fs::read(&path).unwrap(), bytes, "verify never writes");
}

/// B3, case-D01: a torn tail is cut at the next open, kept beside the local log, and never glued to.
#[test]
fn a_torn_tail_is_cut_before_the_next_record_and_kept() {
    let home = Home::new();
    first_session(&home);
    let path = transcript(&home);
    let whole = fs::read(&path).unwrap();
    let torn = b"{\"uuid\":\"torn\",\"message\":\"hal";
    fs::write(&path, [&whole[..], torn].concat()).unwrap();
    let ran = onrecord(
        &home,
        &[
            "--model", "offline", "-o", "json", "-r", FIRST, "-p", "go on",
        ],
    );
    assert_eq!(result(&ran)["recording"]["state"], "saved", "{ran:?}");
    assert!(ran.stderr.contains("damaged"), "damage is shown: {ran:?}");
    assert_eq!(valid_prefix(&path).len(), 4);
    assert!(fs::read(&path).unwrap().starts_with(&whole));
    let fragments = home.data_root().join("log/fragments");
    let kept = fs::read_dir(fragments)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert_eq!(fs::read(kept).unwrap(), torn);
}

/// B3: a whole last record without its line feed gets one.
#[test]
fn a_last_record_without_a_line_feed_is_kept() {
    let home = Home::new();
    first_session(&home);
    let path = transcript(&home);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    onrecord(&home, &["--model", "offline", "-r", FIRST, "-p", "go on"]);
    assert_eq!(valid_prefix(&path).len(), 4);
    assert!(fs::read(&path).unwrap().starts_with(&whole));
}

/// R5, case-G01, case-D06: a second opener and a deletion are refused with the mend.
#[test]
fn a_session_that_is_open_is_not_opened_again_nor_deleted() {
    let home = Home::new();
    let mut child = command(&home)
        .args([
            "--model",
            "offline",
            "--session-id",
            FIRST,
            "-o",
            "stream-json",
        ])
        .args([
            "--include-partial-messages",
            "-p",
            "SAY 2000 chunks every 20",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    read_until(child.stdout.as_mut().unwrap(), "text_delta");
    let second = onrecord(&home, &["--model", "offline", "-r", FIRST, "-p", "me too"]);
    let renamed = onrecord(&home, &["sessions", "rename", FIRST, "name"]);
    let deleted = onrecord(&home, &["sessions", "delete", FIRST]);
    let list = onrecord(&home, &["sessions", "list"]);
    let forked = onrecord(
        &home,
        &[
            "--model",
            "offline",
            "-o",
            "json",
            "-r",
            FIRST,
            "--fork-session",
            "-p",
            "me too",
        ],
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(second.code, 1);
    assert!(second.stderr.contains("--fork-session"), "{second:?}");
    assert_eq!((renamed.code, deleted.code), (1, 1), "{deleted:?}");
    assert!(list.stdout.contains("(open)"), "{list:?}");
    assert_eq!(forked.code, 0, "{forked:?}");
    assert_ne!(result(&forked)["session_id"], FIRST);
    assert_eq!(home.transcripts().len(), 2);
}

#[test]
fn a_fork_is_a_session_of_its_own_with_the_same_conversation() {
    let home = Home::new();
    first_session(&home);
    let before = fs::read(transcript(&home)).unwrap();
    let args = [
        "--model",
        "offline",
        "-o",
        "json",
        "-c",
        "--fork-session",
        "-p",
        "what did I say first?",
    ];
    let ran = onrecord(&home, &args);
    let result = result(&ran);
    assert_ne!(result["session_id"], FIRST);
    assert!(
        result["result"]
            .as_str()
            .unwrap()
            .contains("my first prompt"),
        "{ran:?}"
    );
    let transcripts = home.transcripts();
    let original = transcripts
        .iter()
        .find(|path| path.to_string_lossy().contains(FIRST))
        .unwrap();
    assert_eq!(fs::read(original).unwrap(), before);
    let copy = transcripts
        .iter()
        .find(|path| !path.to_string_lossy().contains(FIRST))
        .unwrap();
    assert_eq!(valid_prefix(copy).len(), 4);
}

/// case-D05: one that cannot be read hides no other.
#[test]
fn continue_takes_the_last_readable_session_and_says_what_it_skipped() {
    let home = Home::new();
    first_session(&home);
    let broken = transcript(&home).with_file_name("22222222-0000-4000-8000-000000000002.jsonl");
    fs::write(&broken, "no json at all\n").unwrap();
    // Newer for sure: clocks of file systems are coarse.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    fs::File::open(&broken)
        .unwrap()
        .set_modified(later)
        .unwrap();
    let ran = onrecord(
        &home,
        &["--model", "offline", "-o", "json", "-c", "-p", "go on"],
    );
    assert_eq!(result(&ran)["session_id"], FIRST);
    assert!(ran.stderr.contains("22222222"), "{ran:?}");
    assert_eq!(fs::read_to_string(broken).unwrap(), "no json at all\n");
}

/// case-N01: projects whose folders have the same name do not see each other's sessions.
#[test]
fn projects_with_the_same_folder_name_are_distinct() {
    let home = Home::new();
    for name in ["проект", "프로젝트"] {
        let cwd = home.path().join(name);
        fs::create_dir(&cwd).unwrap();
        let run = |args: &[&str]| testkit::run::run(command(&home).current_dir(&cwd).args(args));
        run(&["--model", "offline", "-p", name]);
        let list = run(&["sessions", "list"]);
        assert_eq!(list.stdout.lines().count(), 1, "{list:?}");
        assert!(list.stdout.contains(name));
    }
}

/// B4, case-O04: the machine's own person is told what a client is not.
#[test]
fn doctor_names_the_failure_its_place_and_its_mend() {
    let home = Home::new();
    let Some(fault) = testkit::faults::fsize_limit(4096) else {
        return;
    };
    let prompt = crate::world::shell("seq 1 3000");
    crate::world::onrecord_under(&home, &fault, &yolo("text", &prompt));
    let ran = onrecord(&home, &["doctor"]);
    assert_eq!(
        ran.code, 0,
        "a session that starts now is recorded: {ran:?}"
    );
    for word in [
        "too_large",
        "ulimit -f",
        transcript(&home).to_str().unwrap(),
    ] {
        assert!(ran.stdout.contains(word), "{word}: {ran:?}");
    }
    let json: Value = serde_json::from_str(&onrecord(&home, &["doctor", "--json"]).stdout).unwrap();
    assert_eq!(json["failures"][0]["class"], "too_large");
    assert_eq!(json["ok"], true);
}

/// B4: where the log cannot lie beside the transcripts, it lies elsewhere.
#[test]
fn a_failure_is_logged_elsewhere_where_the_data_root_cannot_be_written() {
    let home = Home::new();
    let file = home.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let with_root =
        |args: &[&str]| testkit::run::run(command(&home).env("ONRECORD_HOME", &file).args(args));
    with_root(&["--model", "offline", "-p", "hello"]);
    assert!(home.run_dir().join("onrecord/recording.jsonl").exists());
    let ran = with_root(&["doctor"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("no folder"), "{ran:?}");
}
