//! What clients send: too much of it, none, or what is no JSON (daemon protocol §2).

use axum::{body::Body, http::Request};
use serde_json::json;
use tokio::time::Instant;

use crate::rig::{NOBODY, Setup, also, raw};

const JSON: &str = "application/json";

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let rig = Setup::new().healthy();
    let at_limit = format!("{{\"a\":\"{}\"}}", "x".repeat((10 << 20) - 8));
    assert_eq!(at_limit.len(), 10 << 20);
    for kind in [JSON, "text/plain"] {
        let answer = rig
            .send(raw("POST", "/session", kind, at_limit.clone()))
            .await;
        assert_eq!(answer.status, 200, "{kind}");
    }
    let path = format!("/session/{NOBODY}/prompt");
    let answer = rig
        .send(raw("POST", &path, JSON, "x".repeat(11 << 20)))
        .await;
    answer.is_error(413, &json!({}));
    assert_eq!(answer.json()["error"], "Request body too large (max 10 MB)");
}

#[tokio::test]
async fn what_is_no_json_is_refused_wherever_a_body_is_read() {
    let rig = Setup::new().healthy();
    let deep = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
    for body in [
        "{",
        "{bad",
        "{\"a\":1}x",
        "\u{feff}{}",
        "\0",
        "{\"a\":\"\0\"}",
        "NaN",
        deep.as_str(),
    ] {
        for path in [
            "/session",
            "/session/x/cancel",
            "/session/x/prompt",
            "/sessions/archive",
        ] {
            let answer = rig.send(raw("POST", path, JSON, body.to_owned())).await;
            answer.is_error(400, &json!({}));
            assert_eq!(
                answer.json()["error"],
                "Invalid JSON in request body",
                "{body:?}"
            );
        }
    }
    let bytes = b"{\"sessionScope\":\"\xff\"}".to_vec();
    let answer = rig.send(raw("POST", "/session", JSON, bytes)).await;
    answer.is_error(400, &json!({}));
}

#[tokio::test]
async fn what_is_no_object_or_says_so_counts_as_an_empty_one() {
    let rig = Setup::new().healthy();
    for (kind, body) in [
        (JSON, ""),
        (JSON, "[]"),
        (JSON, "null"),
        (JSON, "\"x\""),
        (JSON, "[{\"sessionScope\":\"x\"}]"),
        ("text/plain", "{\"sessionScope\":\"x\"}"),
        ("application/x-www-form-urlencoded", "sessionScope=x"),
        ("", "{\"sessionScope\":\"x\"}"),
        ("multipart/form-data; boundary=a", "{"),
    ] {
        let answer = rig.send(raw("POST", "/session", kind, body)).await;
        assert_eq!(answer.status, 200, "{kind} {body}");
    }
    let request = Request::builder().method("POST").uri("/session");
    let answer = rig.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 200);
    for kind in [
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json ;x=y",
    ] {
        let answer = rig
            .send(raw("POST", "/session", kind, "{\"sessionScope\":\"x\"}"))
            .await;
        answer.is_error(400, &json!({"code": "invalid_session_scope"}));
    }
}

/// A text that a program cut in the middle of a character is a text.
#[tokio::test]
async fn half_a_character_is_taken_as_the_replacement_of_one() {
    let rig = Setup::new().healthy();
    let id = rig.session().await;
    let body = "{\"displayName\":\"cut \\ud83d\"}";
    let path = format!("/session/{id}/metadata");
    let answer = rig.send(raw("PATCH", &path, JSON, body)).await;
    assert_eq!(answer.is_good()["displayName"], "cut \u{fffd}");
}

#[tokio::test]
async fn the_last_of_two_fields_counts_and_names_of_prototypes_do_not() {
    let rig = Setup::new().healthy();
    let two = "{\"sessionScope\":\"x\",\"sessionScope\":\"thread\"}";
    assert_eq!(
        rig.send(raw("POST", "/session", JSON, two)).await.status,
        200
    );
    let foreign = json!({"__proto__": {"sessionScope": "x"}, "constructor": 1, "prototype": [], "unknown": true});
    assert_eq!(rig.post("/session", &foreign).await.status, 200);
}

#[tokio::test]
async fn a_field_of_another_type_is_refused_by_its_name() {
    let rig = Setup::new().healthy();
    for (body, code) in [
        (json!({"sessionScope": 1}), "invalid_session_scope"),
        (json!({"sessionId": 1}), "invalid_session_id"),
        (json!({"sessionId": "a\u{0}b"}), "invalid_session_id"),
    ] {
        rig.post("/session", &body)
            .await
            .is_error(400, &json!({"code": code}));
    }
    // `null` is absent.
    let none = json!({"sessionScope": null, "sessionId": null, "cwd": null, "approvalMode": null});
    assert_eq!(rig.post("/session", &none).await.status, 200);
}

#[tokio::test]
async fn a_body_that_says_to_be_too_large_is_refused_before_it_comes() {
    let rig = Setup::new().healthy();
    let request = also(
        raw("POST", "/session", JSON, Body::from_stream(never())),
        "content-length",
        "99999999999",
    );
    rig.send(request).await.is_error(413, &json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_takes_too_long_is_refused() {
    let rig = Setup::new().healthy();
    let began = Instant::now();
    let request = raw("POST", "/session", JSON, Body::from_stream(never()));
    rig.send(request).await.is_error(408, &json!({}));
    assert_eq!(began.elapsed().as_secs(), 60);
}

fn never() -> impl futures_util::Stream<Item = Result<Vec<u8>, std::convert::Infallible>> {
    futures_util::stream::pending()
}
