//! What a child says of a session's record, and who hears of it.

use bridge::Error;
use serde_json::{Value, json};
use wire::{
    http::Restore,
    recording::{FaultClass, RecordingState},
};

use crate::rig::{Rig, client, data, kinds, nobody, options, rig, said, settle, thread};

const DEGRADED: &str = "qwen/notify/session/recording-degraded";
const STATE: &str = "_onrecord/recording_state";

fn degraded(id: &str) -> Value {
    json!({"v": 1, "sessionId": id, "reason": "write_failed"})
}

/// Waits until what the child said before is taken.
async fn taken(rig: &mut Rig) {
    let ask = json!({"sessionId": "nobody"});
    rig.child
        .ask(&json!("sync"), "craft/drainMidTurnQueue", &ask)
        .await;
    rig.child.answer_to(&json!("sync")).await;
}

/// R16: the event has the sender of the running prompt, and no prompt.
#[tokio::test]
async fn a_failed_record_is_told_once_and_stays_visible() {
    let mut rig = rig(options()).await;
    let opened = rig.session("s").await;
    let mut stream = rig.stream("s");
    let sender = client(&opened.client_id);
    rig.bridge.prompt(&sender, "s", said("hi")).unwrap();
    let prompt = rig.child.heard("session/prompt").await;
    rig.child.degraded("s").await;
    rig.child.degraded("s").await;
    let level = json!({"v": 1, "sessionId": "s", "state": "degraded", "class": "storage_full"});
    rig.child.notify(STATE, &level).await;
    rig.child
        .answer(&prompt, &json!({"stopReason": "end_turn"}))
        .await;
    let frames = stream.until("turn_complete").await;
    assert_eq!(
        kinds(&frames),
        [
            "replay_complete",
            "user_message_chunk",
            "session_recording_degraded",
            "turn_complete"
        ]
    );
    let event = &frames[2];
    assert_eq!(
        data(event),
        json!({"sessionId": "s", "reason": "write_failed"})
    );
    assert_eq!(event.prompt_id, None);
    assert_eq!(
        event.originator_client_id.as_deref(),
        Some(&*opened.client_id)
    );
    assert!(data(&frames[3]).get("branchPoint").is_none());

    // R18: everywhere where one may look, however late.
    let row = rig.bridge.status("s").unwrap();
    assert!(row.recording_degraded);
    assert_eq!(row.recording_state, Some(RecordingState::Degraded));
    assert!(rig.bridge.live_state().sessions[0].recording_degraded);
    assert_eq!(rig.bridge.health().recording_degraded, 1);
    let loaded = rig
        .bridge
        .load(&nobody(), "s", Restore::default())
        .await
        .unwrap();
    assert_eq!(loaded.opened.recording_degraded, Some(true));
    assert!(
        kinds(&loaded.compacted_replay.unwrap()).contains(&"session_recording_degraded".to_owned())
    );
    let mut late = rig.stream_from("s", None, true);
    let snapshot = late.next().await.unwrap();
    assert_eq!(
        data(&snapshot),
        json!({
            "sessionId": "s",
            "currentModelId": null,
            "currentApprovalMode": null,
            "recordingDegraded": true,
            "recordingState": "degraded",
        })
    );
    // R21: the last event says so as well.
    rig.close("s").await;
    let last = stream.rest().await.pop().unwrap();
    assert_eq!(last.kind, "session_closed");
    assert_eq!(data(&last)["recordingDegraded"], true);
}

/// R16: whatever is not exactly the news is dropped, and harms nothing.
#[tokio::test]
async fn a_malformed_notification_is_dropped() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    for params in [
        json!({"v": 2, "sessionId": "s", "reason": "write_failed"}),
        json!({"v": "1", "sessionId": "s", "reason": "write_failed"}),
        json!({"v": true, "sessionId": "s", "reason": "write_failed"}),
        json!({"sessionId": "s", "reason": "write_failed"}),
        json!({"v": 1, "sessionId": "", "reason": "write_failed"}),
        json!({"v": 1, "sessionId": 1, "reason": "write_failed"}),
        json!({"v": 1, "reason": "write_failed"}),
        json!({"v": 1, "sessionId": "s", "reason": "other"}),
        json!({"v": 1, "sessionId": "s", "reason": null}),
        json!({"v": 1, "sessionId": "s"}),
        json!(["s"]),
        json!(null),
    ] {
        rig.child.notify(DEGRADED, &params).await;
    }
    rig.child
        .say(&json!({"jsonrpc": "2.0", "method": DEGRADED}).to_string())
        .await;
    rig.child
        .notify(&format!("_{DEGRADED}"), &degraded("s"))
        .await;
    for state in [json!("unheard_of"), json!(1), json!(null)] {
        let params = json!({"v": 1, "sessionId": "s", "state": state});
        rig.child.notify(STATE, &params).await;
    }
    taken(&mut rig).await;
    let row = rig.bridge.status("s").unwrap();
    assert!(!row.recording_degraded);
    assert_eq!(row.recording_state, None);
    // More than is asked for is not malformed, and is not passed on.
    let mut more = degraded("s");
    more["path"] = json!("/secret");
    more["v"] = json!(1.0);
    rig.child.notify(DEGRADED, &more).await;
    let mut stream = rig.stream("s");
    let frames = stream.until("session_recording_degraded").await;
    assert_eq!(
        data(frames.last().unwrap()),
        json!({"sessionId": "s", "reason": "write_failed"})
    );
}

/// R17: what came before the answer that opens the session is in the ring and in the state before
/// anybody is told of the session.
#[tokio::test]
async fn an_early_failure_is_told_before_the_session_is_answered() {
    let mut rig = rig(options()).await;
    let bridge = rig.bridge.clone();
    let creating = tokio::spawn(async move { bridge.create(&nobody(), thread()).await });
    let request = rig.child.heard("session/new").await;
    rig.child.degraded("s").await;
    rig.child
        .chunk("s", "dropped: it is no news of the record")
        .await;
    let level = json!({"v": 1, "sessionId": "s", "state": "degraded"});
    rig.child.notify(STATE, &level).await;
    rig.child.answer(&request, &json!({"sessionId": "s"})).await;
    // Right behind the answer: the session is open already.
    rig.child.chunk("s", "kept").await;
    let opened = creating.await.unwrap().unwrap();
    assert_eq!(opened.recording_degraded, Some(true));
    assert_eq!(opened.recording_state, Some(RecordingState::Degraded));
    let mut stream = rig.stream("s");
    let mut frames = Vec::new();
    while frames.len() < 2 {
        let frame = stream.next().await.unwrap();
        frames.extend(frame.id.is_some().then_some(frame));
    }
    assert_eq!(
        kinds(&frames),
        ["session_recording_degraded", "agent_message_chunk"]
    );
    assert_eq!((frames[0].id, frames[1].id), (Some(1), Some(2)));
    assert_eq!(frames[0].originator_client_id, None);
}

/// R17: 64 sessions of 32 frames, and nothing beyond.
#[tokio::test]
async fn early_events_are_bounded_in_sessions() {
    let mut rig = rig(options()).await;
    for n in 0..70 {
        rig.child.degraded(&format!("s{n}")).await;
    }
    taken(&mut rig).await;
    for (n, expected) in [(0, Some(true)), (63, Some(true)), (64, None), (69, None)] {
        let opened = rig.session(&format!("s{n}")).await;
        assert_eq!(opened.recording_degraded, expected, "{n}");
    }
}

/// R17: as above.
#[tokio::test]
async fn early_events_are_bounded_in_each_session() {
    let mut rig = rig(options()).await;
    for _ in 0..32 {
        let level = json!({"v": 1, "sessionId": "s", "state": "saved"});
        rig.child.notify(STATE, &level).await;
    }
    rig.child.degraded("s").await;
    let opened = rig.session("s").await;
    assert_eq!(opened.recording_degraded, None);
    assert_eq!(opened.recording_state, Some(RecordingState::Saved));
}

/// R17: an event is kept for 60 s, and one that nothing swept is still told.
#[tokio::test(start_paused = true)]
async fn an_old_early_event_makes_room_for_another() {
    let mut rig = rig(options()).await;
    rig.child.degraded("old").await;
    rig.child.degraded("older").await;
    taken(&mut rig).await;
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    let opened = rig.session("older").await;
    assert_eq!(opened.recording_degraded, Some(true));
    rig.child.degraded("new").await;
    let opened = rig.session("old").await;
    assert_eq!(opened.recording_degraded, None);
}

/// R17: what is still said of a closed session is not of one that has its id later.
#[tokio::test(start_paused = true)]
async fn a_closed_session_refuses_early_events_for_a_while() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    rig.close("s").await;
    rig.child.degraded("s").await;
    let opened = rig.session("s").await;
    assert_eq!(opened.recording_degraded, None);
    rig.close("s").await;
    taken(&mut rig).await;
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    rig.child.degraded("s").await;
    let opened = rig.session("s").await;
    assert_eq!(opened.recording_degraded, Some(true));
}

/// R17: whoever asks for a stored session wants to hear of it.
#[tokio::test]
async fn a_restore_lifts_the_tombstone_when_it_is_asked_for() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    rig.close("s").await;
    let bridge = rig.bridge.clone();
    let loading =
        tokio::spawn(async move { bridge.load(&nobody(), "s", Restore::default()).await });
    let request = rig.child.heard("session/load").await;
    rig.child.degraded("s").await;
    let replay = json!({"v": 1, "updates": [
        {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "a"}},
    ]});
    let result = json!({"_meta": {"qwen.session.loadReplay": replay}});
    rig.child.answer(&request, &result).await;
    let loaded = loading.await.unwrap().unwrap();
    assert_eq!(loaded.opened.recording_degraded, Some(true));
    assert_eq!(loaded.last_event_id, 2);
    assert_eq!(
        kinds(&loaded.live_journal.unwrap()),
        ["session_recording_degraded"]
    );
    let mut stream = rig.stream_from("s", Some(1), false);
    let frame = stream.next().await.unwrap();
    assert_eq!(
        (frame.kind.as_str(), frame.id),
        ("session_recording_degraded", Some(2))
    );
}

/// R19: a life of a child has early events of its own.
#[tokio::test]
async fn another_child_begins_with_nothing_early() {
    let mut rig = rig(options()).await;
    rig.child.degraded("s").await;
    taken(&mut rig).await;
    rig.child.die();
    settle().await;
    let bridge = rig.bridge.clone();
    let creating = tokio::spawn(async move { bridge.create(&nobody(), thread()).await });
    rig.child = rig.launches.plain().await;
    let request = rig.child.heard("session/new").await;
    rig.child.answer(&request, &json!({"sessionId": "s"})).await;
    assert_eq!(creating.await.unwrap().unwrap().recording_degraded, None);
}

/// B1: the level is what the child said, and nothing where it said nothing.
#[tokio::test]
async fn the_level_is_kept_and_never_invented() {
    let mut rig = rig(options()).await;
    rig.session("silent").await;
    assert_eq!(rig.bridge.status("silent").unwrap().recording_state, None);
    let bridge = rig.bridge.clone();
    let creating = tokio::spawn(async move { bridge.create(&nobody(), thread()).await });
    let request = rig.child.heard("session/new").await;
    let meta = json!({"onrecord/recording": {"state": "saved"}});
    rig.child
        .answer(&request, &json!({"sessionId": "s", "_meta": meta}))
        .await;
    let opened = creating.await.unwrap().unwrap();
    assert_eq!(opened.recording_state, Some(RecordingState::Saved));
    let level = json!({"v": 1, "sessionId": "s", "state": "never_started", "class": "permission"});
    rig.child.notify(STATE, &level).await;
    taken(&mut rig).await;
    let row = rig.bridge.status("s").unwrap();
    assert_eq!(row.recording_state, Some(RecordingState::NeverStarted));
    assert!(!row.recording_degraded);
}

/// A level that an answer carries is news as well, where the notification was lost.
#[tokio::test]
async fn an_answer_that_says_degraded_is_the_same_news() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    rig.bridge.prompt(&nobody(), "s", said("x")).unwrap();
    let prompt = rig.child.heard("session/prompt").await;
    let meta = json!({"onrecord/recording": {"state": "degraded", "class": "io"}});
    rig.child
        .answer(&prompt, &json!({"stopReason": "end_turn", "_meta": meta}))
        .await;
    rig.child.degraded("s").await;
    rig.close("s").await;
    let kinds = kinds(&stream.rest().await);
    assert_eq!(
        kinds[1..],
        [
            "user_message_chunk",
            "session_recording_degraded",
            "turn_complete",
            "session_closed"
        ]
    );
}

/// R21: a strict close whose flush fails leaves the session open, and says the class alone (R28).
#[tokio::test]
async fn a_strict_close_that_fails_keeps_the_session_alive() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    let cases = [
        (
            json!({"details": "EPERM: operation not permitted, open '/home/me/.q/s.jsonl'"}),
            None,
        ),
        (
            json!({
                "details": "Part of this session is not saved.",
                "errorKind": "recording_not_flushed",
                "onrecord/recording": {"state": "degraded", "class": "storage_full"},
            }),
            Some(FaultClass::StorageFull),
        ),
    ];
    for (told, expected) in cases {
        let bridge = rig.bridge.clone();
        let closing = tokio::spawn(async move { bridge.close_strict("s").await });
        let close = rig.child.heard("qwen/control/session/close").await;
        assert_eq!(close["params"]["requireFlush"], true);
        rig.child.degraded("s").await;
        let error = json!({"code": -32603, "message": "Internal error", "data": told});
        rig.child.refuse(&close, &error).await;
        let refused = closing.await.unwrap();
        let Err(Error::FlushFailed { class }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(class, expected);
    }
    // It goes on: the failure is told, a turn runs, and an ordinary close ends it.
    let accepted = rig.bridge.prompt(&nobody(), "s", said("more")).unwrap();
    let prompt = rig.child.heard("session/prompt").await;
    rig.child
        .answer(&prompt, &json!({"stopReason": "end_turn"}))
        .await;
    let frames = stream.until("turn_complete").await;
    assert_eq!(
        kinds(&frames)[1..],
        [
            "session_recording_degraded",
            "user_message_chunk",
            "turn_complete"
        ]
    );
    assert_eq!(frames[3].prompt_id.as_deref(), Some(&*accepted.prompt_id));
    rig.close("s").await;
    assert!(matches!(rig.bridge.close_strict("s").await, Ok(false)));
}

/// R21: a failure that the close itself finds comes before the last event, where the bus is open.
#[tokio::test]
async fn a_failure_found_by_a_close_is_told_before_the_end() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    let bridge = rig.bridge.clone();
    let closing = tokio::spawn(async move { bridge.close(&nobody(), "s").await });
    let close = rig.child.heard("qwen/control/session/close").await;
    rig.child.degraded("s").await;
    rig.child.answer(&close, &json!({"closed": true})).await;
    // Found too late: only the log of the daemon has it.
    rig.child.degraded("s").await;
    assert!(closing.await.unwrap().unwrap().recording_degraded);
    let frames = stream.rest().await;
    assert_eq!(
        kinds(&frames)[1..],
        ["session_recording_degraded", "session_closed"]
    );
}

/// R27: a name that is not saved is not announced as saved.
#[tokio::test]
async fn a_title_says_whether_it_is_saved() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    for persisted in [true, false] {
        let bridge = rig.bridge.clone();
        let naming = tokio::spawn(async move { bridge.set_title(&nobody(), "s", Some("T")).await });
        let request = rig.child.heard("qwen/control/session/title").await;
        assert_eq!(request["params"]["titleSource"], "manual");
        rig.child
            .answer(
                &request,
                &json!({"displayName": "T", "persisted": persisted}),
            )
            .await;
        let set = naming.await.unwrap().unwrap();
        assert_eq!(set.persisted, Some(persisted));
        let frames = stream.until("session_metadata_updated").await;
        let told = data(frames.last().unwrap());
        assert_eq!(told.get("persisted").is_some(), !persisted, "{told}");
    }
    let read = rig.bridge.set_title(&nobody(), "s", None).await.unwrap();
    assert_eq!(
        (read.display_name.as_deref(), read.persisted),
        (Some("T"), None)
    );
}
