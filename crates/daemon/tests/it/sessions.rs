//! Sessions that are created, brought back, named, left and closed (daemon protocol §6–§8, §13–§14).

use serde_json::{Value, json};
use testkit::transcripts::CWD;

use crate::rig::{NOBODY, Setup, also, ask, post, with_json};

const OWN: &str = "550e8400-e29b-41d4-a716-446655440000";

#[tokio::test]
async fn a_session_is_created_shared_and_attached_to() {
    let rig = Setup::new().healthy();
    let first = rig.post("/session", &json!({"cwd": CWD})).await.is_good();
    let keys: Vec<&String> = first.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "sessionId",
            "workspaceCwd",
            "attached",
            "clientId",
            "createdAt"
        ]
    );
    assert_eq!(first["attached"], false);
    assert_eq!(first["workspaceCwd"], CWD);
    assert!(first["clientId"].as_str().unwrap().starts_with("client_"));
    let second = rig
        .post("/session", &json!({"cwd": format!("{CWD}/")}))
        .await
        .is_good();
    assert_eq!(second["sessionId"], first["sessionId"]);
    assert_eq!(
        (&second["attached"], &second["hasActivePrompt"]),
        (&json!(true), &json!(false))
    );
    assert_ne!(second["clientId"], first["clientId"]);
    assert_eq!(second["recordingDegraded"], false, "R18");
    let own = rig
        .post("/session", &json!({"sessionScope": "thread"}))
        .await
        .is_good();
    assert_ne!(own["sessionId"], first["sessionId"]);
}

/// `session_source_metadata`.
#[tokio::test]
async fn where_a_session_was_asked_for_is_shown_with_it() {
    let rig = Setup::new().healthy();
    let wish = json!({"sessionScope": "thread", "sourceType": "channel", "sourceId": "7"});
    let opened = rig.post("/session", &wish).await.is_good();
    let id = opened["sessionId"].as_str().unwrap();
    let status = rig.get(&format!("/session/{id}/status")).await.is_good();
    assert_eq!(
        (&status["sourceType"], &status["sourceId"]),
        (&json!("channel"), &json!("7"))
    );
    let plain = rig.session().await;
    let status = rig.get(&format!("/session/{plain}/status")).await.is_good();
    assert!(status.get("sourceType").is_none());
}

#[tokio::test]
async fn a_wish_that_cannot_be_met_is_refused_with_its_code() {
    let rig = Setup::new().healthy();
    let modes = json!(["plan", "default", "auto-edit", "auto", "yolo"]);
    for (body, fields) in [
        (json!({"cwd": "rel"}), json!({})),
        (json!({"cwd": 7}), json!({})),
        (
            json!({"cwd": "/etc"}),
            json!({"code": "workspace_mismatch", "boundWorkspace": CWD, "requestedWorkspace": "/etc"}),
        ),
        (
            json!({"sessionScope": "x"}),
            json!({"code": "invalid_session_scope"}),
        ),
        (
            json!({"sessionId": "nope"}),
            json!({"code": "invalid_session_id"}),
        ),
        (
            json!({"sessionId": NOBODY.replace('-', "")}),
            json!({"code": "invalid_session_id"}),
        ),
        (
            json!({"approvalMode": "x"}),
            json!({"code": "invalid_approval_mode", "allowed": modes}),
        ),
        (
            json!({"approvalMode": 1}),
            json!({"code": "invalid_approval_mode", "allowed": modes}),
        ),
    ] {
        rig.post("/session", &body).await.is_error(400, &fields);
    }
}

#[tokio::test]
async fn an_id_of_ones_own_is_honoured_once() {
    let rig = Setup::new().healthy();
    let wish = json!({"sessionId": OWN.to_uppercase(), "sessionScope": "single"});
    let opened = rig.post("/session", &wish).await.is_good();
    assert_eq!(
        (&opened["sessionId"], &opened["attached"]),
        (&json!(OWN), &json!(false))
    );
    let conflict =
        |word: &str| json!({"code": "session_id_conflict", "conflict": word, "sessionId": OWN});
    let refused = rig.post("/session", &wish).await;
    refused.is_error(409, &conflict("live"));
    rig.send(ask("DELETE", &format!("/session/{OWN}"), &[]))
        .await;
    rig.store(OWN, "stored");
    let refused = rig.post("/session", &wish).await;
    refused.is_error(409, &conflict("stored"));
}

#[tokio::test]
async fn an_agent_that_does_not_honour_an_id_is_told_on() {
    let (rig, mut child) = Setup::new().started().await;
    let creating = rig.spawn(post("/session", &json!({"sessionId": OWN})));
    let request = child.heard("session/new").await;
    child.answer(&request, &json!({"sessionId": NOBODY})).await;
    let request = child.heard("qwen/control/session/close").await;
    child.answer(&request, &json!({"closed": true})).await;
    let fields = json!({"code": "session_id_not_honored", "sessionId": OWN});
    creating.await.unwrap().is_error(500, &fields);
}

#[tokio::test]
async fn more_sessions_than_the_limit_are_refused_and_attaching_is_not() {
    let mut setup = Setup::new();
    setup.bridge.sessions_max = Some(1);
    setup.daemon.sessions_max = Some(1);
    let rig = setup.healthy();
    rig.post("/session", &json!({})).await.is_good();
    rig.post("/session", &json!({})).await.is_good();
    let refused = rig
        .post("/session", &json!({"sessionScope": "thread"}))
        .await;
    let fields = json!({"code": "session_limit_exceeded", "limit": 1, "scope": "workspace"});
    assert_eq!(refused.is_error(503, &fields).header("retry-after"), "5");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_begin_in_time_is_a_504() {
    let (rig, mut launches) = Setup::new().played();
    let creating = rig.spawn(post("/session", &json!({})));
    let child = launches.next().await;
    let answer = creating.await.unwrap();
    let fields = json!({
        "code": "init_timeout",
        "errorKind": "init_timeout",
        "retryable": true,
        "phase": "initialize",
        "timeoutMs": 10_000,
    });
    assert_eq!(answer.is_error(504, &fields).header("retry-after"), "5");
    drop(child);
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_takes_too_long_is_a_504_and_another_kind_meanwhile_a_409() {
    let (rig, mut child) = Setup::new().started().await;
    let loading = rig.spawn(post(&format!("/session/{OWN}/load"), &json!({})));
    child.heard("session/load").await;
    let refused = rig
        .post(&format!("/session/{OWN}/resume"), &json!({}))
        .await;
    let fields = json!({
        "code": "restore_in_progress",
        "retryable": true,
        "activeAction": "load",
        "requestedAction": "resume",
        "sessionId": OWN,
    });
    assert_eq!(refused.is_error(409, &fields).header("retry-after"), "5");
    let refused = rig.post("/session", &json!({"sessionId": OWN})).await;
    let fields = json!({"code": "session_id_conflict", "conflict": "pending", "sessionId": OWN});
    refused.is_error(409, &fields);
    let fields = json!({
        "code": "session_restore_timeout",
        "retryable": true,
        "timeoutMs": 60_000,
        "sessionId": OWN,
    });
    let late = loading.await.unwrap();
    assert_eq!(late.is_error(504, &fields).header("retry-after"), "5");
}

#[tokio::test]
async fn a_stored_session_is_loaded_with_its_history_and_resumed_without() {
    let (rig, mut child) = Setup::new().started().await;
    for (action, has_history) in [("load", true), ("resume", false)] {
        let id = if has_history { OWN } else { NOBODY };
        let path = format!("/session/{id}/{action}");
        let loading = rig.spawn(post(&path, &json!({"historyPageSize": 500})));
        let request = child.heard(&format!("session/{action}")).await;
        if has_history {
            child.chunk(id, "of old").await;
        }
        child
            .answer(&request, &json!({"modes": {"currentModeId": "auto"}}))
            .await;
        let loaded = loading.await.unwrap().is_good();
        assert_eq!(loaded["attached"], false);
        assert_eq!(loaded["state"]["modes"]["currentModeId"], "auto");
        assert!(loaded["eventEpoch"].is_string());
        assert_eq!(loaded["lastEventId"], u64::from(has_history));
        assert_eq!(loaded.get("compactedReplay").is_some(), has_history);
        assert_eq!(loaded["recordingDegraded"], false, "R18");
        let again = rig.post(&path, &json!({})).await.is_good();
        assert_eq!(again["attached"], true);
    }
}

#[tokio::test]
async fn a_restore_is_refused_with_its_code() {
    let rig = Setup::new().healthy();
    for action in ["load", "resume"] {
        let path = format!("/session/{NOBODY}/{action}");
        let unknown = json!({"code": "session_not_found", "sessionId": NOBODY});
        rig.post(&path, &json!({})).await.is_error(404, &unknown);
        let refused = rig.post(&path, &json!({"cwd": "/etc"})).await;
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (400, &json!("workspace_mismatch"))
        );
    }
    let path = format!("/session/{NOBODY}/load");
    for (field, code) in [
        ("compactedReplayMode", "invalid_compacted_replay_mode"),
        ("liveReplayMode", "invalid_live_replay_mode"),
    ] {
        rig.post(&path, &json!({field: "x"}))
            .await
            .is_error(400, &json!({"code": code}));
    }
    for size in [
        json!(0),
        json!(501),
        json!(-1),
        json!(1.5),
        json!("7"),
        json!(1e30),
    ] {
        let refused = rig.post(&path, &json!({"historyPageSize": size})).await;
        refused.is_error(
            400,
            &json!({"code": "invalid_transcript_limit", "maxLimit": 500}),
        );
    }
    rig.store(OWN, "old");
    let path = format!("/session/{OWN}/load");
    let archive = rig
        .post("/sessions/archive", &json!({"sessionIds": [OWN]}))
        .await
        .is_good();
    assert_eq!(archive["archived"], json!([OWN]));
    let refused = rig.post(&path, &json!({})).await;
    refused.is_error(409, &json!({"code": "session_archived", "sessionId": OWN}));
    rig.store(OWN, "again");
    let refused = rig.post(&path, &json!({})).await;
    refused.is_error(409, &json!({"code": "session_conflict", "sessionId": OWN}));
}

#[tokio::test]
async fn a_path_that_names_nothing_or_is_no_text_is_no_session() {
    let rig = Setup::new().healthy();
    for id in [
        "nope",
        "..%2f..%2fetc%2fpasswd",
        "%00",
        "%2e%2e",
        "a%0ab",
        "550E8400-E29B-41D4-A716-446655440000",
    ] {
        for (method, path) in [
            ("GET", "status"),
            ("POST", "heartbeat"),
            ("POST", "cancel"),
            ("GET", "events"),
            ("GET", "pending-prompts"),
            ("GET", "turns/current"),
            ("POST", "load"),
            ("GET", "context"),
            ("GET", "attachments"),
            ("GET", "artifacts"),
            ("GET", "sources"),
            ("GET", "goal"),
            ("GET", "mid-turn-messages"),
            ("GET", "export"),
            ("GET", "stats"),
            ("GET", "tasks"),
            ("GET", "context-usage"),
            ("GET", "supported-commands"),
        ] {
            let answer = rig
                .send(ask(method, &format!("/session/{id}/{path}"), &[]))
                .await;
            assert_eq!(answer.status, 404, "{method} {path} {answer:?}");
            assert_eq!(answer.json()["code"], "session_not_found", "{path}");
        }
        let closed = rig
            .send(ask("DELETE", &format!("/session/{id}"), &[]))
            .await;
        assert_eq!(closed.status, 404);
        let model = rig
            .post(&format!("/session/{id}/model"), &json!({"modelId": "m"}))
            .await;
        assert_eq!(model.json()["code"], "session_not_found");
        let name = with_json("PATCH", &format!("/session/{id}/metadata"), &json!({}));
        assert_eq!(rig.send(name).await.json()["code"], "session_not_found");
    }
    for path in [
        "/session/%ff/status",
        "/session/%ff/events",
        "/session/a/turns/%ff",
        "/workspace/%ff/sessions",
    ] {
        rig.get(path).await.is_error(400, &json!({}));
    }
}

#[tokio::test]
async fn a_client_is_known_to_the_session_that_named_it() {
    let rig = Setup::new().healthy();
    let opened = rig
        .post("/session", &json!({"sessionScope": "thread"}))
        .await
        .is_good();
    let (id, client) = (
        opened["sessionId"].as_str().unwrap(),
        opened["clientId"].as_str().unwrap(),
    );
    let path = |rest: &str| format!("/session/{id}{rest}");
    let said = json!({"prompt": [{"type": "text", "text": "x"}]});
    let vote = json!({"outcome": {"outcome": "cancelled"}});
    let stranger = json!({"code": "invalid_client_id", "sessionId": id, "clientId": "stranger"});
    let requests = [
        post(&path("/prompt"), &said),
        post(&path("/cancel"), &json!({})),
        post(&path("/heartbeat"), &json!({})),
        post(&path("/permission/r"), &vote),
        post(&path("/model"), &json!({"modelId": "m"})),
        post(&path("/approval-mode"), &json!({"mode": "plan"})),
        with_json("PATCH", &path("/metadata"), &json!({"displayName": "n"})),
        ask("DELETE", &path("/pending-prompts/p"), &[]),
        ask("DELETE", &path(""), &[]),
    ];
    for request in requests {
        let answer = rig
            .send(also(request, "x-qwen-client-id", "stranger"))
            .await;
        answer.is_error(400, &stranger);
    }
    let beat = rig
        .send(also(
            post(&path("/heartbeat"), &json!({})),
            "x-qwen-client-id",
            client,
        ))
        .await;
    assert_eq!(
        beat.is_good(),
        json!({"sessionId": id, "clientId": client, "lastSeenAt": crate::rig::NOW_MS})
    );
    let beat = rig.post(&path("/heartbeat"), &json!({})).await.is_good();
    assert_eq!(
        beat,
        json!({"sessionId": id, "lastSeenAt": crate::rig::NOW_MS})
    );
    let (status, _, _) = rig
        .events(id, "", &[("x-qwen-client-id", "stranger")])
        .await;
    assert_eq!(status, 200, "a stream's client is a remark");
}

#[tokio::test]
async fn leaving_is_always_well_and_the_last_one_out_closes() {
    let rig = Setup::new().healthy();
    let opened = rig.post("/session", &json!({})).await.is_good();
    let id = opened["sessionId"].as_str().unwrap();
    let path = format!("/session/{id}/detach");
    let client = opened["clientId"].as_str().unwrap();
    for client in ["", "stranger", client, client] {
        let leaving = also(post(&path, &json!({})), "x-qwen-client-id", client);
        assert_eq!(rig.send(leaving).await.status, 204);
    }
    assert_eq!(rig.get(&format!("/session/{id}/status")).await.status, 404);
    let nowhere = rig
        .post(&format!("/session/{NOBODY}/detach"), &json!({}))
        .await;
    assert_eq!(nowhere.status, 204);
}

#[tokio::test]
async fn a_session_closes_once() {
    let rig = Setup::new().healthy();
    let id = rig.session().await;
    let close = || ask("DELETE", &format!("/session/{id}"), &[]);
    let closed = rig.send(close()).await;
    assert_eq!((closed.status, closed.body.len()), (204, 0));
    let gone = json!({"code": "session_not_found", "sessionId": id});
    rig.send(close()).await.is_error(404, &gone);
}

#[tokio::test]
async fn a_session_that_is_being_closed_takes_nothing_more() {
    let (rig, mut child) = Setup::new().started().await;
    rig.played_session(&mut child, OWN).await;
    let closing = rig.spawn(ask("DELETE", &format!("/session/{OWN}"), &[]));
    let request = child.heard("qwen/control/session/close").await;
    let fields = json!({"code": "session_closing", "sessionId": OWN});
    let refused = rig.prompt(OWN, "late").await;
    refused.is_error(404, &fields);
    child.answer(&request, &json!({"closed": true})).await;
    assert_eq!(closing.await.unwrap().status, 204);
}

#[tokio::test]
async fn an_agents_refusal_comes_through_without_places() {
    let (rig, mut child) = Setup::new().started().await;
    rig.played_session(&mut child, OWN).await;
    for (message, details, told) in [
        (
            "Internal error",
            "no such model",
            ("Internal error", "no such model"),
        ),
        (
            "EPERM: open '/home/me/x'",
            "EPERM: operation not permitted, open '/home/me/.x/chats/a.jsonl'",
            (
                "Internal error",
                "the agent failed; its log names the cause",
            ),
        ),
    ] {
        let path = format!("/session/{OWN}/model");
        let setting = rig.spawn(post(&path, &json!({"modelId": "m"})));
        let request = child.heard("session/set_model").await;
        let error = json!({"code": -32603, "message": message, "data": {"details": details}});
        child.refuse(&request, &error).await;
        let answer = setting.await.unwrap();
        let fields = json!({"code": -32603, "data": {"details": told.1}});
        answer.is_error(500, &fields);
        assert_eq!(answer.json()["error"], told.0);
    }
}

#[tokio::test]
async fn an_agent_that_is_gone_is_a_503_and_the_next_request_starts_another() {
    let (rig, mut launches) = Setup::new().played();
    let creating = rig.spawn(post("/session", &json!({})));
    launches.next().await.exit(1);
    let gone = creating.await.unwrap();
    let fields = json!({"code": "acp_channel_unavailable"});
    assert_eq!(gone.is_error(503, &fields).header("retry-after"), "5");
    let creating = rig.spawn(post("/session", &json!({})));
    tokio::spawn(launches.next().await.serve());
    creating.await.unwrap().is_good();
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_answer_a_read_is_a_504() {
    let (rig, mut child) = Setup::new().started().await;
    rig.played_session(&mut child, OWN).await;
    let answer = rig.get(&format!("/session/{OWN}/context")).await;
    let fields = json!({"code": "agent_timeout", "sessionId": OWN});
    assert_eq!(answer.is_error(504, &fields).header("retry-after"), "5");
}

#[tokio::test]
async fn a_daemon_that_stops_takes_nothing_more() {
    let rig = Setup::new().healthy();
    rig.session().await;
    rig.bridge.shutdown().await;
    let refused = rig.post("/session", &json!({})).await;
    refused.is_error(503, &json!({"code": "daemon_draining"}));
}

#[tokio::test]
async fn modes_and_names_are_checked_before_the_agent_is_asked() {
    let rig = Setup::new().healthy();
    let id = rig.session().await;
    let mode = format!("/session/{id}/approval-mode");
    let set = rig
        .post(&mode, &json!({"mode": "plan", "persist": false}))
        .await
        .is_good();
    assert_eq!(
        set,
        json!({"sessionId": id, "mode": "plan", "previous": "default", "persisted": false})
    );
    for body in [json!({}), json!({"mode": "x"}), json!({"mode": 1})] {
        let refused = rig.post(&mode, &body).await;
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (400, &json!("invalid_approval_mode"))
        );
        assert!(refused.json()["allowed"].is_array());
    }
    let refused = rig
        .post(&mode, &json!({"mode": "plan", "persist": "yes"}))
        .await;
    refused.is_error(400, &json!({"code": "invalid_persist_flag"}));
    for body in [
        json!({}),
        json!({"modelId": ""}),
        json!({"modelId": " "}),
        json!({"modelId": 1}),
    ] {
        let refused = rig.post(&format!("/session/{id}/model"), &body).await;
        refused.is_error(400, &json!({}));
    }
    let name = |name: Value| {
        with_json(
            "PATCH",
            &format!("/session/{id}/metadata"),
            &json!({"displayName": name}),
        )
    };
    for bad in [
        json!(""),
        json!("  "),
        json!(1),
        json!("a\u{7}b"),
        json!("a\nb"),
        json!(["a"]),
    ] {
        let refused = rig.send(name(bad)).await;
        refused.is_error(
            400,
            &json!({"code": "invalid_metadata", "field": "displayName"}),
        );
    }
    let read = with_json("PATCH", &format!("/session/{id}/metadata"), &json!({}));
    assert_eq!(rig.send(read).await.is_good(), json!({"sessionId": id}));
}

#[tokio::test]
async fn a_long_name_is_cut() {
    let (rig, mut child) = Setup::new().started().await;
    rig.played_session(&mut child, OWN).await;
    let long = "é".repeat(300);
    let path = format!("/session/{OWN}/metadata");
    let naming = rig.spawn(with_json("PATCH", &path, &json!({"displayName": long})));
    let request = child.next().await.unwrap();
    let sent = request["params"].to_string();
    assert_eq!(sent.matches('é').count(), 256, "{sent}");
    child.answer(&request, &json!({})).await;
    let named = naming.await.unwrap().is_good();
    assert_eq!(named["displayName"], "é".repeat(256));
}
