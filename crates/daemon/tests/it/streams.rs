//! Streams of events (daemon protocol §16).

use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::Instant;
use wire::sse;

use crate::rig::{Answer, NOBODY, Rig, Setup, answer, ask};

const OWN: &str = "550e8400-e29b-41d4-a716-446655440000";

/// The next bytes of a stream; `None` at its end.
async fn next(body: &mut Body) -> Option<String> {
    let frame = body.frame().await?.unwrap();
    Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
}

/// The events of a stream to the first of this type, or to its end.
async fn until(body: &mut Body, kind: &str) -> Vec<Value> {
    let mut decoder = sse::Decoder::default();
    let mut seen = Vec::new();
    while let Some(text) = next(body).await {
        decoder.push(text.as_bytes());
        while let Some(event) = decoder.next_event().unwrap() {
            let event: Value = serde_json::from_slice(event.data).unwrap();
            let is_it = event["type"] == kind;
            seen.push(event);
            if is_it {
                return seen;
            }
        }
    }
    seen
}

async fn refused(rig: &Rig, id: &str, query: &str) -> Answer {
    let path = format!("/session/{id}/events{query}");
    answer(rig.daemon.router(), ask("GET", &path, &[])).await
}

#[tokio::test]
async fn a_stream_says_what_it_is_and_how_soon_to_come_back() {
    let rig = Setup::new().healthy();
    let id = rig.session().await;
    let (status, headers, mut body) = rig.events(&id, "", &[]).await;
    assert_eq!(status, 200);
    let of = |name: &str| headers[name].to_str().unwrap().to_owned();
    assert_eq!(of("content-type"), "text/event-stream");
    assert_eq!(of("cache-control"), "no-cache, no-transform");
    assert_eq!(of("x-accel-buffering"), "no");
    assert_eq!(next(&mut body).await.unwrap(), "retry: 3000\n\n");
    let accepted = rig.prompt(&id, "x").await.json();
    assert_eq!(of("x-qwen-event-epoch"), accepted["eventEpoch"]);
    let (_, other, _) = rig.events(&id, "", &[]).await;
    assert_ne!(of("x-qwen-sse-stream-id"), other["x-qwen-sse-stream-id"]);
    let events = until(&mut body, "turn_complete").await;
    let ids: Vec<u64> = events.iter().map(|e| e["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (1..=events.len() as u64).collect::<Vec<_>>());
}

/// R18: whoever comes late learns that the record failed.
#[tokio::test]
async fn a_snapshot_says_whether_the_record_failed() {
    let (rig, mut child) = Setup::new().started().await;
    rig.played_session(&mut child, OWN).await;
    let (_, _, mut body) = rig.events(OWN, "?snapshot=1", &[]).await;
    let snapshot = until(&mut body, "session_snapshot").await;
    assert_eq!(snapshot[0]["data"]["recordingDegraded"], false);
    child.degraded(OWN).await;
    until(&mut body, "session_recording_degraded").await;
    let (_, _, mut late) = rig
        .events(OWN, "?snapshot=1", &[("last-event-id", "1")])
        .await;
    let told = until(&mut late, "session_snapshot").await;
    assert_eq!(told[0]["type"], "replay_complete");
    assert_eq!(told[1]["data"]["recordingDegraded"], true);
    assert!(told[1].get("id").is_none());
    let (_, _, mut replayed) = rig
        .events(OWN, "?snapshot=true", &[("last-event-id", "0")])
        .await;
    let told = until(&mut replayed, "replay_complete").await;
    assert_eq!(told[0]["type"], "session_recording_degraded");
    let status = rig.get(&format!("/session/{OWN}/status")).await.is_good();
    assert_eq!(status["recordingDegraded"], true);
}

#[tokio::test]
async fn a_cursor_of_another_life_begins_anew_and_one_that_is_no_number_is_none() {
    let rig = Setup::new().healthy();
    let id = rig.session().await;
    let (_, _, mut live) = rig.events(&id, "", &[]).await;
    rig.prompt(&id, "x").await;
    until(&mut live, "turn_complete").await;
    let other = [("last-event-id", "1"), ("x-qwen-event-epoch", NOBODY)];
    let (_, _, mut body) = rig.events(&id, "", &other).await;
    let told = until(&mut body, "replay_complete").await;
    assert_eq!(told[0]["type"], "state_resync_required");
    assert_eq!(told[0]["data"]["reason"], "epoch_reset");
    // case-I02: digits beyond every number are a cursor all the same.
    let beyond = [("last-event-id", "1000000000000000000000000000000")];
    let (_, _, mut body) = rig.events(&id, "", &beyond).await;
    let told = until(&mut body, "replay_complete").await;
    assert_eq!(told[0]["data"]["reason"], "epoch_reset");
    for cursor in ["x", "-1", "1.0", "+1", " ", "", "0x1"] {
        let headers = [("last-event-id", cursor)];
        let (status, _, mut body) = rig.events(&id, "?snapshot=1", &headers).await;
        assert_eq!(status, 200);
        let told = until(&mut body, "session_snapshot").await;
        assert_eq!(told.len(), 1, "{cursor:?}: live only");
    }
}

#[tokio::test]
async fn a_stream_that_cannot_be_is_refused_before_its_head() {
    let rig = Setup::new().healthy();
    let id = rig.session().await;
    for n in [
        "15",
        "2049",
        "x",
        "",
        "-16",
        "1e3",
        "16.0",
        "99999999999999999999999",
    ] {
        let answer = refused(&rig, &id, &format!("?maxQueued={n}")).await;
        answer.is_error(400, &json!({"code": "invalid_max_queued"}));
    }
    for n in ["16", "2048"] {
        assert_eq!(
            rig.events(&id, &format!("?maxQueued={n}"), &[]).await.0,
            200
        );
    }
    let unknown = refused(&rig, NOBODY, "").await;
    unknown.is_error(
        404,
        &json!({"code": "session_not_found", "sessionId": NOBODY}),
    );
}

#[tokio::test]
async fn the_65th_stream_is_refused_until_another_ends() {
    let rig = Setup::new().healthy();
    let id = rig.session().await;
    let mut bodies = Vec::new();
    for _ in 0..64 {
        let (status, _, body) = rig.events(&id, "", &[]).await;
        assert_eq!(status, 200);
        bodies.push(body);
    }
    let answer = refused(&rig, &id, "").await;
    let fields = json!({"code": "subscriber_limit_exceeded", "limit": 64, "sessionId": id});
    assert_eq!(answer.is_error(429, &fields).header("retry-after"), "5");
    let deep = rig.get("/health?deep=1").await.is_good();
    assert_eq!(deep["connectedClients"], 64);
    bodies.pop();
    assert_eq!(rig.events(&id, "", &[]).await.0, 200);
}

/// case-I06.
#[tokio::test(start_paused = true)]
async fn a_silent_stream_says_every_15_seconds_that_it_lives() {
    let rig = Setup::new().healthy();
    let id = rig.session().await;
    let (_, _, mut body) = rig.events(&id, "", &[]).await;
    next(&mut body).await;
    for _ in 0..3 {
        let began = Instant::now();
        assert_eq!(next(&mut body).await.unwrap(), ": heartbeat\n\n");
        assert_eq!(began.elapsed().as_secs(), 15);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_may_not_be_silent_for_long_ends_with_a_reason() {
    let wait = Duration::from_secs(5);
    let rig = Setup::with(|options| options.writer_idle_max = Some(wait)).healthy();
    let id = rig.session().await;
    let (_, _, mut body) = rig.events(&id, "", &[]).await;
    let began = Instant::now();
    let seen = until(&mut body, "nothing").await;
    assert_eq!(began.elapsed().as_secs(), 5);
    let [evicted] = &*seen else {
        panic!("{seen:?}")
    };
    assert_eq!(evicted["type"], "client_evicted");
    let data = json!({
        "reason": "writer_idle_timeout",
        "errorKind": "writer_idle_timeout",
        "idleForMs": 5_000,
        "timeoutMs": 5_000,
    });
    assert_eq!(evicted["data"], data);
    let deep = rig.get("/health?deep=1").await.is_good();
    drop(body);
    assert_eq!(deep["connectedClients"], 1, "until its body goes");
}

/// The one that is too slow is told so: the real daemon only breaks the connection (§16).
#[tokio::test]
async fn a_stream_that_is_too_slow_is_told_that_it_is_given_up() {
    let (rig, mut child) = Setup::new().started().await;
    rig.played_session(&mut child, OWN).await;
    let (_, _, mut slow) = rig.events(OWN, "?maxQueued=16", &[]).await;
    let (_, _, mut quick) = rig.events(OWN, "?maxQueued=2048", &[]).await;
    assert_eq!(next(&mut slow).await.unwrap(), "retry: 3000\n\n");
    child.chunk(OWN, "first").await;
    next(&mut slow).await.unwrap();
    for _ in 0..40 {
        // Each is published by itself, while the slow one is away with the first.
        child.chunk(OWN, "next").await;
        until(&mut quick, "session_update").await;
    }
    child.degraded(OWN).await;
    until(&mut quick, "session_recording_degraded").await;
    let seen = until(&mut slow, "nothing").await;
    let evicted = seen.last().unwrap();
    assert_eq!(evicted["type"], "client_evicted");
    assert_eq!(evicted["data"]["reason"], "queue_overflow");
    let metrics = rig.get("/metrics").await.text();
    assert!(
        metrics.contains("onrecord_evictions_total 1\n"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_head_alone_opens_no_stream() {
    let rig = Setup::new().healthy();
    let id = rig.session().await;
    let path = format!("/session/{id}/events");
    let answer = rig.send(ask("HEAD", &path, &[])).await;
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    let deep = rig.get("/health?deep=1").await.is_good();
    assert_eq!(deep["connectedClients"], 0);
}

/// case-I04.
#[tokio::test]
async fn the_end_of_a_session_is_the_last_word_of_its_streams() {
    let rig = Setup::new().healthy();
    let (closed, died) = (rig.session().await, rig.session().await);
    let (_, _, mut of_closed) = rig.events(&closed, "", &[]).await;
    let (_, _, mut of_died) = rig.events(&died, "", &[]).await;
    rig.send(ask("DELETE", &format!("/session/{closed}"), &[]))
        .await;
    let seen = until(&mut of_closed, "nothing").await;
    assert_eq!(seen.last().unwrap()["type"], "session_closed");
    assert!(rig.bridge.shutdown().await);
    let seen = until(&mut of_died, "nothing").await;
    assert_eq!(seen.last().unwrap()["data"]["reason"], "daemon_shutdown");
    refused(&rig, &closed, "").await.is_error(
        404,
        &json!({"code": "session_not_found", "sessionId": closed}),
    );
}
