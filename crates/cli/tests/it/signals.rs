//! How a run ends from outside: signals and readers that go away.

use std::{
    io::Read,
    process::{Child, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use testkit::{
    home::Home,
    run::{Outcome, read_until, run},
};

use crate::world::{ONRECORD, command, result, transcript, valid_prefix};

/// Starts a run that streams slowly, and waits until its prompt is recorded and its answer begins.
fn streaming(home: &Home, format: &str) -> (Child, String) {
    let mut child = command(home)
        .args([
            "--model",
            "offline",
            "-o",
            format,
            "-p",
            "SAY 1000 chunks every 20",
        ])
        .args((format == "stream-json").then_some("--include-partial-messages"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let seen = if format == "stream-json" {
        read_until(child.stdout.as_mut().unwrap(), "text_delta")
    } else {
        // The prompt is on disk before the model is called.
        while home.transcripts().is_empty() || !holds_a_line(home) {
            std::thread::yield_now();
        }
        String::new()
    };
    (child, seen)
}

fn holds_a_line(home: &Home) -> bool {
    std::fs::read(transcript(home)).is_ok_and(|bytes| bytes.contains(&b'\n'))
}

fn end(mut child: Child, mut seen: String, signal: Signal) -> Outcome {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    // Twice at once, as `timeout` does: that is one signal.
    kill_process(pid, signal).unwrap();
    kill_process(pid, signal).unwrap();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut seen)
        .unwrap();
    let mut ran = Outcome::from(child.wait_with_output().unwrap());
    ran.stdout = seen;
    ran
}

#[test]
fn a_signal_ends_a_run_with_a_result_and_its_partial_answer_recorded() {
    let signals = [(Signal::INT, 130), (Signal::TERM, 130), (Signal::HUP, 129)];
    for (signal, code) in signals {
        for format in ["json", "stream-json"] {
            let home = Home::new();
            let (child, seen) = streaming(&home, format);
            let ran = end(child, seen, signal);
            assert_eq!(ran.code, code, "{format}: {ran:?}");
            let result = result(&ran);
            assert_eq!(result["subtype"], "error_during_execution");
            assert_eq!(result["recording"]["state"], "saved");
            let records = valid_prefix(&transcript(&home));
            if format == "stream-json" {
                assert_eq!(
                    records.last().unwrap()["type"],
                    "assistant",
                    "the partial answer is kept"
                );
            }
        }
    }
}

#[test]
fn a_signal_ends_a_text_run_with_its_partial_answer_recorded() {
    let home = Home::new();
    let (child, seen) = streaming(&home, "text");
    let ran = end(child, seen, Signal::TERM);
    assert_eq!(ran.code, 130);
    assert!(ran.stderr.contains("cancelled"), "{ran:?}");
    valid_prefix(&transcript(&home));
}

/// case-L08.
#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let home = Home::new();
    let script = "\"$@\" | head -n 1 >/dev/null; echo \"${PIPESTATUS[0]}\"";
    let ran = run(home.command("bash").args([
        "-c",
        script,
        "bash",
        ONRECORD,
        "--model",
        "offline",
        "-o",
        "stream-json",
        "--include-partial-messages",
        "-p",
        "SAY 2000 chunks every 1",
    ]));
    assert_eq!(ran.stdout.trim(), "0", "{ran:?}");
    assert!(ran.stderr.is_empty(), "{ran:?}");
    valid_prefix(&transcript(&home));
}

/// case-L08.
#[test]
fn closed_descriptors_are_no_error() {
    for redirection in [">&-", "2>&-", ">&- 2>&- <&-"] {
        let home = Home::new();
        let script = format!("exec \"$@\" {redirection}");
        let ran = run(home.command("bash").args([
            "-c", &script, "bash", ONRECORD, "--model", "offline", "-p", "hello",
        ]));
        assert_eq!(ran.code, 0, "{redirection}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"));
        assert_eq!(valid_prefix(&transcript(&home)).len(), 2);
    }
}

/// An answer that could not be written is not a success, and the session still holds it.
#[test]
fn an_output_on_a_full_device_is_a_failure_and_kept_in_the_record() {
    for format in ["text", "json", "stream-json"] {
        let home = Home::new();
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let ran = run(command(&home)
            .args(["--model", "offline", "-o", format, "-p", "hello"])
            .stdout(full));
        assert_eq!(ran.code, 1, "{ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        assert_eq!(valid_prefix(&transcript(&home)).len(), 2);
    }
}

/// A second signal ends the process, whatever it is doing: here it waits for a disk.
#[test]
fn a_second_signal_ends_the_process_at_once() {
    let Some(fault) = testkit::faults::shim("write:slow=60000:after=1,in=.jsonl") else {
        return;
    };
    let home = Home::new();
    let mut child = home
        .command_under(&fault, ONRECORD)
        .args([
            "--model",
            "offline",
            "-o",
            "stream-json",
            "--include-partial-messages",
        ])
        .args(["-p", "SAY 1000 chunks every 20"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    read_until(child.stdout.as_mut().unwrap(), "text_delta");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    // The result of the cancelled turn waits for the disk; who asks again does not.
    let status = loop {
        kill_process(pid, Signal::TERM).unwrap();
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::yield_now();
    };
    assert_eq!(status.code(), Some(130));
}

/// A reader may take as long as it likes, but once the run is to end it holds nobody: programs that
/// start us kill a few seconds after their signal, and the record must be finished by then.
#[test]
fn a_signal_ends_a_run_whose_output_nobody_reads_with_its_record_whole() {
    let home = Home::new();
    let mut child = command(&home)
        .args(["--model", "offline", "-o", "stream-json"])
        .args(["--include-partial-messages", "-p", "SAY 100000 chunks"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The pipe is full by the time that its first line is seen and much more is behind it.
    let seen = read_until(child.stdout.as_mut().unwrap(), "text_delta");
    assert!(!seen.is_empty());
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let records = valid_prefix(&transcript(&home));
    assert_eq!(records.first().unwrap()["type"], "user");
}

/// R27: what standard output could not take is said of the record on the other one, and nothing untrue.
#[test]
fn a_lost_record_that_standard_output_cannot_tell_is_told_on_the_other() {
    let Some(fault) = testkit::faults::fsize_limit(4096) else {
        return;
    };
    let home = Home::new();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = home
        .command_under(&fault, ONRECORD)
        .args([
            "--model",
            "offline",
            "-o",
            "stream-json",
            "--require-recording",
        ])
        .args(["-p", &"x".repeat(20_000)])
        .stdout(full)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("recording of this session failed"), "{told}");
    assert!(!told.contains("holds the answer"), "{told}");
    assert!(!told.contains("after its result"), "{told}");
}
