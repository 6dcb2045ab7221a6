//! The queue of prompts, and how a turn ends.

use std::time::Duration;

use bridge::{Error, TurnQuery};
use serde_json::{Value, json};
use wire::http::Prompt;

use crate::rig::{client, data, kinds, nobody, options, raw, rig, said, settle};

fn end(reason: &str) -> Value {
    json!({"stopReason": reason})
}

#[tokio::test]
async fn prompts_wait_for_their_turn_and_are_told_so() {
    let mut rig = rig(options()).await;
    let opened = rig.session("s").await;
    let sender = client(&opened.client_id);
    let mut stream = rig.stream("s");
    let first = rig.bridge.prompt(&sender, "s", said("one")).unwrap();
    let second = rig.bridge.prompt(&nobody(), "s", said("two")).unwrap();
    assert_eq!(second.last_event_id, 1);
    let pending = rig.bridge.pending_prompts("s").unwrap().pending_prompts;
    let states: Vec<_> = pending.iter().map(|p| (&*p.text, &*p.state)).collect();
    assert_eq!(states, [("one", "running"), ("two", "queued")]);
    assert_eq!(
        pending[0].originator_client_id.as_ref(),
        Some(&opened.client_id)
    );
    let running = rig.bridge.turn("s", TurnQuery::Current).unwrap();
    assert_eq!(
        (&*running.prompt_id, &*running.state),
        (&*first.prompt_id, "running")
    );
    let queued = rig
        .bridge
        .turn("s", TurnQuery::Prompt(&second.prompt_id))
        .unwrap();
    assert_eq!(queued.state, "queued");

    let prompt = rig.child.heard("session/prompt").await;
    rig.child.chunk("s", "an ").await;
    rig.child.chunk("s", "answer").await;
    rig.child.answer(&prompt, &end("end_turn")).await;
    let prompt = rig.child.heard("session/prompt").await;
    assert_eq!(prompt["params"]["prompt"][0]["text"], "two");
    rig.child.answer(&prompt, &json!({})).await;
    let frames = stream.until("pending_prompt_completed").await;
    assert_eq!(
        kinds(&frames)[1..],
        [
            "user_message_chunk",
            "pending_prompt_added",
            "agent_message_chunk",
            "agent_message_chunk",
            "turn_complete",
            "pending_prompt_started",
            "user_message_chunk",
            "turn_complete",
            "pending_prompt_completed"
        ]
    );
    assert_eq!(data(&frames[2])["queuedAt"], crate::rig::NOW_MS);
    assert_eq!(frames[8].originator_client_id, None);
    // A reason that is not said is the usual one.
    assert_eq!(data(&frames[8])["stopReason"], "end_turn");
    assert_eq!(data(&frames[9])["state"], "completed");
    let settled = rig
        .bridge
        .turn("s", TurnQuery::Prompt(&first.prompt_id))
        .unwrap();
    assert_eq!(settled.state, "completed");
    assert_eq!(settled.result_text.as_deref(), Some("an answer"));
    assert_eq!(settled.stop_reason.as_deref(), Some("end_turn"));
    let last = rig.bridge.turn("s", TurnQuery::Current).unwrap();
    assert_eq!(last.prompt_id, second.prompt_id);
    let unknown = rig.bridge.turn("s", TurnQuery::Prompt("x"));
    assert!(matches!(unknown, Err(Error::PromptNotFound)));
}

#[tokio::test]
async fn a_prompt_too_many_is_refused_and_counted() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    for _ in 0..5 {
        rig.bridge.prompt(&nobody(), "s", said("x")).unwrap();
    }
    let refused = rig.bridge.prompt(&nobody(), "s", said("x")).unwrap_err();
    let Error::PromptQueueFull {
        limit: 5,
        n_pending: 5,
    } = refused
    else {
        panic!("{refused}");
    };
    assert_eq!(rig.bridge.health().prompt_queue_full, 1);
}

#[tokio::test]
async fn a_waiting_prompt_is_taken_back() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    rig.bridge.prompt(&nobody(), "s", said("one")).unwrap();
    let second = rig.bridge.prompt(&nobody(), "s", said("two")).unwrap();
    let mut stream = rig.stream_from("s", Some(2), false);
    let taken = rig
        .bridge
        .remove_prompt(&nobody(), "s", &second.prompt_id)
        .await;
    assert!(taken.unwrap());
    let again = rig
        .bridge
        .remove_prompt(&nobody(), "s", &second.prompt_id)
        .await;
    assert!(!again.unwrap());
    let frames = stream.until("turn_complete").await;
    assert_eq!(
        kinds(&frames)[1..],
        ["pending_prompt_completed", "turn_complete"]
    );
    assert_eq!(data(&frames[1])["state"], "removed");
    assert_eq!(data(&frames[2])["stopReason"], "cancelled");
    assert_eq!(data(&frames[2])["promptId"], second.prompt_id);
}

#[tokio::test]
async fn a_cancel_asks_the_child_in_its_own_way_and_else_in_everybodys() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    let running = rig.bridge.prompt(&nobody(), "s", said("x")).unwrap();
    let prompt = rig.child.heard("session/prompt").await;
    rig.bridge.cancel(&nobody(), "s").await.unwrap();
    let ask = rig.child.heard("craft/cancelPendingPrompt").await;
    rig.child.refuse_unknown(&ask).await;
    let told = rig.child.heard("session/cancel").await;
    assert_eq!(told["params"]["sessionId"], "s");
    rig.child.chunk("s", "late").await;
    let cancelled = json!({"cancelledAt": 1, "elapsedMs": 2});
    let result = json!({"stopReason": "cancelled", "_meta": {"qwen.promptCancelled": cancelled}});
    rig.child.answer(&prompt, &result).await;
    let frames = stream.until("turn_complete").await;
    assert_eq!(
        kinds(&frames)[1..],
        [
            "user_message_chunk",
            "prompt_cancelled",
            "agent_message_chunk",
            "turn_complete"
        ]
    );
    assert_eq!(frames[2].prompt_id.as_deref(), Some(&*running.prompt_id));
    assert_eq!(data(&frames[2]), json!({"sessionId": "s"}));
    assert_eq!(data(&frames[4])["promptCancelled"], cancelled);
    // Nothing runs: it is told once, and the child is only notified.
    for _ in 0..2 {
        rig.bridge.cancel(&nobody(), "s").await.unwrap();
    }
    rig.child.heard("session/cancel").await;
    rig.close("s").await;
    let rest = stream.rest().await;
    assert_eq!(kinds(&rest), ["prompt_cancelled", "session_closed"]);
    assert_eq!(rest[0].prompt_id, None);
}

#[tokio::test]
async fn a_turn_that_fails_says_why() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    rig.bridge.prompt(&nobody(), "s", said("x")).unwrap();
    let prompt = rig.child.heard("session/prompt").await;
    let told = json!({"details": "400 bad request", "errorKind": "model"});
    let error = json!({"code": -32603, "message": "Internal error", "data": told});
    rig.child.refuse(&prompt, &error).await;
    let frames = stream.until("turn_error").await;
    assert_eq!(kinds(&frames)[2..], ["prompt_cancelled", "turn_error"]);
    assert_eq!(data(&frames[2])["reason"], "forward_failed");
    let told = data(&frames[3]);
    assert_eq!(
        (&told["message"], &told["code"], &told["errorKind"]),
        (&json!("400 bad request"), &json!("-32603"), &json!("model"))
    );
    let row = rig.bridge.status("s").unwrap();
    assert!(row.has_turn_error);
    assert_eq!(row.turn_error.unwrap().message, "400 bad request");
    rig.bridge.prompt(&nobody(), "s", said("again")).unwrap();
    assert!(!rig.bridge.status("s").unwrap().has_turn_error);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_too_long_is_ended_and_the_next_one_runs() {
    let mut options = options();
    options.prompt_deadline = Some(Duration::from_secs(5));
    let mut rig = rig(options).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    let hurried = Prompt {
        deadline_ms: Some(1_500),
        ..said("one")
    };
    rig.bridge.prompt(&nobody(), "s", hurried).unwrap();
    rig.bridge.prompt(&nobody(), "s", said("two")).unwrap();
    let prompt = rig.child.heard("session/prompt").await;
    let frames = stream.until("prompt_cancelled").await;
    assert_eq!(kinds(&frames)[3..], ["turn_error", "prompt_cancelled"]);
    let told = data(&frames[3]);
    assert_eq!(told["code"], "prompt_deadline_exceeded");
    assert_eq!(told["message"], "prompt exceeded the 1500ms deadline");
    rig.child.heard("craft/cancelPendingPrompt").await;
    // The child is waited for a little: a second prompt would abort the first.
    rig.child.answer(&prompt, &end("cancelled")).await;
    let prompt = rig.child.heard("session/prompt").await;
    assert_eq!(prompt["params"]["prompt"][0]["text"], "two");
    // This child never answers; its prompt gives way all the same.
    rig.bridge.prompt(&nobody(), "s", said("three")).unwrap();
    let prompt = rig.child.heard("session/prompt").await;
    assert_eq!(prompt["params"]["prompt"][0]["text"], "three");
}

#[tokio::test]
async fn a_close_in_a_turn_ends_what_runs_and_what_waits_before_the_last_event() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    rig.bridge.prompt(&nobody(), "s", said("run")).unwrap();
    rig.bridge.prompt(&nobody(), "s", said("queued")).unwrap();
    let prompt = rig.child.heard("session/prompt").await;
    let bridge = rig.bridge.clone();
    let closing = tokio::spawn(async move { bridge.close(&nobody(), "s").await });
    let close = rig.child.heard("qwen/control/session/close").await;
    let late = rig.bridge.prompt(&nobody(), "s", said("late"));
    assert!(matches!(late, Err(Error::SessionClosing)));
    let twice = rig.bridge.close(&nobody(), "s").await;
    assert!(matches!(twice, Err(Error::SessionClosing)));
    rig.child.answer(&prompt, &end("cancelled")).await;
    rig.child.answer(&close, &json!({"closed": true})).await;
    closing.await.unwrap().unwrap();
    let frames = stream.rest().await;
    assert_eq!(
        kinds(&frames)[1..],
        [
            "user_message_chunk",
            "pending_prompt_added",
            "turn_complete",
            "pending_prompt_started",
            "user_message_chunk",
            "turn_error",
            "prompt_cancelled",
            "session_closed"
        ]
    );
    assert_eq!(data(&frames[6])["code"], "session_closed");
    settle().await;
    assert!(rig.child.untaken().is_empty());
}

#[tokio::test]
async fn a_close_that_the_child_refuses_leaves_the_session_as_it_is() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let bridge = rig.bridge.clone();
    let closing = tokio::spawn(async move { bridge.close(&nobody(), "s").await });
    let close = rig.child.heard("qwen/control/session/close").await;
    let error = json!({"code": -32603, "message": "no"});
    rig.child.refuse(&close, &error).await;
    let refused = closing.await.unwrap();
    assert!(matches!(refused, Err(Error::Agent(_))), "{refused:?}");
    rig.bridge.prompt(&nobody(), "s", said("x")).unwrap();
}

#[tokio::test]
async fn what_is_the_daemons_to_say_is_not_the_callers() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let prompt = Prompt {
        meta: Some(raw(&json!({
            "qwen-code/invocation": {"promptId": "forged"},
            "qwen.daemon.retry": true,
            "qwen.submittedPrompt": "x",
        }))),
        ..said("x")
    };
    let accepted = rig.bridge.prompt(&nobody(), "s", prompt).unwrap();
    let heard = rig.child.heard("session/prompt").await;
    let invocation = json!({"version": 1, "sessionId": "s", "promptId": accepted.prompt_id});
    assert_eq!(
        heard["params"]["_meta"],
        json!({"qwen.submittedPrompt": "x", "qwen-code/invocation": invocation})
    );
}

/// Nothing of what the child says is changed, known or not.
#[tokio::test]
async fn updates_pass_as_they_are() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    let params =
        r#"{"update":{"z":1e400,"sessionUpdate":"unheard_of","a":"\ud800"},"sessionId":"s"}"#;
    let line = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
    rig.child.say(&line).await;
    for malformed in [json!({"sessionId": "s"}), json!({"update": {}}), json!(1)] {
        rig.child.notify("session/update", &malformed).await;
    }
    rig.child.chunk("nobody", "x").await;
    rig.child.chunk("s", "x").await;
    let mut frames = Vec::new();
    while frames.len() < 2 {
        let frame = stream.next().await.unwrap();
        frames.extend(frame.id.is_some().then_some(frame));
    }
    assert_eq!(frames[0].data.get(), params);
    assert_eq!(kinds(&frames[1..]), ["agent_message_chunk"]);
}
