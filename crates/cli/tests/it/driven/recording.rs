//! The record of a long-lived session: between its turns, after a failure, and at its end.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;
use testkit::{
    faults::{SmallDisk, shim},
    home::{Home, transcripts_under},
    run::Outcome,
};
use wire::words;

use super::{Host, results};
use crate::world::{ONRECORD, degraded, messages, onrecord, shell, transcript, valid_prefix};

/// What a command prints that makes a record larger than a page.
pub(super) const MUCH: &str = "seq 1 3000";

/// R28: what we say of a failure names nothing of the machine. (`cwd` and what tools say are not
/// ours.)
pub(super) fn assert_nothing_leaks(ran: &Outcome, home: &Home) {
    let ours: Vec<Value> = messages(ran)
        .into_iter()
        .filter(|m| m["subtype"] != "init" && m["type"] != "user" && m["type"] != "assistant")
        .map(|mut message| {
            if let Some(result) = message.as_object_mut() {
                result.remove("result");
                result.remove("permission_denials");
            }
            message
        })
        .collect();
    let said = format!("{}{}", Value::from(ours), ran.stderr);
    for canary in [
        home.path().to_str().unwrap(),
        "onrecord-disk-",
        "/tmp",
        "os error",
        "ENOSPC",
        "EFBIG",
        "errno",
        "No space",
        "too large",
    ] {
        assert!(!said.contains(canary), "{canary}: {said}");
    }
}

/// The turn, counted from 1, in which the one notice came: it stands before the result of that turn.
pub(super) fn turn_of_the_notice(ran: &Outcome) -> usize {
    let messages = messages(ran);
    assert_eq!(degraded(ran).len(), 1, "{messages:#?}");
    let at = messages
        .iter()
        .position(|m| m["subtype"] == "session_recording_degraded")
        .unwrap();
    results(&messages[..at]).len() + 1
}

fn states(ran: &Outcome) -> Vec<Value> {
    let messages = messages(ran);
    let results = results(&messages);
    results
        .iter()
        .map(|result| result["recording"]["state"].clone())
        .collect()
}

/// R12, R14, R26, B1, case-L01: told once, in the turn that failed, before its result.
#[test]
fn a_disk_that_fills_in_the_second_of_three_turns_is_told_once_and_changes_no_answer() {
    let Some(disk) = SmallDisk::with_size_kib(64) else {
        return;
    };
    let home = Home::new();
    let mut command = home.command_under(&disk.fault(), ONRECORD);
    command.env("ONRECORD_HOME", disk.path());
    let mut host = Host::start(command.args(["--model", "offline", "--yolo"]));
    let filler = disk.path().join(".filler");
    let fill = format!("head -c 1M /dev/zero > '{}'; {MUCH}", filler.display());
    let answers = [
        host.turn(&shell(MUCH))["result"].clone(),
        host.turn(&shell(&fill))["result"].clone(),
        // Room is made again, and nothing is written by a recorder that has failed (R5).
        host.turn(&shell(&format!("rm '{}'; {MUCH}", filler.display())))["result"].clone(),
    ];
    assert_eq!(answers, ["done.", "done.", "done."]);
    let ran = host.end();
    assert_eq!(ran.code, 0);
    assert_eq!(turn_of_the_notice(&ran), 2);
    assert_eq!(states(&ran), ["saved", "degraded", "degraded"]);
    let last = results(&messages(&ran))[2].clone();
    assert_eq!(last["recording"]["class"], "storage_full");
    let notice = &degraded(&ran)[0];
    assert_eq!(notice["session_id"], last["session_id"]);
    assert_eq!(notice["data"]["session_id"], last["session_id"]);
    assert_eq!(notice["data"]["reason"], "write_failed");
    assert_eq!(notice["data"]["message"], words::DEGRADED_MESSAGE);
    assert_nothing_leaks(&ran, &home);
    assert!(!ran.stderr.contains("recording"), "told once: {ran:?}");
    let files = transcripts_under(&disk.after());
    let records = valid_prefix(&files[0]);
    let last_on_disk = &records.last().unwrap()["uuid"];
    assert_eq!(&last["recording"]["lastRecordUuid"], last_on_disk);
    assert!(records.len() >= 5 && records.len() < 8, "{}", records.len());
}

/// B2: what the kernel calls a success.
#[test]
fn a_transcript_that_goes_away_between_turns_is_told_in_the_next_one() {
    type TakeAway = fn(&Path);
    let ways: [(&str, TakeAway); 4] = [
        ("removed", |path| fs::remove_file(path).unwrap()),
        ("moved", |path| {
            fs::rename(path, path.with_extension("bak")).unwrap()
        }),
        ("folder in its place", |path| {
            fs::rename(path, path.with_extension("bak")).unwrap();
            fs::create_dir(path).unwrap();
        }),
        ("folder removed", |path| {
            fs::remove_dir_all(path.parent().unwrap()).unwrap()
        }),
    ];
    for (name, take_away) in ways {
        let home = Home::new();
        let mut host = Host::offline(&home, &[]);
        host.turn("SAY 1 chunks");
        take_away(&transcript(&home));
        for _ in 0..2 {
            assert_eq!(host.turn("SAY 1 chunks")["subtype"], "success", "R26");
        }
        let ran = host.end();
        assert_eq!((ran.code, turn_of_the_notice(&ran)), (0, 2), "{name}");
        assert_eq!(states(&ran), ["saved", "degraded", "degraded"], "{name}");
        assert_eq!(degraded(&ran)[0]["data"]["class"], "gone", "{name}");
        assert_nothing_leaks(&ran, &home);
    }
}

/// R4, B1: nothing is told of a file that could not be created yet, and nothing is lost.
#[test]
fn a_record_that_can_begin_only_later_holds_everything() {
    let home = Home::new();
    fs::write(home.data_root(), "in the way").unwrap();
    let mut host = Host::offline(&home, &[]);
    assert_eq!(
        host.turn("SAY 1 chunks")["recording"]["state"],
        "never_started"
    );
    fs::remove_file(home.data_root()).unwrap();
    assert_eq!(host.turn("SAY 1 chunks")["recording"]["state"], "saved");
    let ran = host.end();
    assert!(degraded(&ran).is_empty());
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4);
}

/// R14: between turns the record is flushed; what belongs to its end is written at its end alone.
#[test]
fn a_title_is_written_again_at_the_end_of_the_session_and_not_between_its_turns() {
    let home = Home::new();
    onrecord(&home, &["--model", "offline", "-p", "SAY 1 chunks"]);
    let path = transcript(&home);
    let id = path.file_stem().unwrap().to_str().unwrap().to_owned();
    onrecord(&home, &["sessions", "rename", &id, "the title"]);
    let kinds = || -> Vec<String> {
        let records = valid_prefix_with_siblings(&path);
        records
            .iter()
            .map(|record| match record["subtype"].as_str() {
                Some("custom_title") => "title".to_owned(),
                _ => record["type"].as_str().unwrap().to_owned(),
            })
            .collect()
    };
    let before = kinds();
    // A title that may be far from the end of the file is written again with the first record.
    let turns = ["user", "title", "assistant", "user", "assistant"];
    let mut host = Host::offline(&home, &["--resume", &id]);
    for n_records in [3, 5] {
        host.turn("SAY 1 chunks");
        assert_eq!(kinds()[before.len()..], turns[..n_records], "flushed");
    }
    assert_eq!(host.end().code, 0);
    assert_eq!(kinds()[before.len()..], [&turns[..], &["title"]].concat());
}

/// The records of a file in which a title stands beside the conversation.
fn valid_prefix_with_siblings(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// R13, R14, R27, B7: no result waits longer than its 2 s, and none says saved of what is not.
#[test]
fn a_flush_that_takes_long_does_not_hold_the_result_which_says_pending() {
    let Some(fault) = shim("write:slow=4000:after=1,times=1,in=.jsonl") else {
        return;
    };
    let home = Home::new();
    let mut host = Host::under(&home, &fault, &[]);
    let began = Instant::now();
    let result = host.turn("SAY 1 chunks");
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(result["recording"]["state"], "pending");
    let mut ran = host.end();
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (0, ""),
        "it was confirmed in time"
    );
    assert!(degraded(&ran).is_empty(), "late is not failed");
    assert_eq!(valid_prefix(&transcript(&home)).len(), 2);

    let home = Home::new();
    let mut host = Host::under(&home, &fault, &[]);
    host.turn("SAY 1 chunks");
    let next = host.turn("SAY 1 chunks");
    assert_eq!(
        next["recording"]["state"], "saved",
        "it came to its end meanwhile"
    );
    ran = host.end();
    assert_eq!(states(&ran), ["pending", "saved"]);
}

/// R13, R27, case-L04: a disk that never answers keeps no process, and is not said to have saved.
#[test]
fn a_write_that_does_not_come_back_is_said_not_to_be_confirmed() {
    let Some(fault) = shim("write:slow=60000:after=1,in=.jsonl") else {
        return;
    };
    let home = Home::new();
    let mut host = Host::under(&home, &fault, &[]);
    assert_eq!(host.turn("SAY 1 chunks")["recording"]["state"], "pending");
    let began = Instant::now();
    let ran = host.end();
    assert!(began.elapsed() < Duration::from_secs(7));
    assert_eq!(ran.code, 0, "R26");
    assert_eq!(
        ran.stderr.matches(words::NOT_CONFIRMED_LINE).count(),
        1,
        "{ran:?}"
    );
    assert!(degraded(&ran).is_empty());
}

/// R10, R14: what the last flush finds is a line of its own, after the last result.
#[test]
fn a_failure_that_the_last_flush_finds_is_still_told() {
    let Some(fault) = shim("write:slow=4000:after=1,times=1,in=.jsonl") else {
        return;
    };
    let home = Home::new();
    let mut host = Host::under(&home, &fault, &[]);
    assert_eq!(host.turn("SAY 1 chunks")["recording"]["state"], "pending");
    fs::remove_file(transcript(&home)).unwrap();
    let ran = host.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "told once");
    let messages = messages(&ran);
    let last = messages.last().unwrap();
    assert_eq!(last["subtype"], "session_recording_degraded");
    assert_eq!(degraded(&ran).len(), 1);
    assert_eq!(results(&messages).len(), 1);
}

/// A failure that comes while nothing runs is told at once, not with the next turn.
#[test]
fn a_failure_between_turns_is_told_at_once() {
    let Some(fault) = shim("write:slow=4000:after=1,times=1,in=.jsonl") else {
        return;
    };
    let home = Home::new();
    let mut host = Host::under(&home, &fault, &[]);
    host.turn("SAY 1 chunks");
    fs::remove_file(transcript(&home)).unwrap();
    host.system("session_recording_degraded");
    assert_eq!(host.turn("SAY 1 chunks")["recording"]["state"], "degraded");
    let ran = host.end();
    assert_eq!(
        turn_of_the_notice(&ran),
        2,
        "between the first result and the second"
    );
}

/// case-L10: what a driven session recorded is found by the next run.
#[test]
fn a_driven_session_can_be_resumed() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    let id = host.turn("SAY 1 chunks")["session_id"].clone();
    assert_eq!(host.end().code, 0);
    let mut host = Host::offline(&home, &["--resume", id.as_str().unwrap()]);
    let result = host.turn("what did I say first?");
    assert_eq!(result["session_id"], id);
    assert!(
        result["result"].as_str().unwrap().contains("SAY 1 chunks"),
        "{result}"
    );
    assert_eq!(host.end().code, 0);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4);
}
