//! What a second output says, whatever standard output is.

use std::{fs, os::unix::fs::PermissionsExt, process::Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{
    faults::shim,
    home::Home,
    run::{Outcome, read_until, run},
};

use wire::words;

use super::{FORMATS, kinds, read};
use crate::{
    driven::{Host, of_subtype, of_type},
    world::{ONRECORD, command, degraded, messages, onrecord, result, shell, yolo},
};

/// What came before it is not said again, and it begins and ends with the session.
#[test]
fn every_format_has_the_same_second_output() {
    for format in FORMATS {
        let home = Home::new();
        let path = home.path().join("output");
        let file = path.to_str().unwrap();
        let args = [
            "--model",
            "offline",
            "-o",
            format,
            "--json-file",
            file,
            "-p",
        ];
        let ran = run(command(&home).args(args).arg("SAY 2 chunks"));
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{format}");
        let seen = read(&path);
        assert_eq!(
            kinds(&seen),
            [
                "session_start",
                "user",
                "message_start",
                "content_block_start",
                "content_block_delta",
                "content_block_delta",
                "content_block_stop",
                "assistant",
                "message_stop",
                "result",
                "session_end",
            ],
            "{format}"
        );
        let id = &seen[0]["session_id"];
        let start = &seen[0]["data"];
        assert_eq!(&start["session_id"], id);
        assert_eq!(start["cwd"], home.workspace().to_str().unwrap());
        assert_eq!(start["protocol_version"], 2);
        for kind in of_kinds(&seen) {
            assert!(
                start["supported_events"]
                    .as_array()
                    .unwrap()
                    .contains(&kind)
            );
        }
        assert_eq!(
            seen[1]["message"]["content"],
            json!([{"type": "text", "text": "SAY 2 chunks"}])
        );
        let end = &seen.last().unwrap()["data"];
        assert_eq!(&end["session_id"], id);
        assert_eq!(end["recording"]["state"], "saved");
        assert!(seen.iter().all(|message| &message["session_id"] == id));
        if format != "text" {
            assert_eq!(&result(&ran)["session_id"], id);
            assert_eq!(
                kinds(&messages(&ran))[0],
                "init",
                "standard output is as ever"
            );
            assert!(of_type(&messages(&ran), "user").is_empty());
        }
    }
}

fn of_kinds(messages: &[Value]) -> Vec<Value> {
    messages.iter().map(|m| m["type"].clone()).collect()
}

#[test]
fn a_file_is_appended_to_and_never_overwritten() {
    let home = Home::new();
    let path = home.path().join("output");
    let file = path.to_str().unwrap();
    let old = "{\"type\":\"old\"}\n";
    fs::write(&path, old.repeat(1_000)).unwrap();
    let args = [
        "--model",
        "offline",
        "--json-file",
        file,
        "-p",
        "SAY 1 chunks",
    ];
    for _ in 0..2 {
        assert_eq!(onrecord(&home, &args).code, 0);
    }
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .starts_with(&old.repeat(1_000))
    );
    let seen = read(&path);
    assert_eq!(of_subtype(&seen, "session_start").len(), 2);
    assert_eq!(of_subtype(&seen, "session_end").len(), 2);
}

/// case-O01: what a session says is for its user alone.
#[test]
fn a_new_file_is_0600() {
    let home = Home::new();
    let script = "umask 000; exec \"$@\"";
    let ran = run(home
        .command("sh")
        .args(["-c", script, "sh", ONRECORD])
        .args([
            "--model",
            "offline",
            "--json-file",
            "../output",
            "-p",
            "SAY 1 chunks",
        ]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let path = home.path().join("output");
    let mode = fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_new_session_is_announced_and_the_end_is_that_of_the_session_of_now() {
    let home = Home::new();
    let path = home.path().join("output");
    let mut host = Host::offline(&home, &["--json-file", path.to_str().unwrap()]);
    let old = host.turn("SAY 1 chunks")["session_id"].clone();
    let new = host.turn("/clear")["session_id"].clone();
    host.turn("SAY 1 chunks");
    assert_eq!(host.end().code, 0);
    let seen = read(&path);
    let changed = of_subtype(&seen, "session_changed");
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0]["session_id"], new);
    assert_eq!(changed[0]["data"]["previous_session_id"], old);
    assert_eq!(changed[0]["data"]["previous_recording"]["state"], "saved");
    assert_eq!(of_subtype(&seen, "session_start").len(), 1);
    let end = seen.last().unwrap();
    assert_eq!(
        (&end["session_id"], &end["data"]["session_id"]),
        (&new, &new)
    );
    let said: Vec<&Value> = of_type(&seen, "user")
        .iter()
        .map(|user| &user["message"]["content"][0]["text"])
        .collect();
    assert_eq!(said, ["SAY 1 chunks", "/clear", "SAY 1 chunks"]);
}

/// R12, R26, B1, case-L01: one line on each output, before the result.
#[test]
fn a_failure_is_told_once_on_each_output() {
    for format in FORMATS {
        let home = Home::new();
        let path = home.path().join("output");
        let prompt = shell("rm -r \"$ONRECORD_HOME\"/projects");
        let mut args = yolo(format, &prompt);
        args.extend(["--json-file", path.to_str().unwrap()]);
        let ran = onrecord(&home, &args);
        assert_eq!(ran.code, 0, "{format}: {ran:?}");
        let seen = read(&path);
        let notices = of_subtype(&seen, "session_recording_degraded");
        assert_eq!(notices.len(), 1, "{format}");
        assert_eq!(notices[0]["session_id"], seen[0]["session_id"]);
        assert_eq!(notices[0]["data"]["session_id"], seen[0]["session_id"]);
        assert_eq!(notices[0]["data"]["class"], "gone");
        let at = |kind: &str| kinds(&seen).iter().position(|k| k == kind).unwrap();
        assert!(at("session_recording_degraded") < at("result"));
        assert_eq!(seen[at("result")]["recording"]["state"], "degraded");
        let end = seen.last().unwrap();
        assert_eq!(end["subtype"], "session_end");
        assert_eq!(end["data"]["recording"]["state"], "degraded");
        if format == "text" {
            assert_eq!(ran.stderr.matches(words::DEGRADED_LINE).count(), 1);
        } else {
            assert_eq!(degraded(&ran).len(), 1);
            assert_eq!(result(&ran)["recording"]["state"], "degraded");
        }
    }
}

/// R10, R13: the second output is open to the end, and its end says how the record was left.
#[test]
fn a_failure_after_the_result_is_told_on_the_second_output() {
    let Some(fault) = shim("write:slow=4000:after=1,times=1,in=.jsonl") else {
        return;
    };
    let home = Home::new();
    let path = home.path().join("output");
    let mut child = home
        .command_under(&fault, ONRECORD)
        .args([
            "--model",
            "offline",
            "-o",
            "stream-json",
            "-p",
            "SAY 1 chunks",
        ])
        .args(["--json-file", path.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    read_until(child.stdout.as_mut().unwrap(), "\"type\":\"result\"");
    fs::remove_file(crate::world::transcript(&home)).unwrap();
    let ran = Outcome::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 0);
    assert_eq!(
        ran.stdout, "",
        "nothing follows the result of a one-shot run"
    );
    assert_eq!(
        ran.stderr.matches(words::FAILED_SINCE_LINE).count(),
        1,
        "{ran:?}"
    );
    let seen = read(&path);
    let kinds = kinds(&seen);
    assert_eq!(
        kinds[kinds.len() - 3..],
        ["result", "session_recording_degraded", "session_end"]
    );
    assert_eq!(
        seen.last().unwrap()["data"]["recording"]["state"],
        "degraded"
    );
}

#[test]
fn a_cancelled_run_ends_its_second_output() {
    let home = Home::new();
    let path = home.path().join("output");
    let mut host = Host::offline(
        &home,
        &[
            "--json-file",
            path.to_str().unwrap(),
            "--include-partial-messages",
        ],
    );
    host.prompt("SAY 100000 chunks every 5");
    host.until("a delta", |m| m["event"]["type"] == "content_block_delta");
    host.process().signal(Signal::TERM);
    assert_eq!(host.wait().code, 130);
    let seen = read(&path);
    let kinds = kinds(&seen);
    assert_eq!(kinds[kinds.len() - 2..], ["result", "session_end"]);
}

/// case-E04: readers that split at other line ends must not split ours.
#[test]
fn line_separators_are_escaped() {
    let home = Home::new();
    let path = home.path().join("output");
    let prompt = shell("printf 'a\\342\\200\\250b\\302\\205c'");
    let mut args = yolo("text", &prompt);
    let file = path.to_str().unwrap();
    args.extend(["--json-file", file]);
    onrecord(&home, &args);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains('\u{2028}') && !text.contains('\u{85}'));
    assert!(
        Value::from(read(&path))
            .to_string()
            .contains("a\u{2028}b\u{85}c")
    );
}

/// What a model must not read or write is not handed to what it runs.
#[test]
fn programs_that_tools_start_do_not_get_the_second_output() {
    let home = Home::new();
    let path = home.path().join("output");
    let prompt = shell("ls -l /proc/self/fd");
    let file = path.to_str().unwrap();
    let mut args = yolo("json", &prompt);
    args.extend(["--json-file", file]);
    let ran = onrecord(&home, &args);
    let with_file = ran.stdout;
    let mut args = yolo("json", &prompt);
    args.extend(["--json-fd", "7"]);
    let script = format!("exec \"$@\" 7>>'{file}'");
    let ran = run(home
        .command("bash")
        .args(["-c", &script, "bash", ONRECORD])
        .args(args));
    assert_eq!(ran.code, 0, "{ran:?}");
    for said in [with_file, ran.stdout] {
        assert!(said.contains("/proc/"), "the command ran: {said}");
        assert!(!said.contains(file), "{said}");
    }
    assert_eq!(of_subtype(&read(&path), "session_end").len(), 2);
}
