//! Stored sessions, brought back or attached to.

use bridge::{Error, TurnQuery};
use serde_json::{Value, json};
use wire::http::{Loaded, Restore};

use crate::rig::{Rig, data, kinds, nobody, options, rig, said, settle, thread};

type Loading = tokio::task::JoinHandle<Result<Loaded, Error>>;

fn load(rig: &Rig, id: &'static str) -> Loading {
    let bridge = rig.bridge.clone();
    tokio::spawn(async move { bridge.load(&nobody(), id, Restore::default()).await })
}

fn resume(rig: &Rig, id: &'static str) -> Loading {
    let bridge = rig.bridge.clone();
    tokio::spawn(async move { bridge.resume(&nobody(), id).await })
}

fn message(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

fn turn() -> [Value; 2] {
    [
        message("user_message_chunk", "a"),
        message("agent_message_chunk", "b"),
    ]
}

#[tokio::test]
async fn a_cold_load_answers_with_the_history_and_counts_its_ids() {
    let mut rig = rig(options()).await;
    let loading = load(&rig, "s");
    let request = rig.child.heard("session/load").await;
    assert_eq!(
        request["params"]["_meta"]["qwen.session.loadReplayMode"],
        "bulk"
    );
    let result = json!({
        "modes": {"currentModeId": "plan", "availableModes": []},
        "models": {"currentModelId": "m", "availableModels": []},
        "_meta": {"qwen.session.loadReplay": {
            "v": 1, "updates": turn(), "hasMore": true, "anchorRecordId": "r",
        }},
    });
    rig.child.answer(&request, &result).await;
    let loaded = loading.await.unwrap().unwrap();
    assert!(!loaded.opened.attached);
    assert_eq!(
        (loaded.last_event_id, loaded.history_has_more),
        (2, Some(true))
    );
    assert_eq!(loaded.history_anchor_record_id.as_deref(), Some("r"));
    let history = loaded.compacted_replay.unwrap();
    assert_eq!(
        kinds(&history),
        ["user_message_chunk", "agent_message_chunk"]
    );
    assert_eq!((history[0].id, history[1].id), (Some(1), Some(2)));
    assert_eq!(data(&history[1])["update"], turn()[1]);
    assert_eq!(loaded.live_journal.unwrap().len(), 0);
    let state: Value = serde_json::from_str(loaded.state.get()).unwrap();
    assert_eq!(state["modes"]["currentModeId"], "plan");
    let mut stream = rig.stream_from("s", Some(2), true);
    let frames = stream.until("session_snapshot").await;
    assert_eq!(kinds(&frames), ["replay_complete", "session_snapshot"]);
    assert_eq!(data(&frames[1])["currentModelId"], "m");
    assert_eq!(data(&frames[1])["currentApprovalMode"], "plan");
    // What is shown first is not what was said first.
    assert_eq!(rig.bridge.status("s").unwrap().display_name, None);
    // Warm: the child is not asked, and what came since is in the journal.
    rig.bridge.prompt(&nobody(), "s", said("c")).unwrap();
    let again = load(&rig, "s").await.unwrap().unwrap();
    assert!(again.opened.attached);
    assert_eq!(again.opened.has_active_prompt, Some(true));
    assert_eq!(again.compacted_replay.unwrap().len(), 2);
    assert_eq!(kinds(&again.live_journal.unwrap()), ["user_message_chunk"]);
    assert_eq!(again.state.get(), loaded.state.get());
}

#[tokio::test]
async fn a_replay_that_is_streamed_is_taken_as_well() {
    let mut rig = rig(options()).await;
    let loading = load(&rig, "s");
    let request = rig.child.heard("session/load").await;
    for update in turn() {
        rig.child.update("s", &update).await;
    }
    rig.child.answer(&request, &json!(null)).await;
    let loaded = loading.await.unwrap().unwrap();
    assert_eq!(loaded.last_event_id, 2);
    let name = rig.bridge.status("s").unwrap().display_name;
    assert_eq!(name.as_deref(), Some("a"));
    assert_eq!(
        kinds(&loaded.compacted_replay.unwrap()),
        ["user_message_chunk", "agent_message_chunk"]
    );
}

#[tokio::test]
async fn a_resume_has_no_history() {
    let mut rig = rig(options()).await;
    let resuming = resume(&rig, "s");
    let request = rig.child.heard("session/resume").await;
    rig.child.answer(&request, &json!({})).await;
    let resumed = resuming.await.unwrap().unwrap();
    assert_eq!(resumed.last_event_id, 0);
    assert!(resumed.compacted_replay.is_none() && resumed.live_journal.is_none());
}

#[tokio::test]
async fn the_same_restores_are_one_and_the_opposite_is_refused() {
    let mut rig = rig(options()).await;
    let first = load(&rig, "s");
    let request = rig.child.heard("session/load").await;
    let second = load(&rig, "s");
    settle().await;
    let Err(Error::RestoreInProgress { active, requested }) = resume(&rig, "s").await.unwrap()
    else {
        panic!("it is the opposite");
    };
    assert_eq!((active, requested), ("load", "resume"));
    rig.child.answer(&request, &json!({})).await;
    assert!(!first.await.unwrap().unwrap().opened.attached);
    assert!(second.await.unwrap().unwrap().opened.attached);
    assert!(rig.child.untaken().is_empty());
}

#[tokio::test]
async fn what_is_not_stored_is_not_found_and_other_errors_pass() {
    let mut rig = rig(options()).await;
    for (error, is_not_found) in [
        (
            json!({"code": -32002, "message": "m", "data": {"uri": "session:s"}}),
            true,
        ),
        (
            json!({"code": -32002, "message": "Resource not found: session:s"}),
            true,
        ),
        (
            json!({"code": -32002, "message": "Resource not found: session:t"}),
            false,
        ),
        (
            json!({"code": -32603, "message": "m", "data": {"uri": "session:s"}}),
            false,
        ),
    ] {
        let loading = load(&rig, "s");
        let request = rig.child.heard("session/load").await;
        rig.child.refuse(&request, &error).await;
        let refused = loading.await.unwrap().unwrap_err();
        let is_so = matches!(refused, Error::SessionNotFound(_));
        assert_eq!(is_so, is_not_found, "{error} {refused:?}");
    }
    let loading = load(&rig, "s");
    let request = rig.child.heard("session/load").await;
    let replay = json!({"qwen.session.loadReplay": {"v": 2, "updates": []}});
    rig.child.answer(&request, &json!({"_meta": replay})).await;
    let refused = loading.await.unwrap().unwrap_err();
    assert!(matches!(refused, Error::Agent(_)), "{refused:?}");
    rig.child.heard("qwen/control/session/close").await;
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_comes_too_late_is_closed() {
    let mut rig = rig(options()).await;
    let loading = load(&rig, "s");
    let request = rig.child.heard("session/load").await;
    let late = loading.await.unwrap().unwrap_err();
    assert!(matches!(late, Error::RestoreTimeout { timeout_ms: 60_000 }));
    let again = load(&rig, "s").await.unwrap().unwrap_err();
    assert!(
        matches!(again, Error::RestoreInProgress { .. }),
        "{again:?}"
    );
    // What is said of it meanwhile counts for nothing.
    rig.child.degraded("s").await;
    rig.child.answer(&request, &json!({})).await;
    let close = rig.child.heard("qwen/control/session/close").await;
    assert_eq!(close["params"]["sessionId"], "s");
    rig.child.answer(&close, &json!({"closed": true})).await;
    let loading = load(&rig, "s");
    let request = rig.child.heard("session/load").await;
    rig.child.answer(&request, &json!({})).await;
    let loaded = loading.await.unwrap().unwrap();
    assert_eq!(loaded.opened.recording_degraded, Some(false));
}

#[tokio::test(start_paused = true)]
async fn a_new_session_that_comes_too_late_is_closed() {
    let mut rig = rig(options()).await;
    rig.session("other").await;
    let bridge = rig.bridge.clone();
    let creating = tokio::spawn(async move { bridge.create(&nobody(), thread()).await });
    let request = rig.child.heard("session/new").await;
    let late = creating.await.unwrap().unwrap_err();
    let Error::InitTimeout {
        phase: "session_new",
        ..
    } = late
    else {
        panic!("{late:?}");
    };
    rig.child
        .answer(&request, &json!({"sessionId": "late"}))
        .await;
    let close = rig.child.heard("qwen/control/session/close").await;
    assert_eq!(close["params"]["sessionId"], "late");
    assert_eq!(rig.bridge.sessions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_cannot_begin_a_session_and_serves_no_other_is_ended() {
    let mut rig = rig(options()).await;
    let late = rig.bridge.create(&nobody(), thread()).await.unwrap_err();
    assert!(matches!(late, Error::InitTimeout { .. }));
    rig.child.killed().await;
}

/// What a page shows after a reload is what it showed before.
#[tokio::test]
async fn a_finished_turn_is_answered_folded() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    rig.bridge.prompt(&nobody(), "s", said("a")).unwrap();
    let prompt = rig.child.heard("session/prompt").await;
    rig.child.chunk("s", "b").await;
    rig.child.chunk("s", "c").await;
    rig.child.answer(&prompt, &json!({})).await;
    let mut stream = rig.stream("s");
    stream.until("turn_complete").await;
    let loaded = load(&rig, "s").await.unwrap().unwrap();
    let history = loaded.compacted_replay.unwrap();
    assert_eq!(
        kinds(&history),
        ["user_message_chunk", "agent_message_chunk", "turn_complete"]
    );
    assert_eq!(data(&history[1])["update"]["content"]["text"], "bc");
    assert_eq!((history[1].id, loaded.last_event_id), (Some(3), 4));
    assert_eq!(loaded.state.get(), "{}");
    assert!(rig.bridge.turn("s", TurnQuery::Current).is_ok());
}
