//! The record of a session that follows another in the same process (`/clear`).

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use serde_json::Value;
use testkit::{
    faults::{fsize_limit, shim},
    home::Home,
    stub_model::StubModel,
};

use super::{
    Host, of_subtype,
    recording::{MUCH, assert_nothing_leaks},
};
use crate::world::{degraded, messages, shell, transcript, valid_prefix};

/// The transcript of a session.
fn of_session(home: &Home, id: &Value) -> PathBuf {
    let mut all = home.transcripts().into_iter();
    all.find(|path| path.file_stem().unwrap().to_str() == id.as_str())
        .unwrap()
}

/// R2, R5, R9, R27: a new session has a recorder of its own, and its failure is its own.
#[test]
fn after_a_failure_a_new_session_is_recorded_again() {
    let Some(fault) = fsize_limit(4096) else {
        return;
    };
    let home = Home::new();
    let mut host = Host::under(&home, &fault, &["--yolo"]);
    let failed = host.turn(&shell(MUCH));
    assert_eq!(failed["recording"]["state"], "degraded");
    let cleared = host.turn("/clear");
    let (old, new) = (&failed["session_id"], &cleared["session_id"]);
    assert_ne!(old, new);
    assert_eq!(cleared["subtype"], "success");
    assert!(
        cleared["result"]
            .as_str()
            .unwrap()
            .contains(new.as_str().unwrap())
    );
    let changed = of_subtype(host.seen(), "session_changed")[0].clone();
    assert_eq!(&changed["session_id"], new);
    assert_eq!(&changed["data"]["session_id"], new);
    assert_eq!(&changed["data"]["previous_session_id"], old);
    assert_eq!(changed["data"]["previous_recording"]["state"], "degraded");

    let saved = host.turn("SAY 1 chunks");
    assert_eq!(saved["recording"]["state"], "saved");
    assert_eq!(&saved["session_id"], new);
    let records = valid_prefix(&of_session(&home, new));
    assert_eq!(
        records.len(),
        2,
        "the new session knows nothing of the old one"
    );
    assert!(records.iter().all(|record| &record["sessionId"] == new));

    let failed_again = host.turn(&shell(MUCH));
    assert_eq!(failed_again["recording"]["state"], "degraded");
    let ran = host.end();
    assert_eq!(ran.code, 0);
    let notices = degraded(&ran);
    assert_eq!(notices.len(), 2);
    for (notice, id) in notices.iter().zip([old, new]) {
        assert_eq!(&notice["session_id"], id);
        assert_eq!(&notice["data"]["session_id"], id);
    }
    valid_prefix(&of_session(&home, old));
    valid_prefix(&of_session(&home, new));
    assert_nothing_leaks(&ran, &home);
}

/// The model is not told what was said before `/clear`.
#[test]
fn a_new_session_begins_with_nothing() {
    let home = Home::new();
    let stub = StubModel::hello(1);
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.turn("the old prompt");
    for word in ["/clear", "/new", "/reset"] {
        host.turn(word);
    }
    let result = host.turn("the new prompt");
    assert_eq!(host.end().code, 0);
    let requests = stub.requests();
    assert_eq!(requests.len(), 2, "a command is no model call");
    let told = requests[1].body["messages"].to_string();
    assert!(
        told.contains("the new prompt") && !told.contains("the old prompt"),
        "{told}"
    );
    assert_eq!(result["usage"]["total_tokens"], 11, "totals begin again");
    // Sessions without a word leave no file.
    assert_eq!(home.transcripts().len(), 2);
}

/// R2: the id is that of the record that failed, whatever session is current by then.
#[test]
fn a_late_failure_of_an_earlier_session_carries_its_id() {
    let Some(fault) = shim("write:slow=7000:after=1,times=1,in=.jsonl") else {
        return;
    };
    let home = Home::new();
    let mut host = Host::under(&home, &fault, &[]);
    let old = host.turn("SAY 1 chunks");
    assert_eq!(old["recording"]["state"], "pending");
    let old_file = transcript(&home);
    let began = Instant::now();
    let new = host.turn("/clear");
    assert!(began.elapsed() < Duration::from_secs(3));
    let changed = of_subtype(host.seen(), "session_changed")[0].clone();
    assert_eq!(changed["data"]["previous_recording"]["state"], "pending");
    fs::remove_file(old_file).unwrap();
    assert_eq!(host.turn("SAY 1 chunks")["recording"]["state"], "saved");
    let notice = host.system("session_recording_degraded");
    assert_eq!(notice["session_id"], old["session_id"]);
    assert_eq!(notice["data"]["session_id"], old["session_id"]);
    let next = host.turn("SAY 1 chunks");
    assert_eq!(
        next["recording"]["state"], "saved",
        "not the failure of this session"
    );
    assert_eq!(next["session_id"], new["session_id"]);
    let ran = host.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(degraded(&ran).len(), 1);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4);
}

/// R10: also where it is found only as the process ends.
#[test]
fn a_late_failure_of_an_earlier_session_is_waited_for_at_the_end() {
    let Some(fault) = shim("write:slow=7000:after=1,times=1,in=.jsonl") else {
        return;
    };
    let home = Home::new();
    let mut host = Host::under(&home, &fault, &[]);
    let old = host.turn("SAY 1 chunks");
    host.turn("/clear");
    fs::remove_file(transcript(&home)).unwrap();
    let ran = host.end();
    assert_eq!(ran.code, 0);
    assert_eq!(degraded(&ran).len(), 1, "{ran:?}");
    assert_eq!(degraded(&ran)[0]["data"]["session_id"], old["session_id"]);
}

/// R2, R12, R27: prompts that come faster than their answers are written change no order. Nothing is said
/// of a session before it begins, and no result calls a record saved that is known to have failed.
#[test]
fn a_failure_keeps_its_place_among_sessions_however_fast_the_prompts_come() {
    let Some(fault) = fsize_limit(4096) else {
        return;
    };
    for _ in 0..5 {
        let home = Home::new();
        let mut host = Host::under(&home, &fault, &["--yolo"]);
        for _ in 0..3 {
            host.prompt(&shell(MUCH));
            host.prompt("/clear");
        }
        host.prompt(&shell(MUCH));
        let ran = host.end();
        assert_eq!(ran.code, 0, "{ran:?}");
        let messages = messages(&ran);
        let (mut current, mut failed) = (Value::Null, Vec::new());
        for message in &messages {
            if matches!(
                message["subtype"].as_str(),
                Some("init" | "session_changed")
            ) {
                current = message["session_id"].clone();
            } else if message["subtype"] == "session_recording_degraded" {
                assert_eq!(message["session_id"], current, "{messages:?}");
                failed.push(current.clone());
            } else if message["type"] == "result" {
                let is_degraded = message["recording"]["state"] == "degraded";
                assert_eq!(is_degraded, failed.contains(&message["session_id"]));
            }
        }
        assert_eq!(failed.len(), 4, "each record fails once: {messages:?}");
    }
}
