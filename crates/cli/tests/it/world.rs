//! The binary in a home of its own, and what its messages say.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use testkit::{
    faults::Fault,
    home::Home,
    run::{Outcome, run},
};

/// The binary under test.
pub(crate) const ONRECORD: &str = env!("CARGO_BIN_EXE_onrecord");

/// Runs the binary in `home` with the built-in model where it runs a turn.
pub(crate) fn onrecord(home: &Home, args: &[&str]) -> Outcome {
    run(home.command(ONRECORD).args(args))
}

/// As [`onrecord`], under a fault.
pub(crate) fn onrecord_under(home: &Home, fault: &Fault, args: &[&str]) -> Outcome {
    run(home.command_under(fault, ONRECORD).args(args))
}

/// Arguments of a run in which the built-in model may do everything.
pub(crate) fn yolo<'a>(format: &'a str, prompt: &'a str) -> Vec<&'a str> {
    vec!["--model", "offline", "--yolo", "-o", format, "-p", prompt]
}

/// The one transcript of a home.
pub(crate) fn transcript(home: &Home) -> PathBuf {
    let all = home.transcripts();
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().unwrap()
}

/// The messages of `-o json` or `-o stream-json`.
pub(crate) fn messages(ran: &Outcome) -> Vec<Value> {
    if ran.stdout.starts_with('[') {
        return serde_json::from_str(&ran.stdout).unwrap();
    }
    ran.stdout_lines()
        .into_iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The one `result`, which is the last message.
pub(crate) fn result(ran: &Outcome) -> Value {
    let messages = messages(ran);
    assert_eq!(
        messages.iter().filter(|m| m["type"] == "result").count(),
        1,
        "{ran:?}"
    );
    let last = messages.into_iter().last().unwrap();
    assert_eq!(last["type"], "result");
    last
}

/// Messages that say that recording failed.
pub(crate) fn degraded(ran: &Outcome) -> Vec<Value> {
    let mut messages = messages(ran);
    messages.retain(|message| message["subtype"] == "session_recording_degraded");
    messages
}

/// The binary, for what [`onrecord`] does not do.
pub(crate) fn command(home: &Home) -> Command {
    home.command(ONRECORD)
}

/// A prompt that makes the offline model call a tool.
pub(crate) fn tool(name: &str, args: &Value) -> String {
    format!("TOOL:{name} {args}")
}

/// A prompt that makes the offline model run a shell command.
pub(crate) fn shell(command: &str) -> String {
    tool(
        "run_shell_command",
        &serde_json::json!({"command": command, "description": "test"}),
    )
}

/// The records of a transcript; every line must be whole JSON and the parent chain unbroken.
pub(crate) fn valid_prefix(path: &Path) -> Vec<Value> {
    let bytes = fs::read(path).unwrap();
    assert!(
        bytes.is_empty() || bytes.ends_with(b"\n"),
        "a torn tail was left behind"
    );
    let records: Vec<Value> = bytes
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let mut parent = Value::Null;
    for record in &records {
        assert_eq!(record["parentUuid"], parent, "the parent chain is broken");
        parent = record["uuid"].clone();
    }
    records
}
