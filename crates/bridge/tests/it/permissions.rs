//! Who decides, and what comes too late.

use std::time::Duration;

use bridge::{Caller, Error, PermissionPolicy};
use serde_json::{Value, json};
use wire::{event::Frame, http::Vote};

use crate::rig::{Rig, Stream, client, data, kinds, nobody, options, raw, rig, said};

fn asked(id: &str) -> Value {
    json!({
        "sessionId": id,
        "toolCall": {
            "toolCallId": "call_1",
            "title": "echo",
            "kind": "execute",
            "rawInput": {"command": "echo"},
            "_meta": {"toolName": "run_shell_command"},
        },
        "options": [
            {"optionId": "proceed_once", "name": "Allow", "kind": "allow_once"},
            {"optionId": "__cancelled__", "name": "trap", "kind": "reject_once"},
        ],
    })
}

fn yes() -> Vote {
    Vote::Selected {
        option_id: "proceed_once".to_owned(),
        extra: Some(raw(&json!({"answers": {"a": 1}, "outcome": "forged"}))),
    }
}

/// A session in whose turn the child asks.
async fn asking(policy: PermissionPolicy) -> (Rig, Stream, String, String) {
    let mut options = options();
    options.permission_policy = policy;
    let mut rig = rig(options).await;
    let opened = rig.session("s").await;
    let mut stream = rig.stream("s");
    rig.bridge
        .prompt(&client(&opened.client_id), "s", said("x"))
        .unwrap();
    rig.child
        .ask(&json!("p"), "session/request_permission", &asked("s"))
        .await;
    let frames = stream.until("permission_request").await;
    let request_id = request_id(frames.last().unwrap());
    (rig, stream, opened.client_id, request_id)
}

fn request_id(frame: &Frame) -> String {
    data(frame)["requestId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_first_vote_counts_and_a_late_one_is_told() {
    let (mut rig, mut stream, owner, id) = asking(PermissionPolicy::FirstResponder).await;
    let row = rig.bridge.status("s").unwrap();
    assert!(row.is_waiting_for_permission && !row.is_waiting_for_user_question);
    let open = &row.pending_interactions[0];
    assert_eq!((&*open.request_id, &*open.action.kind), (&*id, "execute"));
    assert_eq!(open.options[0].label, "Allow");
    for option_id in ["unheard_of", "__cancelled__"] {
        let vote = Vote::Selected {
            option_id: option_id.to_owned(),
            extra: None,
        };
        let refused = rig.bridge.vote(&nobody(), Some("s"), &id, vote);
        assert!(matches!(refused, Err(Error::InvalidOption { .. })));
    }
    let stranger = rig.bridge.vote(&client("x"), Some("s"), &id, yes());
    assert!(matches!(stranger, Err(Error::UnknownClient)));
    let voter = client(&owner);
    rig.bridge.vote(&voter, Some("s"), &id, yes()).unwrap();
    let answer = rig.child.answer_to(&json!("p")).await;
    let outcome = json!({"outcome": "selected", "optionId": "proceed_once"});
    assert_eq!(
        answer["result"],
        json!({"answers": {"a": 1}, "outcome": outcome})
    );

    let late = rig.bridge.vote(&nobody(), Some("s"), &id, Vote::Cancelled);
    assert!(matches!(late, Err(Error::RequestNotFound { session_id: Some(s) }) if s == "s"));
    let late = rig.bridge.vote(&nobody(), None, &id, yes());
    assert!(matches!(
        late,
        Err(Error::RequestNotFound { session_id: None })
    ));
    let unknown = rig.bridge.vote(&nobody(), Some("s"), "x", yes());
    assert!(matches!(unknown, Err(Error::RequestNotFound { .. })));
    let frames = stream.until("permission_already_resolved").await;
    assert_eq!(
        kinds(&frames),
        ["permission_resolved", "permission_already_resolved"]
    );
    assert_eq!(
        data(&frames[0]),
        json!({"requestId": id, "outcome": outcome, "voterClientId": owner})
    );
    assert!(frames[0].prompt_id.is_some());
    assert_eq!(
        data(&frames[1]),
        json!({"requestId": id, "sessionId": "s", "outcome": outcome})
    );
    assert_eq!(frames[1].prompt_id, frames[0].prompt_id);
}

#[tokio::test]
async fn a_vote_needs_no_session_where_it_names_the_request() {
    let (mut rig, _stream, _, id) = asking(PermissionPolicy::FirstResponder).await;
    rig.bridge
        .vote(&nobody(), None, &id, Vote::Cancelled)
        .unwrap();
    let answer = rig.child.answer_to(&json!("p")).await;
    assert_eq!(
        answer["result"],
        json!({"outcome": {"outcome": "cancelled"}})
    );
}

#[tokio::test]
async fn the_designated_client_alone_decides() {
    let (rig, _stream, owner, id) = asking(PermissionPolicy::Designated).await;
    let refused = rig.bridge.vote(&nobody(), Some("s"), &id, yes());
    let Err(Error::PermissionForbidden { reason }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(reason, "designated_mismatch");
    rig.bridge
        .vote(&client(&owner), Some("s"), &id, yes())
        .unwrap();
}

#[tokio::test]
async fn a_client_of_another_machine_does_not_decide_where_that_is_the_policy() {
    let (rig, _stream, _, id) = asking(PermissionPolicy::LocalOnly).await;
    let remote = Caller::default();
    let refused = rig.bridge.vote(&remote, Some("s"), &id, yes());
    let Err(Error::PermissionForbidden { reason }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(reason, "remote_not_allowed");
    rig.bridge.vote(&nobody(), Some("s"), &id, yes()).unwrap();
}

async fn cancelled_as(rig: &mut Rig, id: &Value) -> String {
    let answer = rig.child.answer_to(id).await;
    assert_eq!(
        answer["result"]["outcome"]["outcome"], "cancelled",
        "{answer}"
    );
    let reason = &answer["result"]["_meta"]["qwen.daemon.permissionCancelReason"];
    reason.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_cancel_and_a_close_decide_what_is_open() {
    let (mut rig, mut stream, _, _) = asking(PermissionPolicy::FirstResponder).await;
    rig.bridge.cancel(&nobody(), "s").await.unwrap();
    assert_eq!(cancelled_as(&mut rig, &json!("p")).await, "agent_cancelled");
    let frames = stream.until("permission_resolved").await;
    assert_eq!(kinds(&frames), ["prompt_cancelled", "permission_resolved"]);
    rig.child
        .ask(&json!("q"), "session/request_permission", &asked("s"))
        .await;
    stream.until("permission_request").await;
    let bridge = rig.bridge.clone();
    let closing = tokio::spawn(async move { bridge.close(&nobody(), "s").await });
    assert_eq!(cancelled_as(&mut rig, &json!("q")).await, "session_closed");
    let close = rig.child.heard("qwen/control/session/close").await;
    rig.child
        .ask(&json!("r"), "session/request_permission", &asked("s"))
        .await;
    assert_eq!(cancelled_as(&mut rig, &json!("r")).await, "session_closed");
    rig.child.answer(&close, &json!({"closed": true})).await;
    closing.await.unwrap().unwrap();
    rig.child
        .ask(&json!("t"), "session/request_permission", &asked("s"))
        .await;
    assert_eq!(
        cancelled_as(&mut rig, &json!("t")).await,
        "session_not_found"
    );
}

/// Or the agent would go on as after a refusal, and end its turn as if nothing had been cancelled (§14).
#[tokio::test]
async fn a_close_cancels_the_turn_before_it_answers_what_the_turn_asks() {
    let (mut rig, _stream, _, _) = asking(PermissionPolicy::FirstResponder).await;
    let bridge = rig.bridge.clone();
    let closing = tokio::spawn(async move { bridge.close(&nobody(), "s").await });
    rig.child.heard("craft/cancelPendingPrompt").await;
    assert_eq!(cancelled_as(&mut rig, &json!("p")).await, "session_closed");
    let close = rig.child.heard("qwen/control/session/close").await;
    rig.child.answer(&close, &json!({"closed": true})).await;
    closing.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_child_may_take_its_request_back() {
    let (mut rig, mut stream, _, id) = asking(PermissionPolicy::FirstResponder).await;
    rig.child
        .notify("$/cancel_request", &json!({"requestId": "p"}))
        .await;
    assert_eq!(cancelled_as(&mut rig, &json!("p")).await, "agent_cancelled");
    let frames = stream.until("permission_resolved").await;
    assert_eq!(data(&frames[0])["requestId"], id);
}

#[tokio::test]
async fn a_request_too_many_is_not_asked() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    for n in 0..65 {
        rig.child
            .ask(&json!(n), "session/request_permission", &asked("s"))
            .await;
    }
    assert_eq!(cancelled_as(&mut rig, &json!(64)).await, "too_many_pending");
    assert_eq!(
        rig.bridge.status("s").unwrap().pending_interaction_count,
        64
    );
    assert_eq!(rig.bridge.health().pending_permissions, 64);
}

#[tokio::test(start_paused = true)]
async fn a_request_may_have_a_time() {
    let mut options = options();
    options.permission_wait = Some(Duration::from_secs(9));
    let mut rig = rig(options).await;
    rig.session("s").await;
    rig.child
        .ask(&json!(1), "session/request_permission", &asked("s"))
        .await;
    assert_eq!(cancelled_as(&mut rig, &json!(1)).await, "timeout");
}
