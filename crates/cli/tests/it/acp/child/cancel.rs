//! How prompts are cancelled, and what a second one does to the first (B7, case-M04).

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{
    home::Home,
    stub_model::{Gate, StubModel},
};

use super::{Client, held, is_chunk, prompt, updates};
use crate::world::{shell, transcript, valid_prefix};

const CANCEL: &str = "craft/cancelPendingPrompt";

/// A client whose prompt is in the middle of its answer.
fn in_mid_stream(home: &Home, stub: &StubModel) -> (Client, String, u64) {
    let mut client = Client::of_stub(home, stub, &[]).initialized();
    let session = client.session();
    let id = client.prompt(&session, "go on for long");
    client.rpc.place(0, "a chunk", |f| is_chunk(f, "begun"));
    (client, session, id)
}

#[test]
fn a_cancel_request_is_acknowledged_before_the_prompt_is_answered_and_the_next_prompt_works() {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let (mut client, session, id) = in_mid_stream(&home, &stub);
    let began = Instant::now();
    let cancel = client.rpc.request(CANCEL, &json!({"sessionId": session}));
    let acknowledged = client.rpc.place_of_answer(cancel);
    let answered = client.rpc.place_of_answer(id);
    assert!(began.elapsed() < Duration::from_secs(3), "B7");
    assert!(acknowledged < answered);
    assert_eq!(
        client.rpc.answer(cancel)["result"],
        json!({"cancelled": true})
    );
    let result = client.rpc.answer(id)["result"].clone();
    assert_eq!(result["stopReason"], "cancelled");
    let told = &result["_meta"]["qwen.promptCancelled"];
    assert!(
        told["cancelledAt"].is_u64() && told["elapsedMs"].is_u64(),
        "{told}"
    );
    assert_eq!(client.turn(&session, "next")["stopReason"], "end_turn");
    client.end(&home);
    assert_eq!(
        valid_prefix(&transcript(&home)).len(),
        4,
        "what was said is kept"
    );
}

#[test]
fn a_cancel_notification_ends_the_prompt_too() {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let (mut client, session, id) = in_mid_stream(&home, &stub);
    client
        .rpc
        .notify("session/cancel", &json!({"sessionId": session}));
    assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "cancelled");
    assert_eq!(client.turn(&session, "next")["stopReason"], "end_turn");
    client.end(&home);
}

/// A cancel that arrives before the prompt's turn has begun is not forgotten.
#[test]
fn a_cancel_right_behind_its_prompt_is_not_lost() {
    for _ in 0..5 {
        let (home, gate) = (Home::new(), Gate::new());
        let stub = held(&gate);
        let mut client = Client::of_stub(&home, &stub, &[]).initialized();
        let session = client.session();
        let requests = [
            ("session/prompt", prompt(&session, "go on for long")),
            (CANCEL, json!({"sessionId": session})),
        ];
        let ids = client.rpc.request_all(&requests);
        assert_eq!(
            client.rpc.answer(ids[1])["result"],
            json!({"cancelled": true})
        );
        assert_eq!(
            client.rpc.answer(ids[0])["result"]["stopReason"],
            "cancelled"
        );
        client.end(&home);
    }
}

#[test]
fn a_cancel_without_a_prompt_says_so_and_harms_no_later_one() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    let answer = client.rpc.result(CANCEL, &json!({"sessionId": session}));
    assert_eq!(answer, json!({"cancelled": false}));
    client
        .rpc
        .notify("session/cancel", &json!({"sessionId": session}));
    client
        .rpc
        .notify("session/cancel", &json!({"sessionId": "nope"}));
    client.rpc.notify("session/cancel", &json!([]));
    assert_eq!(
        client.turn(&session, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    let error = client.rpc.error(CANCEL, &json!({"sessionId": "nope"}));
    assert_eq!(error["code"], -32_602);
    client.end(&home);
}

/// One prompt at a time: whoever sends a second one does not want the first any more.
#[test]
fn a_second_prompt_cancels_the_first_which_is_answered_before_it() {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let (mut client, session, first) = in_mid_stream(&home, &stub);
    let second = client.prompt(&session, "rather this");
    let answered = client.rpc.place_of_answer(second);
    assert!(client.rpc.place_of_answer(first) < answered);
    assert_eq!(
        client.rpc.answer(first)["result"]["stopReason"],
        "cancelled"
    );
    assert_eq!(
        client.rpc.answer(second)["result"]["stopReason"],
        "end_turn"
    );
    client.end(&home);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4);
}

#[test]
fn of_many_prompts_at_once_the_last_is_answered_and_the_others_are_cancelled_in_order() {
    let home = Home::new();
    let stub = StubModel::hello(1);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let requests: Vec<_> = (0..5)
        .map(|n| ("session/prompt", prompt(&session, &format!("prompt {n}"))))
        .collect();
    let ids = client.rpc.request_all(&requests);
    let places: Vec<_> = ids
        .iter()
        .map(|&id| client.rpc.place_of_answer(id))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    let reasons: Vec<Value> = ids
        .iter()
        .map(|&id| client.rpc.answer(id)["result"]["stopReason"].clone())
        .collect();
    assert_eq!(
        reasons,
        [
            "cancelled",
            "cancelled",
            "cancelled",
            "cancelled",
            "end_turn"
        ]
    );
    client.end(&home);
}

/// More prompts than may wait are refused, and what waits is answered all the same.
#[test]
fn every_one_of_a_flood_of_prompts_is_answered() {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let (mut client, session, first) = in_mid_stream(&home, &stub);
    let requests: Vec<_> = (0..200)
        .map(|n| {
            (
                "session/prompt",
                prompt(&session, &format!("/recording {n}")),
            )
        })
        .collect();
    for id in client.rpc.request_all(&requests) {
        client.rpc.answer(id);
    }
    assert_eq!(
        client.rpc.answer(first)["result"]["stopReason"],
        "cancelled"
    );
    assert_eq!(client.turn(&session, "next")["stopReason"], "end_turn");
    client.end(&home);
}

/// A tool that runs ends with its turn, and is told to have failed before the prompt is answered.
#[test]
fn a_cancel_ends_the_tool_that_runs() {
    let home = Home::new();
    let mut client = Client::offline(&home, &["--yolo"]).initialized();
    let session = client.session();
    let id = client.prompt(&session, &shell("echo $$ > pid; sleep 1000"));
    client.rpc.place(0, "the tool", |f| {
        f["params"]["update"]["status"] == "in_progress"
    });
    client.rpc.result(CANCEL, &json!({"sessionId": session}));
    assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "cancelled");
    let frames = client.end(&home);
    let changed = updates(&frames, &session, "tool_call_update");
    assert_eq!(changed.last().unwrap()["status"], "failed");
}

/// A cancel in one session is nothing to another.
#[test]
fn a_cancel_ends_the_prompt_of_its_own_session_alone() {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let (mut client, session, id) = in_mid_stream(&home, &stub);
    let other = client.session();
    assert_eq!(
        client.rpc.result(CANCEL, &json!({"sessionId": other})),
        json!({"cancelled": false})
    );
    gate.open();
    assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "end_turn");
    assert_eq!(
        updates(client.rpc.seen(), &session, "agent_message_chunk").len(),
        1
    );
    client.end(&home);
}
