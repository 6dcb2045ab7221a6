//! How sessions come and go.

use bridge::Error;
use serde_json::json;
use wire::http::{NewSession, Restore};

use crate::rig::{bridge, client, data, kinds, nobody, options, rig, said, settle, thread};

#[tokio::test]
async fn a_turn_is_told_in_its_order() {
    let mut rig = rig(options()).await;
    let opened = rig.session("s").await;
    assert!(!opened.attached);
    assert_eq!(opened.workspace_cwd, "/ws");
    assert_eq!(opened.recording_degraded, None);
    let mut stream = rig.stream("s");
    let sender = client(&opened.client_id);
    let accepted = rig.bridge.prompt(&sender, "s", said("hi")).unwrap();
    assert_eq!(accepted.last_event_id, 0);
    let prompt = rig.child.heard("session/prompt").await;
    let invocation = &prompt["params"]["_meta"]["qwen-code/invocation"];
    assert_eq!(invocation["promptId"], accepted.prompt_id);
    assert_eq!(invocation["originatorClientId"], opened.client_id);
    rig.child.chunk("s", "a").await;
    rig.child.chunk("s", "b").await;
    let point = json!({"assistantRecordUuid": "u", "checkpointUuid": "v"});
    let result = json!({"stopReason": "end_turn", "_meta": {"qwen.branchPoint": point}});
    rig.child.answer(&prompt, &result).await;
    // Said behind the answer, so told behind the end of the turn.
    let suggestion =
        json!({"v": 1, "sessionId": "s", "suggestion": "more?", "promptId": "s########1"});
    rig.child
        .notify("qwen/notify/session/prompt-suggestion", &suggestion)
        .await;
    let frames = stream.until("followup_suggestion").await;
    assert_eq!(
        kinds(&frames),
        [
            "replay_complete",
            "user_message_chunk",
            "agent_message_chunk",
            "agent_message_chunk",
            "turn_complete",
            "followup_suggestion"
        ]
    );
    let echo = data(&frames[1]);
    assert_eq!(echo["update"]["_meta"]["source"], "bridge-echo");
    for frame in &frames[1..5] {
        assert_eq!(frame.prompt_id.as_deref(), Some(&*accepted.prompt_id));
        assert_eq!(
            frame.originator_client_id.as_deref(),
            Some(&*opened.client_id)
        );
    }
    assert_eq!(data(&frames[4])["branchPoint"], point);
    assert_eq!(data(&frames[4])["promptId"], accepted.prompt_id);
    assert_eq!(
        (&frames[5].prompt_id, &frames[5].originator_client_id),
        (&None, &None)
    );
    rig.close("s").await;
    let rest = stream.rest().await;
    assert_eq!(kinds(&rest), ["session_closed"]);
    let said_last = data(&rest[0]);
    assert_eq!(
        said_last,
        json!({"sessionId": "s", "reason": "client_close"})
    );
    assert!(matches!(
        rig.bridge.status("s"),
        Err(Error::SessionNotFound(_))
    ));
}

/// Callers that want the shared session at the same time get the same one, and one of them made it.
#[tokio::test]
async fn concurrent_creates_of_the_shared_session_are_one() {
    let mut rig = rig(options()).await;
    let creating: Vec<_> = (0..3)
        .map(|_| {
            let bridge = rig.bridge.clone();
            tokio::spawn(async move { bridge.create(&nobody(), NewSession::default()).await })
        })
        .collect();
    let request = rig.child.heard("session/new").await;
    settle().await;
    rig.child.answer(&request, &json!({"sessionId": "s"})).await;
    let mut n_attached = 0;
    let mut clients = std::collections::BTreeSet::new();
    for created in creating {
        let opened = created.await.unwrap().unwrap();
        assert_eq!(opened.session_id, "s");
        n_attached += usize::from(opened.attached);
        clients.insert(opened.client_id);
    }
    assert_eq!((n_attached, clients.len()), (2, 3));
    assert_eq!(rig.bridge.status("s").unwrap().client_count, 3);
    let late = rig.bridge.create(&nobody(), NewSession::default()).await;
    assert!(late.unwrap().attached);
}

/// Whoever asked first may go: the session is made for the others all the same.
#[tokio::test]
async fn a_caller_that_leaves_ends_nothing() {
    let (bridge, mut launches) = bridge(options());
    let first = bridge.clone();
    let gone = tokio::spawn(async move { first.create(&nobody(), NewSession::default()).await });
    let mut child = launches.next().await;
    gone.abort();
    child.initialize(&json!({})).await;
    let request = child.heard("session/new").await;
    let second = bridge.clone();
    let waiting =
        tokio::spawn(async move { second.create(&nobody(), NewSession::default()).await });
    settle().await;
    child.answer(&request, &json!({"sessionId": "s"})).await;
    assert!(waiting.await.unwrap().unwrap().attached);
    assert!(!launches.is_started());
}

#[tokio::test]
async fn an_id_that_was_not_honoured_is_closed() {
    let mut rig = rig(options()).await;
    let bridge = rig.bridge.clone();
    let wish = NewSession {
        session_id: Some("wished".to_owned()),
        ..thread()
    };
    let creating = tokio::spawn(async move { bridge.create(&nobody(), wish).await });
    let request = rig.child.heard("session/new").await;
    assert_eq!(request["params"]["_meta"]["qwen-code/sessionId"], "wished");
    rig.child
        .answer(&request, &json!({"sessionId": "other"}))
        .await;
    let refused = creating.await.unwrap();
    assert!(
        matches!(refused, Err(Error::SessionIdNotHonored)),
        "{refused:?}"
    );
    let close = rig.child.heard("qwen/control/session/close").await;
    assert_eq!(close["params"]["sessionId"], "other");
    assert_eq!(rig.bridge.sessions(), []);
}

#[tokio::test]
async fn an_id_that_is_live_or_wanted_is_taken() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let wish = |id: &str| NewSession {
        session_id: Some(id.to_owned()),
        ..thread()
    };
    let refused = rig.bridge.create(&nobody(), wish("s")).await;
    assert!(matches!(
        refused,
        Err(Error::SessionIdConflict { conflict: "live" })
    ));
    let bridge = rig.bridge.clone();
    let first = wish("t");
    let creating = tokio::spawn(async move { bridge.create(&nobody(), first).await });
    let request = rig.child.heard("session/new").await;
    let refused = rig.bridge.create(&nobody(), wish("t")).await;
    assert!(matches!(
        refused,
        Err(Error::SessionIdConflict {
            conflict: "pending"
        })
    ));
    rig.child.answer(&request, &json!({"sessionId": "t"})).await;
    creating.await.unwrap().unwrap();
}

#[tokio::test]
async fn attaching_is_not_counted_and_a_session_too_many_is_refused() {
    let mut options = options();
    options.sessions_max = Some(1);
    let mut rig = rig(options).await;
    rig.session("s").await;
    let refused = rig.bridge.create(&nobody(), thread()).await;
    assert!(matches!(refused, Err(Error::SessionLimit { limit: 1 })));
    let loaded = rig.bridge.load(&nobody(), "s", Restore::default()).await;
    assert!(loaded.unwrap().opened.attached);
}

#[tokio::test]
async fn a_client_is_known_where_it_is_registered() {
    let mut rig = rig(options()).await;
    let first = rig.session("s").await;
    assert!(first.client_id.starts_with("client_"));
    let stranger = client("stranger");
    let refused = rig.bridge.prompt(&stranger, "s", said("x"));
    assert!(matches!(refused, Err(Error::UnknownClient)));
    assert!(matches!(
        rig.bridge.heartbeat(&stranger, "s"),
        Err(Error::UnknownClient)
    ));
    // One that is known is kept and counted; a stranger is given a name.
    let known = client(&first.client_id);
    let again = rig.bridge.resume(&known, "s").await.unwrap();
    assert_eq!(again.opened.client_id, first.client_id);
    let other = rig.bridge.resume(&stranger, "s").await.unwrap();
    assert_ne!(other.opened.client_id, "stranger");
    assert_eq!(rig.bridge.status("s").unwrap().client_count, 2);
    rig.bridge.detach(&known, "s").await;
    assert_eq!(rig.bridge.status("s").unwrap().client_count, 2);
    assert!(rig.bridge.heartbeat(&known, "s").is_ok());
    rig.bridge.detach(&known, "s").await;
    assert_eq!(rig.bridge.status("s").unwrap().client_count, 1);
}

#[tokio::test]
async fn the_last_client_that_leaves_closes_an_idle_session() {
    let mut rig = rig(options()).await;
    let opened = rig.session("s").await;
    let known = client(&opened.client_id);
    let stream = rig.stream("s");
    rig.bridge.detach(&nobody(), "s").await;
    rig.bridge.detach(&known, "s").await;
    assert!(rig.bridge.status("s").is_ok(), "a stream is open");
    drop(stream);
    let again = rig.bridge.resume(&nobody(), "s").await.unwrap();
    let bridge = rig.bridge.clone();
    let leaving = client(&again.opened.client_id);
    let detaching = tokio::spawn(async move { bridge.detach(&leaving, "s").await });
    let close = rig.child.heard("qwen/control/session/close").await;
    rig.child.answer(&close, &json!({"closed": true})).await;
    detaching.await.unwrap();
    assert!(rig.bridge.status("s").is_err());
}

/// The shared session that is about to end is not given to anybody.
#[tokio::test]
async fn a_shared_session_that_is_being_closed_is_followed_by_another() {
    let mut rig = rig(options()).await;
    let bridge = rig.bridge.clone();
    let creating =
        tokio::spawn(async move { bridge.create(&nobody(), NewSession::default()).await });
    let request = rig.child.heard("session/new").await;
    rig.child.answer(&request, &json!({"sessionId": "s"})).await;
    creating.await.unwrap().unwrap();
    let bridge = rig.bridge.clone();
    let closing = tokio::spawn(async move { bridge.close(&nobody(), "s").await });
    let close = rig.child.heard("qwen/control/session/close").await;
    let bridge = rig.bridge.clone();
    let creating =
        tokio::spawn(async move { bridge.create(&nobody(), NewSession::default()).await });
    let request = rig.child.heard("session/new").await;
    rig.child.answer(&request, &json!({"sessionId": "t"})).await;
    assert!(!creating.await.unwrap().unwrap().attached);
    rig.child.answer(&close, &json!({"closed": true})).await;
    closing.await.unwrap().unwrap();
    let again = rig
        .bridge
        .create(&nobody(), NewSession::default())
        .await
        .unwrap();
    assert_eq!((again.session_id.as_str(), again.attached), ("t", true));
}

/// One that the child never made is asked for again, and what comes of the first is closed.
#[tokio::test(start_paused = true)]
async fn a_shared_session_that_was_given_up_is_begun_again() {
    let mut rig = rig(options()).await;
    rig.session("other").await;
    let given_up = rig.bridge.create(&nobody(), NewSession::default()).await;
    assert!(matches!(given_up, Err(Error::InitTimeout { .. })));
    let first = rig.child.heard("session/new").await;
    let bridge = rig.bridge.clone();
    let creating =
        tokio::spawn(async move { bridge.create(&nobody(), NewSession::default()).await });
    let second = rig.child.heard("session/new").await;
    rig.child
        .answer(&first, &json!({"sessionId": "late"}))
        .await;
    let close = rig.child.heard("qwen/control/session/close").await;
    assert_eq!(close["params"]["sessionId"], "late");
    rig.child.answer(&second, &json!({"sessionId": "s"})).await;
    assert_eq!(creating.await.unwrap().unwrap().session_id, "s");
    let again = rig
        .bridge
        .create(&nobody(), NewSession::default())
        .await
        .unwrap();
    assert!(again.attached);
}
