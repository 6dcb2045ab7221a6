//! What the users of a daemon see over HTTP, whichever daemon and agent it is.

use std::{fs, path::Path};

use serde_json::{Value, json};
use testkit::{
    faults::Immutable,
    home::Home,
    served::{ended, of_type},
    stub_model::{Gate, StubModel},
};

use super::Hosted;
use crate::{
    acp::child::held,
    world::{shell, valid_prefix},
};

fn is_archived(home: &Home, session: &str) -> bool {
    let path = transcript_of(home, session);
    path.is_some_and(|path| path.components().any(|part| part.as_os_str() == "archive"))
}

fn transcript_of(home: &Home, session: &str) -> Option<std::path::PathBuf> {
    fn find(folder: &Path, name: &str) -> Option<std::path::PathBuf> {
        let entries = fs::read_dir(folder).ok()?.flatten();
        entries.map(|entry| entry.path()).find_map(|path| {
            if path.is_dir() {
                find(&path, name)
            } else {
                path.ends_with(name).then_some(path)
            }
        })
    }
    find(
        &home.data_root().join("projects"),
        &format!("{session}.jsonl"),
    )
}

/// case-M05: prompts, streams, a close and a load, and a strict close at last.
pub(super) fn a_session_is_created_prompted_closed_loaded_and_archived(hosted: Hosted) {
    let home = Home::new();
    let stub = StubModel::hello(3);
    let Some(daemon) = hosted.start(&home, &stub) else {
        return;
    };
    let session = daemon.session("auto");
    let mut events = daemon.events(&session, "");
    let end = daemon.turn(&session, &mut events, "hi there");
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end}");
    let said: String = events
        .seen()
        .iter()
        .filter(|e| e["data"]["update"]["sessionUpdate"] == "agent_message_chunk")
        .filter_map(|e| e["data"]["update"]["content"]["text"].as_str())
        .collect();
    assert_eq!(said, "hello world ".repeat(3));
    let path = format!("/session/{session}");
    let context = daemon.ask("GET", &format!("{path}/context"), None);
    assert_eq!(
        (context.0, &context.1["recovery"]["kind"]),
        (200, &json!("clean"))
    );
    for read in [
        "supported-commands",
        "stats",
        "tasks",
        "transcript",
        "turn-index",
    ] {
        let (status, body) = daemon.ask("GET", &format!("{path}/{read}"), None);
        assert_eq!(status, 200, "{read}: {body}");
    }
    let title = json!({"displayName": "the title"});
    daemon.good("PATCH", &format!("{path}/metadata"), Some(&title));

    daemon.good("DELETE", &path, Some(&json!({})));
    events.until("the close", |event| event["type"] == "session_closed");
    let loaded = daemon.good("POST", &format!("{path}/load"), Some(&json!({})));
    assert!(
        loaded["compactedReplay"].to_string().contains("hi there"),
        "{loaded}"
    );
    let mut events = daemon.events(&session, "");
    daemon.turn(&session, &mut events, "once more");
    let told = stub.requests().last().unwrap().body["messages"].to_string();
    assert!(told.contains("hi there"), "{told}");

    let archived = daemon.archive(&session);
    assert_eq!(archived["archived"], json!([session]), "{archived}");
    assert!(is_archived(&home, &session));
    assert!(
        fs::read_to_string(transcript_of(&home, &session).unwrap())
            .unwrap()
            .contains("once more")
    );
    let (status, _) = daemon.ask(
        "POST",
        "/session/11111111-1111-4111-8111-111111111111/load",
        Some(&json!({})),
    );
    assert_eq!(status, 404, "case-F04");
}

pub(super) fn a_vote_decides_about_a_call_and_a_cancel_frees_it(hosted: Hosted) {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let Some(daemon) = hosted.start(&home, &stub) else {
        return;
    };
    let session = daemon.session("default");
    let mut events = daemon.events(&session, "");
    let made = home.workspace().join("made");

    let prompt = daemon.prompt(&session, &shell("touch made"));
    let asked = events.until("a question", |e| e["type"] == "permission_request");
    let vote = |asked: &Value, option: &str| {
        let request = asked["data"]["requestId"].as_str().unwrap();
        let path = format!("/session/{session}/permission/{request}");
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
        daemon.ask("POST", &path, Some(&outcome)).0
    };
    assert_eq!(vote(&asked, "of nobody"), 400);
    assert!(!made.exists());
    assert_eq!(vote(&asked, "proceed_once"), 200);
    assert_eq!(
        ended(&mut events, &prompt)["data"]["stopReason"],
        "end_turn"
    );
    assert!(made.exists());
    fs::remove_file(&made).unwrap();

    let prompt = daemon.prompt(&session, &shell("touch made"));
    events.until("a question", |e| e["type"] == "permission_request");
    daemon.good(
        "POST",
        &format!("/session/{session}/cancel"),
        Some(&json!({})),
    );
    assert_eq!(
        ended(&mut events, &prompt)["data"]["stopReason"],
        "cancelled"
    );
    assert!(!made.exists());
    let end = daemon.turn(&session, &mut events, "hello");
    assert_eq!(end["data"]["stopReason"], "end_turn", "case-M04");
}

pub(super) fn a_cancel_in_mid_stream_ends_the_turn_and_keeps_what_was_said(hosted: Hosted) {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let Some(daemon) = hosted.start(&home, &stub) else {
        return;
    };
    let session = daemon.session("auto");
    let mut events = daemon.events(&session, "");
    let prompt = daemon.prompt(&session, "go on for long");
    events.until("a chunk", |e| {
        e["data"]["update"]["content"]["text"] == "begun"
    });
    daemon.good(
        "POST",
        &format!("/session/{session}/cancel"),
        Some(&json!({})),
    );
    assert_eq!(
        ended(&mut events, &prompt)["data"]["stopReason"],
        "cancelled"
    );
    daemon.turn(&session, &mut events, "next");
    let records = valid_prefix(&transcript_of(&home, &session).unwrap());
    if hosted.agent_is_ours() {
        assert!(records[1].to_string().contains("begun"));
    }
}

/// R15, R16, R18, R21: an event on the stream, a level in the snapshot, and a session that is still
/// there after the close that wanted it saved.
pub(super) fn a_lost_record_is_an_event_a_level_and_a_refused_archive(hosted: Hosted) {
    let home = Home::new();
    let stub = StubModel::hello(1);
    let Some(daemon) = hosted.start(&home, &stub) else {
        return;
    };
    let session = daemon.session("auto");
    let mut events = daemon.events(&session, "");
    daemon.turn(&session, &mut events, "saved");
    assert!(of_type(&events, "session_recording_degraded").is_empty());
    let mut fresh = daemon.events(&session, "?snapshot=1");
    let snapshot = fresh.until("a snapshot", |e| e["type"] == "session_snapshot");
    assert_eq!(snapshot["data"]["recordingDegraded"], false);
    let path = format!("/session/{session}");
    daemon.good("DELETE", &path, Some(&json!({})));
    let Some(immutable) = Immutable::new(&transcript_of(&home, &session).unwrap()) else {
        return;
    };
    daemon.good("POST", &format!("{path}/load"), Some(&json!({})));
    let mut events = daemon.events(&session, "");
    let end = daemon.turn(&session, &mut events, "lost");
    assert_eq!(end["data"]["stopReason"], "end_turn", "R26");
    let told = of_type(&events, "session_recording_degraded");
    assert_eq!(told.len(), 1);
    let expected = json!({"sessionId": session, "reason": "write_failed"});
    assert_eq!(told[0]["data"], expected);
    let mut late = daemon.events(&session, "?snapshot=1");
    let snapshot = late.until("a snapshot", |e| e["type"] == "session_snapshot");
    assert_eq!(snapshot["data"]["recordingDegraded"], true);

    let refused = daemon.archive(&session);
    assert_eq!(refused["errors"][0]["sessionId"], session, "{refused}");
    assert!(!is_archived(&home, &session));
    let end = daemon.turn(&session, &mut events, "still there");
    assert_eq!(end["data"]["stopReason"], "end_turn");
    assert_eq!(
        of_type(&events, "session_recording_degraded").len(),
        1,
        "R3"
    );
    daemon.good("DELETE", &path, Some(&json!({})));
    drop(immutable);
    // R19: what is loaded again has a recorder of its own.
    daemon.good("POST", &format!("{path}/load"), Some(&json!({})));
    let mut events = daemon.events(&session, "?snapshot=1");
    let snapshot = events.until("a snapshot", |e| e["type"] == "session_snapshot");
    assert_eq!(snapshot["data"]["recordingDegraded"], false);
    daemon.turn(&session, &mut events, "saved again");
    assert!(of_type(&events, "session_recording_degraded").is_empty());
    let archived = daemon.archive(&session);
    assert_eq!(archived["archived"], json!([session]), "{archived}");
}
