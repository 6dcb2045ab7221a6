//! Runs with one prompt.

use std::{fs, path::Path, thread};

use serde_json::Value;
use testkit::{
    faults::{Fault, shim},
    home::Home,
    need,
    run::run,
};

use super::{
    args, assert_all_met, assert_decided,
    compare::{Difference, compare},
    in_one_place, model,
    sample::Sample,
    workspace,
};
use crate::world::{ONRECORD, messages};

/// Samples on a sound disk.
const SOUND: &[&str] = &[
    "plain.json",
    "plain.partial",
    "plain.stream",
    "tool-write.json",
    "tool-write.partial",
    "tool-write.stream-json",
    "tool-shell.stream-json",
    "tool-denied.stream-json",
    "maxturn.json",
    "maxturn.stream-json",
];

/// Samples whose disk was full in mid-turn.
const FULL: &[&str] = &[
    "full.json",
    "full.partial",
    "full.stream-json",
    "fullmax.json",
];

/// Samples whose disk was full from the first record on.
const FULL_FIRST: &[&str] = &[
    "fullfirst.json",
    "fullfirst.stream-json",
    "fullslow.json",
    "fullslow.partial",
    "fullslow.stream-json",
    "fullzh.stream-json",
];

/// Samples whose disk takes longer than a result waits.
const SLOW: &[&str] = &["slow5.json", "slow5.stream-json"];

/// Samples that could not be recorded at all.
const NEVER_STARTED: &[&str] = &["nocreate.json", "nocreate.stream-json"];

#[test]
fn runs_say_what_qwen_code_says() {
    replay_all(SOUND, &Fault::none(), |_| {});
}

#[test]
fn runs_whose_record_fails_say_what_qwen_code_says() {
    for (samples, rule) in [
        (FULL, "write:ENOSPC:after=1,in=.jsonl"),
        (FULL_FIRST, "write:ENOSPC:in=.jsonl"),
    ] {
        let Some(fault) = shim(rule) else { return };
        replay_all(samples, &fault, |_| {});
    }
}

#[test]
fn runs_on_a_slow_disk_say_what_qwen_code_says() {
    let Some(fault) = shim("write:slow=4000:after=1,times=1,in=.jsonl") else {
        return;
    };
    replay_all(SLOW, &fault, |_| {});
}

#[test]
fn runs_without_a_place_for_a_record_say_what_qwen_code_says() {
    replay_all(NEVER_STARTED, &Fault::none(), |home| {
        fs::write(home.data_root(), "in the way").unwrap();
    });
}

fn replay_all(samples: &[&str], fault: &Fault, prepare: impl Fn(&Home) + Sync) {
    let Some(folder) = need::samples() else {
        return;
    };
    let met: Vec<usize> = thread::scope(|scope| {
        let replays: Vec<_> = samples
            .iter()
            .map(|name| {
                let (folder, prepare) = (&folder, &prepare);
                scope.spawn(move || assert_decided(name, replay(folder, name, fault, prepare)))
            })
            .collect();
        let met = replays.into_iter().map(|replay| replay.join().unwrap());
        met.flatten().collect()
    });
    assert_all_met(samples, &met);
}

fn replay(folder: &Path, name: &str, fault: &Fault, prepare: &impl Fn(&Home)) -> Vec<Difference> {
    let sample = Sample::read(folder, name);
    let home = Home::new();
    prepare(&home);
    // The folder of the captures, which a run that said nothing does not name.
    let theirs_folder = sample
        .heard
        .first()
        .map_or_else(|| "/no-folder".to_owned(), |_| sample.folder());
    let stub = model(&sample);
    let ours_folder = workspace(&home);
    if Value::from(sample.heard.clone())
        .to_string()
        .contains("has not been read")
    {
        fs::write(home.workspace().join("a.txt"), "old").unwrap();
    }
    let args: Vec<String> = args(&sample)
        .into_iter()
        .map(|arg| arg.replace(&theirs_folder, &ours_folder))
        .collect();
    let mut command = home.command_under(fault, ONRECORD);
    let ran = run(command.env("OPENAI_BASE_URL", stub.base_url()).args(args));
    let code = fs::read_to_string(folder.join("recorder").join(name).join("rc")).unwrap();
    assert_eq!(ran.code.to_string(), code.trim(), "{name}: {ran:?}");
    let theirs = in_one_place(&sample.heard, &theirs_folder);
    let ours = in_one_place(&messages(&ran), &ours_folder);
    let without_notices = |messages: &[Value]| -> Vec<Value> {
        messages.iter().filter(|m| !is_notice(m)).cloned().collect()
    };
    let mut found = compare(&without_notices(&theirs), &without_notices(&ours));
    found.extend(differences_of_notices(&theirs, &ours));
    found
}

fn is_notice(message: &Value) -> bool {
    message["subtype"] == "session_recording_degraded"
}

/// Notices may come at any place in their turn, but before its result, and in the same turn.
pub(super) fn differences_of_notices(theirs: &[Value], ours: &[Value]) -> Vec<Difference> {
    let notices = |messages: &[Value]| -> Vec<Value> {
        let mut n_results = 0;
        let mut notices = Vec::new();
        for message in messages {
            n_results += usize::from(message["type"] == "result");
            if is_notice(message) {
                let mut message = message.clone();
                message["results before it"] = n_results.into();
                notices.push(message);
            }
        }
        notices
    };
    compare(&notices(theirs), &notices(ours))
}
