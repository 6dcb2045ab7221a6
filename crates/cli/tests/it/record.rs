//! The record at the ends of a run: the waits of R13, strict runs (B6), `off`, privacy, and what the
//! file looks like.

use std::{fs, io::Read, os::unix::fs::PermissionsExt, process::Stdio};

use testkit::{
    faults::{fsize_limit, shim},
    home::Home,
    run::{Outcome, read_until, run},
};
use wire::words;

use crate::world::{
    ONRECORD, command, degraded, messages, onrecord, onrecord_under, result, shell, transcript,
    valid_prefix, yolo,
};

/// R13: the result does not wait longer than its two seconds, the write is not cancelled, and the
/// process waits on for it.
#[test]
fn a_slow_write_is_pending_in_the_result_and_saved_at_the_end() {
    let Some(fault) = shim("write:slow=3000:after=1,times=1,in=.jsonl") else {
        return;
    };
    let home = Home::new();
    let ran = onrecord_under(
        &home,
        &fault,
        &["--model", "offline", "-o", "json", "-p", "hello"],
    );
    assert_eq!(ran.code, 0);
    assert_eq!(result(&ran)["recording"]["state"], "pending", "{ran:?}");
    assert!(
        !ran.stderr.contains(words::NOT_CONFIRMED_LINE),
        "it was confirmed in time: {ran:?}"
    );
    assert_eq!(valid_prefix(&transcript(&home)).len(), 2);
}

/// R13, R27: what is not confirmed when the process ends is said in one line, in every format.
#[test]
fn a_write_that_does_not_come_back_is_said_not_to_be_confirmed() {
    let Some(fault) = shim("write:slow=30000:after=1,in=.jsonl") else {
        return;
    };
    for format in ["text", "json", "stream-json"] {
        let home = Home::new();
        let ran = onrecord_under(
            &home,
            &fault,
            &["--model", "offline", "-o", format, "-p", "hello"],
        );
        assert_eq!(ran.code, 0, "R26");
        assert_eq!(
            ran.stderr.matches(words::NOT_CONFIRMED_LINE).count(),
            1,
            "{ran:?}"
        );
        if format != "text" {
            assert!(degraded(&ran).is_empty(), "not confirmed is not failed");
        }
    }
}

/// R13: a failure that is found after the result is said in one line on standard error.
#[test]
fn a_failure_after_the_result_is_said_once() {
    let Some(fault) = shim("write:slow=4000:after=1,times=1,in=.jsonl") else {
        return;
    };
    for format in ["text", "stream-json"] {
        let home = Home::new();
        let mut child = home
            .command_under(&fault, ONRECORD)
            .args(["--model", "offline", "-o", format, "-p", "hello"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut seen = read_until(
            &mut stdout,
            if format == "text" {
                ""
            } else {
                "\"type\":\"result\""
            },
        );
        fs::remove_file(transcript(&home)).unwrap();
        stdout.read_to_string(&mut seen).unwrap();
        let ran = Outcome::from(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 0);
        assert_eq!(
            ran.stderr.matches(words::FAILED_SINCE_LINE).count(),
            1,
            "{format}: {ran:?}"
        );
        assert!(
            !ran.stderr.contains(words::DEGRADED_LINE),
            "told once: {ran:?}"
        );
        assert!(
            !seen.contains("session_recording_degraded"),
            "nothing follows a result"
        );
    }
}

/// B6: a strict run without a first record does not call the model.
#[test]
fn a_required_record_that_cannot_begin_stops_the_run_with_74() {
    let home = Home::new();
    let file = home.path().join("file");
    fs::write(&file, "in the way").unwrap();
    for format in ["text", "json", "stream-json"] {
        let ran = run(command(&home).env("ONRECORD_HOME", &file).args([
            "--model",
            "offline",
            "--require-recording",
            "-o",
            format,
            "-p",
            "hello",
        ]));
        assert_eq!(ran.code, 74, "{ran:?}");
        let said = if format == "stream-json" {
            result(&ran)["error"]["message"].to_string()
        } else {
            ran.stderr.clone()
        };
        assert!(said.contains("--require-recording"), "{ran:?}");
        assert_eq!(
            said.matches("model was not called").count(),
            1,
            "told once: {ran:?}"
        );
        if format == "text" {
            assert!(ran.stdout.is_empty());
        } else {
            assert!(
                messages(&ran)
                    .iter()
                    .all(|message| message["type"] != "assistant")
            );
            assert_eq!(result(&ran)["is_error"], true);
        }
    }
}

/// B6: 74 replaces 0 only, and the work's result is that of the work.
#[test]
fn a_required_record_that_is_lost_on_the_way_ends_a_good_run_with_74() {
    let Some(fault) = fsize_limit(4096) else {
        return;
    };
    let home = Home::new();
    let prompt = shell("seq 1 3000");
    let mut args = yolo("json", &prompt);
    args.push("--require-recording");
    let ran = onrecord_under(&home, &fault, &args);
    assert_eq!(ran.code, 74);
    assert_eq!(result(&ran)["subtype"], "success", "R26");
    assert_eq!(ran.stderr.matches(words::REQUIRED_BUT_LOST_LINE).count(), 1);

    args.extend(["--max-session-turns", "1"]);
    let ran = onrecord_under(&Home::new(), &fault, &args);
    assert_eq!(ran.code, 53, "only success is replaced");
    let ran = onrecord(
        &Home::new(),
        &["--model", "offline", "--require-recording", "-p", "hi"],
    );
    assert_eq!(ran.code, 0);
}

/// case-O08, B1: off is off.
#[test]
fn a_run_that_is_not_recorded_writes_nothing_and_says_so() {
    let home = Home::new();
    for flag in ["--no-chat-recording", "--chat-recording=false"] {
        let ran = onrecord(
            &home,
            &["--model", "offline", flag, "-o", "json", "-p", "hello"],
        );
        assert_eq!(result(&ran)["recording"]["state"], "off");
        assert!(
            degraded(&ran).is_empty() && ran.stderr.is_empty(),
            "{ran:?}"
        );
    }
    assert!(!home.data_root().exists(), "nothing is written");
}

/// case-O01: other users cannot read a record, whatever the mask.
#[test]
fn files_are_0600_and_folders_0700() {
    let home = Home::new();
    let ran = run(home.command("sh").args([
        "-c",
        "umask 000; exec \"$@\"",
        "sh",
        ONRECORD,
        "--model",
        "offline",
        "-p",
        "hello",
    ]));
    assert_eq!(ran.code, 0);
    let mut folders = vec![home.data_root()];
    while let Some(folder) = folders.pop() {
        assert_eq!(
            fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
            0o700
        );
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                assert_eq!(
                    fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                    0o600
                );
            }
        }
    }
}

/// The file as other programs of the format expect it.
#[test]
fn a_record_has_the_fields_of_the_format_in_their_order() {
    let home = Home::new();
    let prompt = shell("echo hi");
    onrecord(&home, &yolo("text", &prompt));
    let path = transcript(&home);
    let text = fs::read_to_string(&path).unwrap();
    let first = text.lines().next().unwrap();
    let mut at = 0;
    for key in [
        "uuid",
        "parentUuid",
        "sessionId",
        "timestamp",
        "type",
        "provenance",
        "cwd",
        "version",
        "message",
    ] {
        let found = first
            .find(&format!("\"{key}\":"))
            .unwrap_or_else(|| panic!("{key}: {first}"));
        assert!(found >= at, "{key} is out of order: {first}");
        at = found;
    }
    let records = valid_prefix(&path);
    let kinds: Vec<_> = records
        .iter()
        .map(|r| (r["type"].clone(), r["provenance"].clone()))
        .collect();
    assert_eq!(
        kinds,
        [
            ("user".into(), "real_user".into()),
            ("assistant".into(), "assistant_output".into()),
            ("tool_result".into(), "tool_result".into()),
            ("assistant".into(), "assistant_output".into()),
        ]
    );
    let project = path
        .ancestors()
        .nth(2)
        .unwrap()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap();
    let cwd = home
        .workspace()
        .to_str()
        .unwrap()
        .replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    assert_eq!(project, cwd);
    assert_eq!(records[0]["cwd"], home.workspace().to_str().unwrap());
}

/// case-A07: the smallest turn is kept, and remembered.
#[test]
fn a_session_remembers_what_was_said() {
    let home = Home::new();
    onrecord(&home, &["--model", "offline", "-p", "my name is Zaphod"]);
    let ran = onrecord(
        &home,
        &[
            "--model",
            "offline",
            "--continue",
            "-p",
            "what did I say first?",
        ],
    );
    assert!(ran.stdout.contains("Zaphod"), "{ran:?}");
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4);
}

/// A model that may edit everything in its workspace may not edit the record that lies there.
#[test]
fn a_file_tool_does_not_change_the_record() {
    let home = Home::new();
    let data_root = home.workspace().join(".onrecord");
    let run_at = |prompt: &str| {
        let mut command = command(&home);
        run(command
            .env("ONRECORD_HOME", &data_root)
            .args(yolo("json", prompt)))
    };
    run_at("hello");
    let file = testkit::home::transcripts_under(&data_root).remove(0);
    let before = fs::read(&file).unwrap();
    for (name, args) in [
        (
            "write_file",
            serde_json::json!({"file_path": file, "content": ""}),
        ),
        (
            "edit",
            serde_json::json!({"file_path": file, "old_string": "hello", "new_string": "bye"}),
        ),
    ] {
        let ran = run_at(&crate::world::tool(name, &args));
        assert!(ran.stdout.contains("belongs to the record"), "{ran:?}");
        assert_eq!(fs::read(&file).unwrap(), before);
    }
}
