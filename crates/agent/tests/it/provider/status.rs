//! Answers with a status that is no success, or that only look like one.

use super::*;

#[test]
fn e401_names_the_key_to_check() {
    check(
        Reply::json(
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-this-is-secret","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
        ),
        expect![
            "error Auth Some(401): the provider refused the key (HTTP 401: Incorrect API key provided: [key]); check OPENAI_API_KEY"
        ],
    );
}

#[test]
fn e403_names_the_key_to_check() {
    check(
        Reply::json(403, r#"{"error":{"message":"not for you"}}"#),
        expect![
            "error Auth Some(403): the provider refused the key (HTTP 403: not for you); check OPENAI_API_KEY"
        ],
    );
}

#[test]
fn e404_names_the_endpoint_and_the_model() {
    check(
        Reply::json(404, r#"{"error":{"message":"bad path"}}"#),
        expect![
            "error NotFound Some(404): there is no such endpoint or model (HTTP 404: bad path); check OPENAI_BASE_URL (http://ADDRESS/v1) and OPENAI_MODEL (fake-model)"
        ],
    );
}

#[test]
fn a_model_that_does_not_exist_is_named() {
    check(
        Reply::json(
            400,
            r#"{"error":{"message":"The model `fake-model` does not exist","code":"model_not_found"}}"#,
        ),
        expect![
            "error NotFound Some(400): there is no such endpoint or model (HTTP 400: The model `fake-model` does not exist); check OPENAI_BASE_URL (http://ADDRESS/v1) and OPENAI_MODEL (fake-model)"
        ],
    );
}

#[test]
fn e429_is_tried_again_and_told_at_the_end() {
    check(
        Reply::json(429, r#"{"error":{"message":"Rate limit reached","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#).header("retry-after", "2"),
        expect![[r#"
            retry 1 after 0ns: the provider limits requests (HTTP 429: Rate limit reached); wait, or use another model
            retry 2 after 0ns: the provider limits requests (HTTP 429: Rate limit reached); wait, or use another model
            retry 3 after 0ns: the provider limits requests (HTTP 429: Rate limit reached); wait, or use another model
            retry 4 after 0ns: the provider limits requests (HTTP 429: Rate limit reached); wait, or use another model
            error RateLimited Some(429): the provider limits requests (HTTP 429: Rate limit reached); wait, or use another model"#]],
    );
}

#[test]
fn e429text_is_understood_without_json() {
    check(
        Reply::body(429, "text/plain", "slow down").header("retry-after", "1"),
        expect![[r#"
        retry 1 after 0ns: the provider limits requests (HTTP 429: slow down); wait, or use another model
        retry 2 after 0ns: the provider limits requests (HTTP 429: slow down); wait, or use another model
        retry 3 after 0ns: the provider limits requests (HTTP 429: slow down); wait, or use another model
        retry 4 after 0ns: the provider limits requests (HTTP 429: slow down); wait, or use another model
        error RateLimited Some(429): the provider limits requests (HTTP 429: slow down); wait, or use another model"#]],
    );
}

#[test]
fn no_more_credit_is_not_tried_again() {
    check(
        Reply::json(
            429,
            r#"{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}"#,
        ),
        expect![
            "error RateLimited Some(429): the provider gives no more credit (HTTP 429: You exceeded your quota); check the account's plan and billing"
        ],
    );
}

#[test]
fn e400html_is_refused_without_the_page() {
    check(
        Reply::body(400, "text/html", "<html>bad</html>"),
        expect![
            "error Rejected Some(400): the provider refused the request (HTTP 400: a web page)"
        ],
    );
}

#[test]
fn e500_is_tried_again() {
    check(
        Reply::json(500, r#"{"error":{"message":"boom","type":"server_error"}}"#),
        expect![[r#"
        retry 1 after 0ns: the provider failed (HTTP 500: boom); try again later
        retry 2 after 0ns: the provider failed (HTTP 500: boom); try again later
        retry 3 after 0ns: the provider failed (HTTP 500: boom); try again later
        retry 4 after 0ns: the provider failed (HTTP 500: boom); try again later
        error Provider Some(500): the provider failed (HTTP 500: boom); try again later"#]],
    );
}

#[test]
fn e502html_is_tried_again_without_the_page() {
    check(
        Reply::body(502, "text/html", "<html>bad gateway</html>"),
        expect![[r#"
        retry 1 after 0ns: the provider failed (HTTP 502: a web page); try again later
        retry 2 after 0ns: the provider failed (HTTP 502: a web page); try again later
        retry 3 after 0ns: the provider failed (HTTP 502: a web page); try again later
        retry 4 after 0ns: the provider failed (HTTP 502: a web page); try again later
        error Provider Some(502): the provider failed (HTTP 502: a web page); try again later"#]],
    );
}

#[test]
fn e200json_is_an_error_and_no_silence() {
    check(
        Reply::json(
            200,
            r#"{"error":{"message":"quota","code":"insufficient_quota"}}"#,
        ),
        expect![
            "error RateLimited None: the provider gives no more credit (quota); check the account's plan and billing"
        ],
    );
}

#[test]
fn e200html_is_an_error_and_no_silence() {
    check(
        Reply::body(200, "text/html", "<html>login</html>"),
        expect![
            "error Protocol None: http://ADDRESS/v1 answered with a web page instead of a model's answer; check OPENAI_BASE_URL"
        ],
    );
}

#[test]
fn a_body_of_nothing_is_an_error() {
    check(
        Reply::body(200, "text/event-stream", ""),
        expect![[r#"
        retry 1 after 0ns: the answer was cut off: the stream ended before the model was done; try again
        retry 2 after 0ns: the answer was cut off: the stream ended before the model was done; try again
        retry 3 after 0ns: the answer was cut off: the stream ended before the model was done; try again
        retry 4 after 0ns: the answer was cut off: the stream ended before the model was done; try again
        error Cut None: the answer was cut off: the stream ended before the model was done; try again"#]],
    );
}

#[test]
fn a_redirect_is_told_and_not_followed() {
    check(
        Reply::body(301, "text/html", "").header("location", "https://elsewhere.example/v1?key=x"),
        expect![
            "error NotFound Some(301): http://ADDRESS/v1 sends its callers to elsewhere.example (HTTP 301); check OPENAI_BASE_URL (http or https?)"
        ],
    );
}

#[test]
fn an_answer_that_is_not_streamed_is_taken_whole() {
    check(
        Reply::json(200, &json!({
            "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        }).to_string()),
        expect![[r#"
            text whole
            done Stop 1+2=3 cached 0 thoughts 0"#]],
    );
}

#[test]
fn a_wrong_label_does_not_hide_a_stream() {
    let stream = frame(&delta(json!({"content": "a"}), Some("stop")));
    check(
        Reply::json(200, &stream),
        expect![[r#"
        text a
        done Stop"#]],
    );
}
