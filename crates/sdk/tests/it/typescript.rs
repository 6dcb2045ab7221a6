//! The same contract in the other language: its own tests, and random frames through both.

use std::{
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use sdk::{canonical::canonical, normalize::view};
use serde_json::{Value, json};
use testkit::{home::Home, peers::WebSdk, run::run};

use crate::fixtures::run as played;

const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

#[test]
fn the_typescript_sdk_passes_its_own_tests() {
    let Some(sdk) = WebSdk::find() else { return };
    let home = Home::new();
    let mut command = sdk.command(&home);
    command.args([
        "--test",
        "build/test/fixtures.test.js",
        "build/test/network.test.js",
    ]);
    let ran = run(&mut command);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
}

/// A value that a field may or may not take.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!(false)),
        Just(json!("true")),
        Just(json!(1)),
        Just(json!("text")),
        Just(json!([])),
        Just(json!({})),
        Just(json!("write_failed")),
        Just(json!("saved")),
        Just(json!("degraded")),
        Just(json!("default")),
    ]
}

fn update() -> impl Strategy<Value = Value> {
    let text = prop_oneof![Just("a"), Just("b c"), Just("é\u{1f600}"), Just("")];
    let kind = prop_oneof![
        Just("user_message_chunk"),
        Just("agent_message_chunk"),
        Just("agent_thought_chunk"),
        Just("tool_call"),
        Just("tool_call_update"),
        Just("plan"),
        Just("current_mode_update"),
        Just("of_tomorrow"),
    ];
    (kind, text, 0..3_u8, odd()).prop_map(|(kind, text, call, odd)| {
        json!({
            "sessionUpdate": kind,
            "content": match kind {
                "tool_call" | "tool_call_update" => odd.clone(),
                _ => json!({"type": "text", "text": text}),
            },
            "toolCallId": format!("c{call}"),
            "title": "title",
            "kind": "read",
            "status": if call == 2 { odd.clone() } else { json!("completed") },
            "entries": [{"content": text, "priority": "medium", "status": "pending"}],
            "currentModeId": odd,
        })
    })
}

fn payload() -> impl Strategy<Value = (String, Value)> {
    let simple = |kind: &'static str| odd().prop_map(move |odd| (kind.to_owned(), odd));
    prop_oneof![
        6 => update().prop_map(|update| ("session_update".to_owned(), json!({"update": update}))),
        2 => odd().prop_map(|odd| ("session_recording_degraded".to_owned(), json!({"reason": odd}))),
        3 => (odd(), odd(), odd()).prop_map(|(degraded, state, mode)| {
            let mut data = json!({"currentModelId": null, "currentApprovalMode": mode});
            data["recordingDegraded"] = degraded;
            data["recordingState"] = state;
            ("session_snapshot".to_owned(), data)
        }),
        1 => Just(("session_snapshot".to_owned(), json!({"currentModelId": "m", "currentApprovalMode": "plan"}))),
        1 => Just(("state_resync_required".to_owned(), json!({"reason": "ring_evicted"}))),
        1 => odd().prop_map(|odd| ("turn_complete".to_owned(), json!({"promptId": "p", "stopReason": odd}))),
        1 => odd().prop_map(|odd| ("turn_error".to_owned(), json!({"promptId": "p", "message": odd}))),
        1 => odd().prop_map(|odd| ("permission_request".to_owned(), json!({"requestId": odd, "toolCall": {"toolCallId": "c"}, "options": []}))),
        1 => odd().prop_map(|odd| ("permission_resolved".to_owned(), json!({"requestId": odd, "outcome": {"outcome": "cancelled"}}))),
        1 => odd().prop_map(|odd| ("model_switched".to_owned(), json!({"modelId": odd}))),
        1 => odd().prop_map(|odd| ("approval_mode_changed".to_owned(), json!({"next": odd}))),
        1 => odd().prop_map(|odd| ("session_metadata_updated".to_owned(), json!({"displayName": odd}))),
        1 => simple("of_tomorrow"),
        1 => odd().prop_map(|odd| ("session_closed".to_owned(), json!({"reason": odd}))),
    ]
}

fn step() -> impl Strategy<Value = Value> {
    let id = prop_oneof![4 => (0..12_u64).prop_map(|id| json!(id)), 1 => odd()];
    let session = prop_oneof![9 => Just(json!(ID)), 1 => Just(json!("another")), 1 => odd()];
    let frame = (
        payload(),
        id,
        session,
        prop_oneof![12 => Just(json!(1)), 1 => odd()],
    )
        .prop_map(|((kind, mut data), id, session, version)| {
            if let Value::Object(fields) = &mut data {
                fields.insert("sessionId".to_owned(), session);
            }
            json!({"frame": {"id": id, "v": version, "type": kind, "data": data}})
        });
    let load = (0..12_u64, proptest::option::of(any::<bool>())).prop_map(|(last, degraded)| {
        let mut load = json!({"lastEventId": last, "eventEpoch": "e", "compactedReplay": [], "liveJournal": []});
        if let Some(degraded) = degraded {
            load["recordingDegraded"] = json!(degraded);
        }
        json!({"load": load})
    });
    prop_oneof![12 => frame, 1 => load, 1 => Just(json!({"dismiss": true}))]
}

/// R22 to R24: whatever comes, valid or not, both languages come to the same, byte for byte.
#[test]
fn both_sdks_come_to_the_same_whatever_comes() {
    const CASES: usize = 1_500;
    let Some(web) = WebSdk::find() else { return };
    let home = Home::new();
    let mut child = web
        .command(&home)
        .arg("build/test/driven.js")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut runner = TestRunner::new(Config::default());
    let steps = prop::collection::vec(step(), 0..24);
    for _ in 0..CASES {
        let steps = steps.new_tree(&mut runner).unwrap().current();
        let case = json!({"sessionId": ID, "steps": steps, "snapshotsAndEventsInOrder": steps});
        writeln!(to, "{case}").unwrap();
        let (session, invalid) = played(&case);
        let mut ours = json!({"state": session, "view": view(&session), "invalid": invalid});
        let mut theirs: Value = serde_json::from_str(&from.next().unwrap().unwrap()).unwrap();
        for told in [&mut ours, &mut theirs] {
            // Of two fields that are bad each names one; the fixtures compare them one by one.
            for invalid in told["invalid"].as_array_mut().unwrap() {
                invalid.as_object_mut().unwrap().remove("field");
            }
        }
        assert_eq!(canonical(&theirs), canonical(&ours), "{case}");
    }
    drop(to);
    assert!(child.wait().unwrap().success());
}
