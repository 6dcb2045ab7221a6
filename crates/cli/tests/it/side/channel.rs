//! Where a second output goes, and what becomes of the run where it goes nowhere.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use serde_json::Value;
use testkit::{
    driven::{WAIT_MAX, lines_of},
    home::Home,
    run::{Outcome, run},
    stub_model::{Reply, StubModel},
};
use wire::words;

use super::{FORMATS, kinds, read};
use crate::{
    driven::{Host, of_subtype, of_type},
    world::{ONRECORD, command, messages, result},
};

const PROMPT: [&str; 4] = ["--model", "offline", "-p", "SAY 1 chunks"];

fn fifo(home: &Home) -> PathBuf {
    let path = home.path().join("fifo");
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    path
}

/// Runs the binary through a shell that opens descriptors.
fn with_descriptors(home: &Home, redirections: &str, args: &[&str]) -> Outcome {
    let script = format!("exec \"$@\" {redirections}");
    run(home
        .command("bash")
        .args(["-c", &script, "bash", ONRECORD])
        .args(args))
}

#[test]
fn a_descriptor_that_is_handed_over_is_written_at_its_place() {
    let home = Home::new();
    let path = home.path().join("output");
    fs::write(&path, "{\"type\":\"old\"}\n").unwrap();
    for (n_before, redirection) in [(1, "3>>"), (1, "3<>")] {
        let redirections = format!("{redirection}'{}'", path.display());
        let mut args = PROMPT.to_vec();
        args.extend(["--json-fd", "3"]);
        let ran = with_descriptors(&home, &redirections, &args);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        let seen = read(&path);
        let kinds = kinds(&seen);
        assert_eq!(kinds.last().unwrap(), "session_end");
        if redirection == "3>>" {
            assert_eq!(kinds[..2][n_before..], ["session_start"], "appended");
        }
        // The second run finds its descriptor at the beginning of the file, which is its opener's will.
        fs::write(&path, "").unwrap();
    }
}

/// One line, with the mend and without a path; the run is as without it (R28).
fn assert_without_second_output(name: &str, ran: &Outcome) {
    assert_eq!(ran.code, 0, "{name}: {ran:?}");
    assert_eq!(ran.stdout, "hello world \n", "{name}");
    assert_eq!(ran.stderr.lines().count(), 1, "{name}: {ran:?}");
    assert!(
        ran.stderr
            .starts_with("Warning: there is no second output: --json-"),
        "{ran:?}"
    );
    for canary in ["os error", "onrecord-home-", "/tmp"] {
        assert!(!ran.stderr.contains(canary), "{name}: {ran:?}");
    }
}

#[test]
fn a_descriptor_that_cannot_be_written_is_one_warning_and_the_run_goes_on() {
    for (number, redirections) in [
        ("3", "3>&-"),
        ("9", "9>&-"),
        ("1000000", ""),
        ("0", ""),
        ("1", ""),
        ("2", ""),
        ("3", "3</dev/null"),
        ("3", "3<."),
    ] {
        let home = Home::new();
        let mut args = PROMPT.to_vec();
        args.extend(["--json-fd", number]);
        let ran = with_descriptors(&home, redirections, &args);
        assert_without_second_output(&format!("{number} {redirections}"), &ran);
        assert!(ran.stderr.contains(number));
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_one_warning_and_the_run_goes_on() {
    let home = Home::new();
    let workspace = home.workspace();
    fs::write(workspace.join("file"), "text").unwrap();
    symlink("no-such-folder/file", workspace.join("dangling")).unwrap();
    symlink("loop", workspace.join("loop")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(workspace.join("socket")).unwrap();
    for path in [
        ".",
        "no-such-folder/file",
        "file/below",
        "dangling",
        "loop",
        "socket",
    ] {
        let ran = run(command(&home).args(PROMPT).args(["--json-file", path]));
        assert_without_second_output(path, &ran);
    }
    assert_eq!(fs::read_to_string(workspace.join("file")).unwrap(), "text");
}

#[test]
fn both_ways_at_once_are_a_usage_error() {
    let home = Home::new();
    let ran = run(command(&home)
        .args(PROMPT)
        .args(["--json-file", "output", "--json-fd", "3"]));
    assert_ne!(ran.code, 0);
    assert!(ran.stdout.is_empty() && !home.workspace().join("output").exists());
}

/// The warning is a line of standard error in text, and a message elsewhere.
fn assert_warned_once(format: &str, ran: &Outcome, line: &str) {
    assert_eq!(ran.code, 0, "{format}: {ran:?}");
    if format == "text" {
        assert_eq!(ran.stderr.lines().collect::<Vec<_>>(), [line]);
        return;
    }
    assert_eq!(ran.stderr, "", "{format}");
    let messages = messages(ran);
    let warnings = of_subtype(&messages, "warning");
    assert_eq!(warnings.len(), 1, "{format}");
    assert_eq!(warnings[0]["data"]["message"], line);
    assert_eq!(result(ran)["subtype"], "success");
}

/// case-L08: whoever watches may go away at any time.
#[test]
fn a_reader_that_goes_away_is_one_warning_and_the_run_goes_on() {
    for format in FORMATS {
        let home = Home::new();
        let args = [
            "--model",
            "offline",
            "-o",
            format,
            "--json-fd",
            "3",
            "-p",
            "SAY 300 chunks every 1",
        ];
        let ran = with_descriptors(&home, "3> >(head -n 1 >/dev/null)", &args);
        assert_warned_once(format, &ran, words::SIDE_OUTPUT_GONE_LINE);
        let answer = "hello world ".repeat(300);
        assert!(ran.stdout.contains(&answer), "{format}");
    }
}

/// A disk that is full under the second output is no failure of the record.
#[test]
fn an_output_that_cannot_be_written_is_one_warning_and_no_failed_record() {
    for format in FORMATS {
        let home = Home::new();
        let args = [
            "--model",
            "offline",
            "-o",
            format,
            "--json-file",
            "/dev/full",
            "-p",
            "SAY 100 chunks every 1",
        ];
        let ran = run(command(&home).args(args));
        assert_warned_once(format, &ran, words::SIDE_OUTPUT_GONE_LINE);
        if format != "text" {
            assert_eq!(result(&ran)["recording"]["state"], "saved");
        }
    }
}

#[test]
fn a_fifo_that_nobody_reads_holds_up_nothing() {
    let home = Home::new();
    let path = fifo(&home);
    let began = Instant::now();
    let ran = run(command(&home)
        .args(["--model", "offline", "--json-file", path.to_str().unwrap()])
        .args(["-p", "SAY 2000 chunks"]));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// A reader of the FIFO that is there and does not read.
fn open_fifo(path: &Path) -> fs::File {
    let mut options = OpenOptions::new();
    // Open for both: it neither waits for a writer nor ends with one.
    options.read(true).write(true);
    options.open(path).unwrap()
}

#[test]
fn a_fifo_is_read_from_the_first_line_to_the_last() {
    let home = Home::new();
    let path = fifo(&home);
    let reader = open_fifo(&path);
    let mut host = Host::offline(&home, &["--json-file", path.to_str().unwrap()]);
    host.turn("SAY 5000 chunks");
    let lines = lines_of(reader);
    assert_eq!(host.end().code, 0);
    let seen = up_to(&lines, "session_end");
    let kinds = kinds(&seen);
    let deltas = kinds.iter().filter(|kind| *kind == "content_block_delta");
    assert_eq!(
        (kinds[0].as_str(), deltas.count()),
        ("session_start", 5_000)
    );
}

/// The messages up to and with the first one of this subtype.
fn up_to(lines: &Receiver<String>, subtype: &str) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    while all.last().is_none_or(|last| last["subtype"] != subtype) {
        let line = lines.recv_timeout(WAIT_MAX).unwrap();
        all.push(serde_json::from_str(&line).unwrap());
    }
    all
}

/// More than waits for a second output.
fn too_much() -> StubModel {
    let piece = "x".repeat(1 << 20);
    let reply = (0..40).fold(Reply::stream(), |reply, _| reply.text(&piece));
    StubModel::replies(vec![reply.finish("stop").done(), Reply::says("next")])
}

#[test]
fn a_reader_that_is_too_slow_is_given_up_once_and_finds_it_said_last() {
    let home = Home::new();
    let path = fifo(&home);
    let reader = open_fifo(&path);
    let stub = too_much();
    let mut host = Host::of_stub(&home, &stub, &["--json-file", path.to_str().unwrap()]);
    assert_eq!(
        host.turn("much")["subtype"],
        "success",
        "the work is not held up"
    );
    assert_eq!(host.turn("next")["result"], "next");
    let warnings = of_subtype(host.seen(), "warning");
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0]["data"]["message"], words::SIDE_OUTPUT_SLOW_LINE);
    let seen = up_to(&lines_of(reader), "output_given_up");
    let last = seen.last().unwrap();
    assert_eq!(last["data"]["message"], words::SIDE_OUTPUT_SLOW_LINE);
    assert!(
        of_type(&seen, "result").is_empty(),
        "nothing comes after a gap"
    );
    let ran = host.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(of_type(&messages(&ran), "result").len(), 2);
}

#[test]
fn a_reader_that_is_too_slow_is_told_on_standard_error_in_text() {
    let home = Home::new();
    let path = fifo(&home);
    let stub = too_much();
    let began = Instant::now();
    let ran = run(command(&home)
        .env("OPENAI_BASE_URL", stub.base_url())
        .args(["--model", "stub", "--json-file", path.to_str().unwrap()])
        .args(["-p", "much"]));
    assert!(began.elapsed() < WAIT_MAX / 2);
    assert_eq!(ran.code, 0);
    assert_eq!(
        ran.stderr.lines().collect::<Vec<_>>(),
        [words::SIDE_OUTPUT_SLOW_LINE]
    );
    assert_eq!(ran.stdout.len(), (40 << 20) + 1);
}

/// case-L08: both readers gone is still a quiet end.
#[test]
fn both_readers_may_go_away() {
    let home = Home::new();
    let mut args = vec![
        "--model",
        "offline",
        "-o",
        "stream-json",
        "--include-partial-messages",
    ];
    args.extend(["--json-fd", "3", "-p", "SAY 2000 chunks every 1"]);
    let script =
        "\"$@\" 3> >(head -n 1 >/dev/null) | head -n 1 >/dev/null; echo \"${PIPESTATUS[0]}\"";
    let ran = run(home
        .command("bash")
        .args(["-c", script, "bash", ONRECORD])
        .args(args));
    assert_eq!((ran.stdout.trim(), ran.stderr.as_str()), ("0", ""));
}

#[test]
fn a_descriptor_of_the_second_output_may_be_where_standard_output_was() {
    let home = Home::new();
    let mut args = PROMPT.to_vec();
    args.extend(["--json-fd", "3"]);
    let ran = with_descriptors(&home, "3>&1 >/dev/null", &args);
    assert_eq!(ran.code, 0);
    let seen: Vec<Value> = messages(&ran);
    assert_eq!(kinds(&seen).last().unwrap(), "session_end");
}

#[test]
fn a_torn_tail_of_the_file_swallows_no_line() {
    let home = Home::new();
    let path = home.path().join("lines");
    fs::write(&path, "{\"torn").unwrap();
    let ran = run(command(&home).args(PROMPT).arg("--json-file").arg(&path));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let text = fs::read_to_string(&path).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("{\"torn"));
    let first: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(first["subtype"], "session_start");
}

/// R1, R27: our own lines in a transcript would be damage that every result calls saved.
#[test]
fn a_transcript_is_no_second_output() {
    let home = Home::new();
    run(command(&home).args(PROMPT));
    let path = crate::world::transcript(&home);
    let ran = run(command(&home)
        .args(PROMPT)
        .args(["--continue", "--json-file"])
        .arg(&path));
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("data root"), "{ran:?}");
    assert_eq!(crate::world::valid_prefix(&path).len(), 4);
}

#[test]
fn standard_output_is_no_second_output() {
    let home = Home::new();
    let ran = run(command(&home)
        .args(PROMPT)
        .args(["--json-file", "/dev/stdout"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello world \n"));
    assert!(ran.stderr.contains("standard output"), "{ran:?}");
}
