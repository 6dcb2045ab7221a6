//! How much one address may ask in a minute.

use std::time::Duration;

use serde_json::json;

use crate::rig::{Answer, NOW_MS, Rig, Setup, advance_clock, from, get, post};

fn limited() -> Rig {
    Setup::with(|options| options.rate_limit = true).healthy()
}

/// `n` answers, of which the last one is handed back.
async fn many(n: u32, rig: &Rig, address: &str, method: &str, path: &str) -> Answer {
    let mut last = None;
    for _ in 0..n {
        let request = match method {
            "GET" => get(path),
            _ => post(path, &json!({})),
        };
        last = Some(rig.send(from(address, request)).await);
    }
    last.unwrap()
}

#[tokio::test]
async fn each_kind_of_request_has_its_own_allowance_and_a_minute_renews_it() {
    let rig = limited();
    for (method, path, tier, limit) in [
        ("GET", "/capabilities", "read", 120),
        ("POST", "/session/x/cancel", "mutation", 30),
        ("POST", "/session/x/prompt", "prompt", 10),
    ] {
        let last = many(limit, &rig, "192.0.2.1", method, path).await;
        assert_ne!(last.status, 429, "{tier}");
        assert_eq!(last.header("x-ratelimit-limit"), limit.to_string());
        assert_eq!(last.header("x-ratelimit-remaining"), "0");
        let refused = many(1, &rig, "192.0.2.1", method, path).await;
        let fields = json!({"code": "rate_limit_exceeded", "tier": tier, "retryAfterMs": 60_000});
        refused.is_error(429, &fields);
        assert_eq!(refused.header("retry-after"), "60");
        assert_eq!(refused.header("x-ratelimit-remaining"), "0");
        let reset = (NOW_MS + 60_000).div_ceil(1_000).to_string();
        assert_eq!(refused.header("x-ratelimit-reset"), reset);
        let other = many(1, &rig, "192.0.2.2", method, path).await;
        assert_ne!(other.status, 429, "another address");
    }
    advance_clock(Duration::from_millis(59_999));
    let refused = many(1, &rig, "192.0.2.1", "GET", "/capabilities").await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
    advance_clock(Duration::from_millis(1));
    let last = many(1, &rig, "192.0.2.1", "GET", "/capabilities").await;
    assert_eq!(
        (last.status, last.header("x-ratelimit-remaining")),
        (200, "119")
    );
}

#[tokio::test]
async fn health_heartbeats_and_streams_are_not_counted() {
    let rig = limited();
    for (method, path) in [
        ("GET", "/health"),
        ("POST", "/session/x/heartbeat"),
        ("GET", "/session/x/events"),
    ] {
        let last = many(200, &rig, "192.0.2.1", method, path).await;
        assert_ne!(last.status, 429, "{path}");
        assert_eq!(last.header("x-ratelimit-limit"), "");
    }
}

#[tokio::test]
async fn nothing_is_counted_unless_it_is_wanted_nor_without_the_token() {
    let rig = Setup::new().healthy();
    let last = many(200, &rig, "192.0.2.1", "GET", "/capabilities").await;
    assert_eq!((last.status, last.header("x-ratelimit-limit")), (200, ""));
    let rig = Setup::with(|options| {
        options.rate_limit = true;
        options.token = Some("s3cret".to_owned());
    })
    .healthy();
    let last = many(200, &rig, "192.0.2.1", "GET", "/capabilities").await;
    assert_eq!(last.status, 401);
}
