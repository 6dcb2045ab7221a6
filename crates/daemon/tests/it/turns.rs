//! Prompts, their queue and ends, and votes about tool calls (daemon protocol §10–§12).

use serde_json::{Value, json};
use testkit::fake_child::FakeChild;

use crate::rig::{NOBODY, Rig, Setup, also, ask, from, post};

const OWN: &str = "550e8400-e29b-41d4-a716-446655440000";

async fn played() -> (Rig, FakeChild) {
    let (rig, mut child) = Setup::new().started().await;
    rig.played_session(&mut child, OWN).await;
    (rig, child)
}

#[tokio::test]
async fn a_prompt_is_taken_at_once_and_its_turn_is_told_by_its_id() {
    let (rig, mut child) = played().await;
    let accepted = rig.prompt(OWN, "hi").await;
    assert_eq!(accepted.status, 202);
    let accepted = accepted.json();
    let prompt = accepted["promptId"].as_str().unwrap();
    assert_eq!(accepted["lastEventId"], 0);
    assert!(accepted["eventEpoch"].is_string());
    let request = child.heard("session/prompt").await;
    let running = rig
        .get(&format!("/session/{OWN}/turns/current"))
        .await
        .is_good();
    assert_eq!(
        (&running["state"], &running["promptText"]),
        (&json!("running"), &json!("hi"))
    );
    let pending = rig
        .get(&format!("/session/{OWN}/pending-prompts"))
        .await
        .is_good();
    assert_eq!(pending["pendingPrompts"][0]["promptId"], prompt);
    assert_eq!(pending["pendingPrompts"][0]["state"], "running");
    child.chunk(OWN, "hello").await;
    child
        .answer(&request, &json!({"stopReason": "end_turn"}))
        .await;
    let turn = loop {
        let turn = rig
            .get(&format!("/session/{OWN}/turns/{prompt}"))
            .await
            .is_good();
        if turn["state"] != "running" {
            break turn;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(
        (&turn["state"], &turn["stopReason"]),
        (&json!("completed"), &json!("end_turn"))
    );
    assert_eq!(turn["resultText"], "hello");
    let unknown = rig.get(&format!("/session/{OWN}/turns/other")).await;
    let fields = json!({"code": "prompt_not_found", "sessionId": OWN, "promptId": "other"});
    unknown.is_error(404, &fields);
}

#[tokio::test]
async fn a_prompt_is_checked_before_its_session_is_looked_for() {
    let rig = Setup::new().healthy();
    let path = format!("/session/{NOBODY}/prompt");
    let good = json!([{"type": "text", "text": "x"}]);
    for body in [
        json!({}),
        json!({"prompt": []}),
        json!({"prompt": "x"}),
        json!({"prompt": ["x"]}),
        json!({"prompt": [{"type": "text", "text": "x"}, 1]}),
        json!({"prompt": {}}),
    ] {
        rig.post(&path, &body).await.is_error(400, &json!({}));
    }
    for mode in [json!("x"), json!(1)] {
        let refused = rig
            .post(&path, &json!({"prompt": good, "eventDetailMode": mode}))
            .await;
        refused.is_error(400, &json!({"code": "invalid_event_detail_mode"}));
    }
    for ms in [
        json!(0),
        json!(-1),
        json!(1.5),
        json!("9"),
        json!(1e300),
        json!(true),
    ] {
        let refused = rig
            .post(&path, &json!({"prompt": good, "deadlineMs": ms}))
            .await;
        refused.is_error(400, &json!({"code": "invalid_deadline_ms"}));
    }
    let refused = rig.post(&path, &json!({"prompt": good})).await;
    refused.is_error(
        404,
        &json!({"code": "session_not_found", "sessionId": NOBODY}),
    );
}

#[tokio::test]
async fn a_full_queue_refuses_and_a_waiting_prompt_can_be_taken_back() {
    let (rig, mut child) = played().await;
    let mut last = Value::Null;
    for _ in 0..5 {
        last = rig.prompt(OWN, "x").await.json()["promptId"].clone();
    }
    child.heard("session/prompt").await;
    let full = rig.prompt(OWN, "x").await;
    let fields =
        json!({"code": "prompt_queue_full", "sessionId": OWN, "limit": 5, "pendingCount": 5});
    assert_eq!(full.is_error(503, &fields).header("retry-after"), "5");
    let path = format!("/session/{OWN}/pending-prompts/{}", last.as_str().unwrap());
    assert_eq!(
        rig.send(ask("DELETE", &path, &[])).await.is_good(),
        json!({"removed": true})
    );
    assert_eq!(
        rig.send(ask("DELETE", &path, &[])).await.is_good(),
        json!({"removed": false})
    );
    assert_eq!(rig.prompt(OWN, "x").await.status, 202);
}

#[tokio::test]
async fn a_cancel_is_well_whether_or_not_a_turn_runs() {
    let (rig, mut child) = played().await;
    let path = format!("/session/{OWN}/cancel");
    let idle = rig.post(&path, &json!([])).await;
    assert_eq!((idle.status, idle.body.len()), (204, 0));
    rig.prompt(OWN, "x").await;
    child.heard("session/prompt").await;
    assert_eq!(rig.post(&path, &json!({})).await.status, 204);
    child.heard("session/cancel").await;
}

/// A request of the agent that is open, by its id here.
async fn asked(rig: &Rig, child: &mut FakeChild) -> String {
    rig.prompt(OWN, "x").await;
    child.heard("session/prompt").await;
    let params = json!({
        "sessionId": OWN,
        "toolCall": {"toolCallId": "t", "title": "touch made", "kind": "execute"},
        "options": [{"optionId": "proceed_once", "name": "yes", "kind": "allow_once"}],
    });
    child
        .ask(&json!(900), "session/request_permission", &params)
        .await;
    loop {
        let status = rig.get(&format!("/session/{OWN}/status")).await.is_good();
        if let Some(id) = status["pendingInteractions"][0]["requestId"].as_str() {
            assert_eq!(status["isWaitingForPermission"], true);
            return id.to_owned();
        }
        tokio::task::yield_now().await;
    }
}

/// case-K03.
#[tokio::test]
async fn a_vote_decides_once() {
    let (rig, mut child) = played().await;
    let request = asked(&rig, &mut child).await;
    let selected = |option: &str| json!({"outcome": {"outcome": "selected", "optionId": option}});
    let path = format!("/session/{OWN}/permission/{request}");
    for body in [
        json!({}),
        json!({"outcome": "selected"}),
        json!({"outcome": {}}),
        json!({"outcome": []}),
        json!({"outcome": {"outcome": "selected"}}),
        selected(""),
        json!({"outcome": {"outcome": "x"}}),
        json!({"outcome": {"outcome": "selected", "optionId": 1}}),
    ] {
        rig.post(&path, &body).await.is_error(400, &json!({}));
    }
    for option in ["no such option", "__cancelled__"] {
        let fields = json!({
            "code": "invalid_option_id",
            "sessionId": OWN,
            "requestId": request,
            "optionId": option,
        });
        rig.post(&path, &selected(option))
            .await
            .is_error(400, &fields);
    }
    let good = selected("proceed_once");
    let other = rig
        .post(&format!("/session/{OWN}/permission/other"), &good)
        .await;
    other.is_error(404, &json!({"sessionId": OWN, "requestId": "other"}));
    let nowhere = rig.post("/permission/other", &good).await;
    nowhere.is_error(404, &json!({"requestId": "other"}));
    let unknown = rig
        .post(&format!("/session/{NOBODY}/permission/{request}"), &good)
        .await;
    unknown.is_error(
        404,
        &json!({"code": "session_not_found", "sessionId": NOBODY}),
    );
    assert_eq!(rig.post(&path, &good).await.is_good(), json!({}));
    let answer = child.answer_to(&json!(900)).await;
    assert_eq!(answer["result"]["outcome"], good["outcome"]);
    let late = rig.post(&path, &good).await;
    late.is_error(404, &json!({"sessionId": OWN, "requestId": request}));
    let late = rig.post(&format!("/permission/{request}"), &good).await;
    late.is_error(404, &json!({"requestId": request}));
}

#[tokio::test]
async fn a_vote_may_leave_its_session_unsaid() {
    let (rig, mut child) = played().await;
    let request = asked(&rig, &mut child).await;
    let path = format!("/permission/{request}");
    let voted = rig
        .post(&path, &json!({"outcome": {"outcome": "cancelled"}}))
        .await;
    assert_eq!(voted.is_good(), json!({}));
    let answer = child.answer_to(&json!(900)).await;
    assert_eq!(answer["result"]["outcome"]["outcome"], "cancelled");
}

#[tokio::test]
async fn whoever_the_policy_excludes_may_not_vote() {
    let mut setup = Setup::new();
    setup.bridge.permission_policy = bridge::PermissionPolicy::LocalOnly;
    let (rig, mut child) = setup.started().await;
    rig.played_session(&mut child, OWN).await;
    let request = asked(&rig, &mut child).await;
    let path = format!("/session/{OWN}/permission/{request}");
    let vote = || {
        post(
            &path,
            &json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}}),
        )
    };
    let refused = rig.send(from("192.0.2.1", vote())).await;
    let fields = json!({
        "code": "permission_forbidden",
        "reason": "remote_not_allowed",
        "sessionId": OWN,
        "requestId": request,
    });
    refused.is_error(403, &fields);
    let local = from("127.0.0.1", also(vote(), "x-qwen-client-id", ""));
    rig.send(local).await.is_good();
}
