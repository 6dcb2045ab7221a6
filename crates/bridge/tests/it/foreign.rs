//! An agent of others, which knows the plain protocol and nothing of ours, and what a daemon asks of any.

use std::time::Duration;

use bridge::Error;
use serde_json::json;
use wire::http::NewSession;

use crate::rig::{bridge, client, data, kinds, nobody, options, rig, said, thread};

#[tokio::test]
async fn an_agent_without_a_close_is_left_behind() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    rig.bridge.prompt(&nobody(), "s", said("x")).unwrap();
    let bridge = rig.bridge.clone();
    let closing = tokio::spawn(async move { bridge.close(&nobody(), "s").await });
    let close = rig.child.heard("qwen/control/session/close").await;
    rig.child.refuse_unknown(&close).await;
    closing.await.unwrap().unwrap();
    let cancel = rig.child.heard("craft/cancelPendingPrompt").await;
    rig.child.refuse_unknown(&cancel).await;
    rig.child.heard("session/cancel").await;
    let frames = stream.rest().await;
    assert_eq!(
        kinds(&frames)[1..],
        [
            "user_message_chunk",
            "turn_error",
            "prompt_cancelled",
            "session_closed"
        ]
    );
}

#[tokio::test]
async fn modes_and_models_are_set_in_the_plain_way() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    let bridge = rig.bridge.clone();
    let setting =
        tokio::spawn(async move { bridge.set_approval_mode(&nobody(), "s", "plan").await });
    let request = rig.child.heard("qwen/control/session/approval_mode").await;
    rig.child.refuse_unknown(&request).await;
    let request = rig.child.heard("session/set_mode").await;
    assert_eq!(request["params"]["modeId"], "plan");
    rig.child.answer(&request, &json!({})).await;
    assert_eq!(setting.await.unwrap().unwrap().mode, "plan");
    let bridge = rig.bridge.clone();
    let setting = tokio::spawn(async move { bridge.set_model(&nobody(), "s", "m").await });
    let request = rig.child.heard("session/set_model").await;
    rig.child.refuse_unknown(&request).await;
    let request = rig.child.heard("session/set_config_option").await;
    assert_eq!(request["params"]["configId"], "model");
    rig.child
        .answer(&request, &json!({"configOptions": []}))
        .await;
    setting.await.unwrap().unwrap();
    let frames = stream.until("settings_changed").await;
    assert_eq!(
        kinds(&frames)[1..],
        [
            "approval_mode_changed",
            "model_switched",
            "settings_changed"
        ]
    );
    assert_eq!(data(&frames[1])["next"], "plan");
    assert_eq!(data(&frames[3]), json!({"key": "model.name", "value": "m"}));
    assert_eq!(
        rig.bridge.status("s").unwrap().active_work_state,
        "unsupported"
    );
}

#[tokio::test]
async fn a_model_that_is_refused_is_told() {
    let mut rig = rig(options()).await;
    let opened = rig.session("s").await;
    let mut stream = rig.stream("s");
    let (bridge, caller) = (rig.bridge.clone(), client(&opened.client_id));
    let setting = tokio::spawn(async move { bridge.set_model(&caller, "s", "m").await });
    let request = rig.child.heard("session/set_model").await;
    let error = json!({"code": -32603, "message": "Internal error", "data": {"details": "no m"}});
    rig.child.refuse(&request, &error).await;
    assert!(matches!(setting.await.unwrap(), Err(Error::Agent(_))));
    let frames = stream.until("model_switch_failed").await;
    let told = frames.last().unwrap();
    assert_eq!(
        data(told),
        json!({"sessionId": "s", "requestedModelId": "m", "error": "no m"})
    );
    assert_eq!(told.originator_client_id, Some(opened.client_id));
}

/// The mode is an event before anybody is answered.
#[tokio::test]
async fn a_session_begins_in_the_mode_that_was_asked_for() {
    let mut rig = rig(options()).await;
    let bridge = rig.bridge.clone();
    let wish = NewSession {
        approval_mode: Some("default".to_owned()),
        ..thread()
    };
    let creating = tokio::spawn(async move { bridge.create(&nobody(), wish).await });
    let request = rig.child.heard("session/new").await;
    let modes = json!({"currentModeId": "auto"});
    rig.child
        .answer(&request, &json!({"sessionId": "s", "modes": modes}))
        .await;
    let request = rig.child.heard("qwen/control/session/approval_mode").await;
    let set = json!({"previous": "auto", "current": "default"});
    rig.child.answer(&request, &set).await;
    let opened = creating.await.unwrap().unwrap();
    let mut stream = rig.stream("s");
    let frame = stream.next().await.unwrap();
    assert_eq!(
        data(&frame),
        json!({"sessionId": "s", "previous": "auto", "next": "default", "persisted": false})
    );
    assert_eq!(frame.originator_client_id, Some(opened.client_id));
}

#[tokio::test(start_paused = true)]
async fn what_is_at_work_is_what_the_child_says() {
    let (bridge, mut launches) = bridge(options());
    let mut child = {
        let starting = bridge.clone();
        let preheat = tokio::spawn(async move { starting.preheat().await });
        let mut child = launches.next().await;
        let offer = json!({"qwen.daemon.activeWorkHeartbeat": {"v": 1, "intervalMs": 1}});
        child.initialize(&offer).await;
        preheat.await.unwrap();
        child
    };
    let creating = tokio::spawn({
        let bridge = bridge.clone();
        async move { bridge.create(&nobody(), thread()).await }
    });
    let request = child.heard("session/new").await;
    let row = json!({"sessionId": "s", "hasRunningBackgroundTasks": true, "holds": []});
    let told = json!({"v": 1, "seq": 1, "sessions": [row]});
    child.notify("qwen/notify/channel/active-work", &told).await;
    child.answer(&request, &json!({"sessionId": "s"})).await;
    let opened = creating.await.unwrap().unwrap();
    assert_eq!(opened.has_running_background_tasks, Some(true));
    assert_eq!(bridge.status("s").unwrap().active_work_state, "active");
    assert_eq!(bridge.health().active_work_reporting, "full");
    // 5 s is the shortest interval that a child may choose; after three of them nothing is known.
    tokio::time::advance(Duration::from_secs(16)).await;
    assert_eq!(bridge.status("s").unwrap().active_work_state, "unknown");
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_is_closed_after_a_while() {
    let mut options = options();
    options.idle_max = Some(Duration::from_secs(1_800));
    let mut rig = rig(options).await;
    rig.session("s").await;
    rig.session("watched").await;
    let _stream = rig.stream("watched");
    tokio::time::advance(Duration::from_secs(1_860)).await;
    let close = rig.child.heard("qwen/control/session/close").await;
    assert_eq!(close["params"]["sessionId"], "s");
    assert!(close["params"].get("onlyIfUnheld").is_none());
    rig.child.answer(&close, &json!({"closed": true})).await;
    crate::rig::settle().await;
    assert_eq!(rig.bridge.sessions().len(), 1);
}

#[tokio::test]
async fn the_child_can_be_asked_anything_for_the_daemon() {
    let mut rig = rig(options()).await;
    let bridge = rig.bridge.clone();
    let asking = tokio::spawn(async move {
        let params = json!({"sessionId": "s"});
        bridge
            .ask(
                "qwen/status/session/context",
                &params,
                Duration::from_secs(10),
            )
            .await
    });
    let request = rig.child.heard("qwen/status/session/context").await;
    rig.child
        .say(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{ "a" : 1e400 }}}}"#,
            request["id"]
        ))
        .await;
    assert_eq!(asking.await.unwrap().unwrap().get(), r#"{ "a" : 1e400 }"#);
}

#[tokio::test]
async fn names_and_modes_that_the_child_changes_are_told() {
    let mut rig = rig(options()).await;
    rig.session("s").await;
    let mut stream = rig.stream("s");
    let title = json!({"v": 1, "sessionId": "s", "title": "T", "titleSource": "auto"});
    let mode = json!({"v": 1, "sessionId": "s", "currentModeId": "yolo"});
    let model = json!({"v": 1, "sessionId": "s", "currentModelId": "m"});
    for _ in 0..2 {
        rig.child
            .notify("qwen/notify/session/title-update", &title)
            .await;
        rig.child
            .notify("qwen/notify/session/mode-update", &mode)
            .await;
        rig.child
            .notify("qwen/notify/session/model-update", &model)
            .await;
    }
    rig.close("s").await;
    let frames = stream.rest().await;
    assert_eq!(
        kinds(&frames)[1..],
        [
            "session_metadata_updated",
            "approval_mode_changed",
            "model_switched",
            "session_closed"
        ]
    );
}
