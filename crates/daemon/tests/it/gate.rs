//! Who may ask: tokens, hosts, origins (daemon protocol §3).

use axum::http::Request;
use serde_json::json;

use crate::rig::{Answer, Rig, Setup, answer, ask, get, raw};

fn with_token() -> Setup {
    Setup::with(|options| options.token = Some("s3cret".to_owned()))
}

#[tokio::test]
async fn the_right_token_is_asked_for_everywhere_and_nothing_else_tells_them_apart() {
    let rig = with_token().healthy();
    for said in [
        "Bearer s3cret",
        "bearer s3cret",
        "BEARER    s3cret",
        "Bearer s3cret ",
    ] {
        let request = ask("GET", "/capabilities", &[("authorization", said)]);
        assert_eq!(rig.send(request).await.status, 200, "{said:?}");
    }
    let refused = [
        "",
        "Bearer",
        "Bearer ",
        "Bearer nope",
        "Bearer s3cre",
        "Bearer s3crets",
        "Basic s3cret",
        "s3cret",
        "Bearer\ts3cret",
        "bearers3cret",
        "Bearer s3cret x",
    ];
    let mut answers = Vec::new();
    for said in refused {
        let request = ask("GET", "/capabilities", &[("authorization", said)]);
        answers.push(rig.send(request).await);
    }
    for path in [
        "/capabilities",
        "/capabilities?token=s3cret",
        "/capabilities?access_token=s3cret",
        "/session/x/events",
        "/no/such/route",
        "/openapi.json",
        "/metrics",
        "/",
    ] {
        answers.push(rig.get(path).await);
    }
    // Before the body is looked at.
    answers.push(
        rig.send(raw("POST", "/session", "application/json", "{"))
            .await,
    );
    let value = b"Bearer s3cret\xff".as_slice();
    let request = Request::builder()
        .uri("/capabilities")
        .header("authorization", value);
    answers.push(
        rig.send(request.body(axum::body::Body::empty()).unwrap())
            .await,
    );
    for answer in answers {
        answer.is_error(401, &json!({}));
        assert_eq!(answer.json()["error"], "Unauthorized");
        assert_eq!(answer.header("www-authenticate"), "");
    }
}

#[tokio::test]
async fn health_needs_no_token_where_only_this_machine_asks_and_nobody_wants_one() {
    let rig = with_token().healthy();
    rig.get("/health").await.is_good();
    rig.get("/health?deep=1").await.is_good();
    let outside = rig.daemon.router_at("0.0.0.0:4170".parse().unwrap());
    assert_eq!(answer(outside, get("/health")).await.status, 401);
    let rig = {
        let mut setup = with_token();
        setup.daemon.require_auth = true;
        setup.healthy()
    };
    assert_eq!(rig.get("/health").await.status, 401);
    let request = ask("GET", "/health", &[("authorization", "Bearer s3cret")]);
    assert_eq!(rig.send(request).await.status, 200);
}

const AT: &str = "127.0.0.1:4170";

async fn at(rig: &Rig, address: &str, method: &str, headers: &[(&str, &str)]) -> Answer {
    let router = rig.daemon.router_at(address.parse().unwrap());
    answer(router, ask(method, "/health", headers)).await
}

#[tokio::test]
async fn a_host_that_is_not_this_machine_is_refused_where_only_it_is_listened_on() {
    let rig = Setup::new().healthy();
    for host in [
        "127.0.0.1:4170",
        "localhost:4170",
        "LOCALHOST:4170",
        "[::1]:4170",
        "host.docker.internal:4170",
    ] {
        assert_eq!(
            at(&rig, AT, "GET", &[("host", host)]).await.status,
            200,
            "{host}"
        );
    }
    for host in [
        "evil.example",
        "evil.example:4170",
        "localhost",
        "localhost:80",
        "127.0.0.1:4171",
        "",
        "localhost:4170.evil.example",
        "evil.example#localhost:4170",
        "127.0.0.1.evil:4170",
    ] {
        let refused = at(&rig, AT, "GET", &[("host", host)]).await;
        refused.is_error(403, &json!({}));
        assert_eq!(refused.json()["error"], "Invalid Host header", "{host}");
    }
    assert_eq!(at(&rig, AT, "GET", &[]).await.status, 403, "none");
    let two = [("host", AT), ("host", "evil.example")];
    assert_eq!(at(&rig, AT, "GET", &two).await.status, 403, "two");
    for (address, host, status) in [
        ("127.0.0.1:80", "localhost", 200),
        ("127.0.0.1:443", "localhost", 200),
        ("127.0.0.2:4170", "127.0.0.2:4170", 200),
        ("[::1]:4170", "[::1]:4170", 200),
        ("0.0.0.0:4170", "my.example", 200),
    ] {
        let answer = at(&rig, address, "GET", &[("host", host)]).await;
        assert_eq!(answer.status, status, "{address} {host}");
    }
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused_and_told_nothing() {
    let rig = Setup::new().healthy();
    for name in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "host.docker.internal",
        "LocalHost",
    ] {
        let origin = format!("http://{name}:4170");
        let answer = at(&rig, AT, "GET", &[("host", AT), ("origin", &origin)]).await;
        assert_eq!(answer.status, 200, "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), "");
    }
    // A page that the daemon serves at an address of the network is its own, too.
    let own = [
        ("host", "192.0.2.1:4170"),
        ("origin", "http://192.0.2.1:4170"),
    ];
    assert_eq!(at(&rig, "192.0.2.1:4170", "GET", &own).await.status, 200);
    for origin in [
        "http://evil.example",
        "null",
        "https://localhost:4170",
        "http://localhost:4171",
        "http://localhost",
        "http://localhost:4170.evil.example",
        "",
    ] {
        for method in ["GET", "POST", "OPTIONS"] {
            let answer = at(&rig, AT, method, &[("host", AT), ("origin", origin)]).await;
            answer.is_error(403, &json!({}));
            assert_eq!(answer.json()["error"], "Request denied by CORS policy");
            assert_eq!(answer.header("vary"), "Origin");
            let told = |name: &str| name.starts_with("access-control");
            assert!(!answer.headers.keys().any(|name| told(name.as_str())));
        }
    }
    let two = [
        ("host", AT),
        ("origin", "http://localhost:4170"),
        ("origin", "http://evil.example"),
    ];
    assert_eq!(at(&rig, AT, "GET", &two).await.status, 403, "two");
}

#[tokio::test]
async fn an_allowed_origin_is_told_so_on_every_answer_and_its_preflights_need_no_token() {
    let rig = Setup::with(|options| {
        options.token = Some("s3cret".to_owned());
        options.allow_origins = vec!["http://localhost:3000".to_owned()];
    })
    .healthy();
    let origin = ("origin", "http://localhost:3000");
    let token = ("authorization", "Bearer s3cret");
    let cases = [
        (
            ask(
                "OPTIONS",
                "/session",
                &[origin, ("access-control-request-method", "POST")],
            ),
            204,
        ),
        (ask("GET", "/capabilities", &[origin]), 401),
        (ask("GET", "/capabilities", &[origin, token]), 200),
        (ask("GET", "/no/such/route", &[origin, token]), 404),
        (ask("GET", "/session/x/status", &[origin, token]), 404),
        (
            ask("GET", "/health", &[origin, ("x-qwen-client-id", "no id")]),
            400,
        ),
    ];
    for (request, status) in cases {
        let answer = rig.send(request).await;
        assert_eq!(answer.status, status);
        for (name, value) in [
            ("access-control-allow-origin", "http://localhost:3000"),
            (
                "access-control-allow-methods",
                "GET, POST, PATCH, DELETE, OPTIONS",
            ),
            (
                "access-control-allow-headers",
                "Authorization, Content-Type, X-Qwen-Client-Id, Last-Event-ID, X-Qwen-Event-Epoch",
            ),
            ("access-control-max-age", "86400"),
            (
                "access-control-expose-headers",
                "Retry-After, X-Qwen-Event-Epoch, X-Qwen-SSE-Stream-Id",
            ),
            ("vary", "Origin"),
            ("access-control-allow-credentials", ""),
        ] {
            assert_eq!(answer.header(name), value, "{name}");
        }
    }
    let other = ask(
        "GET",
        "/capabilities",
        &[("origin", "http://localhost:3001"), token],
    );
    assert_eq!(rig.send(other).await.status, 403);
}

#[tokio::test]
async fn every_origin_may_ask_only_where_a_token_protects() {
    let rig = Setup::with(|options| options.allow_origins = vec!["*".to_owned()]).healthy();
    assert_eq!(
        rig.daemon.check(AT.parse().unwrap()),
        Err(daemon::Refused::OpenToEveryPage)
    );
    let rig = Setup::with(|options| {
        options.token = Some("s3cret".to_owned());
        options.allow_origins = vec!["*".to_owned()];
    })
    .healthy();
    assert_eq!(rig.daemon.check(AT.parse().unwrap()), Ok(()));
    let headers = [
        ("origin", "http://any.example"),
        ("authorization", "Bearer s3cret"),
    ];
    let answer = rig.send(ask("GET", "/capabilities", &headers)).await;
    assert_eq!(
        answer.header("access-control-allow-origin"),
        "http://any.example"
    );
    let features = answer.is_good()["features"].to_string();
    assert!(features.contains("\"allow_origin\""), "{features}");
}

#[tokio::test]
async fn it_begins_nowhere_that_everybody_could_use_it() {
    let rig = Setup::new().healthy();
    let outside = "192.0.2.1:4170".parse().unwrap();
    assert_eq!(rig.daemon.check(outside), Err(daemon::Refused::NoToken));
    assert_eq!(rig.daemon.check(AT.parse().unwrap()), Ok(()));
    let rig = Setup::with(|options| options.require_auth = true).healthy();
    assert_eq!(
        rig.daemon.check(AT.parse().unwrap()),
        Err(daemon::Refused::NothingToRequire)
    );
    assert_eq!(with_token().healthy().daemon.check(outside), Ok(()));
}

#[tokio::test]
async fn a_client_id_that_is_none_is_refused_and_an_empty_one_is_absent() {
    let rig = Setup::new().healthy();
    let long = "a".repeat(129);
    for id in ["no id!", "é", long.as_str(), "a/b"] {
        let value = axum::http::HeaderValue::from_bytes(id.as_bytes()).unwrap();
        let request = Request::builder()
            .uri("/capabilities")
            .header("x-qwen-client-id", value);
        let answer = rig
            .send(request.body(axum::body::Body::empty()).unwrap())
            .await;
        answer.is_error(400, &json!({"code": "invalid_client_id"}));
    }
    let longest = "a".repeat(128);
    for id in ["", "a", "A.b_c:d-9", longest.as_str()] {
        let answer = rig
            .send(ask("GET", "/capabilities", &[("x-qwen-client-id", id)]))
            .await;
        assert_eq!(answer.status, 200, "{id}");
    }
}
