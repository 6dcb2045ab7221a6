//! The OpenAI-compatible provider against streams as awkward as servers really send them.
//!
//! Every answer is told with all that a turn gets to know of it: what was streamed, the calls, the
//! end with its tokens, or the error. Nothing may be lost, doubled or hidden.

use std::time::{Duration, Instant};

use agent::{
    message::{Message, Usage},
    model::{
        Completion, ModelError, ModelErrorKind, ModelEvent, ModelStream, Provider as _, Request,
        openai::{ApiKey, OpenAi, OpenAiConfig, Retries},
    },
};
use expect_test::{Expect, expect};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use testkit::stub_model::{End, Framing, Gate, Reply, StubModel, delta, frame};

const KEY: &str = "sk-this-is-secret";

/// As often as the product tries, without its waits.
const AT_ONCE: Retries = Retries {
    n_attempts_max: 5,
    wait_first: Duration::ZERO,
    wait_max: Duration::ZERO,
};

fn provider(base_url: String) -> OpenAi {
    let api_key = Some(ApiKey::new(KEY));
    OpenAi::new(OpenAiConfig {
        base_url,
        api_key,
        model: "fake-model".to_owned(),
    })
    .expect("the address of a stub is one")
    .with_retries(AT_ONCE)
}

fn ask(provider: &OpenAi) -> ModelStream {
    provider.stream(Request {
        system: "".into(),
        messages: vec![Message::User("hi".to_owned())],
        tools: [].into(),
    })
}

/// Runs on one thread, as the product does.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime is made")
        .block_on(work)
}

fn collect(stub: &StubModel) -> Vec<Result<ModelEvent, ModelError>> {
    block_on(ask(&provider(stub.base_url())).collect())
}

/// The events, one a line; what was streamed as text or as thoughts joined, ids that were made up
/// hidden, and long runs shortened.
fn told(events: &[Result<ModelEvent, ModelError>]) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for event in events {
        let (kind, line) = match event {
            Ok(ModelEvent::Text(text)) => ("text", short(text)),
            Ok(ModelEvent::Thought(text)) => ("thought", short(text)),
            Ok(ModelEvent::Call(call)) => {
                let made_up = call.id.starts_with("call_") && call.id.len() > 30;
                let id = if made_up { "?" } else { &call.id };
                (
                    "call",
                    format!("{id} {} {}", call.name, short(call.args.get())),
                )
            }
            Ok(ModelEvent::Retrying {
                attempt,
                wait,
                error,
            }) => ("retry", format!("{attempt} after {wait:?}: {error}")),
            Ok(ModelEvent::Done(completion)) => ("done", ended(completion)),
            Err(error) => (
                "error",
                format!("{:?} {:?}: {error}", error.kind, error.status),
            ),
        };
        match lines.last_mut() {
            Some((last, streamed)) if *last == kind && matches!(kind, "text" | "thought") => {
                streamed.push('|');
                streamed.push_str(&line);
            }
            Some(_) | None => lines.push((kind, line)),
        }
    }
    let lines: Vec<_> = lines
        .iter()
        .map(|(kind, line)| format!("{kind} {line}"))
        .collect();
    lines.join("\n")
}

fn ended(Completion { finish, usage }: &Completion) -> String {
    let Some(usage) = usage else {
        return format!("{finish:?}");
    };
    let Usage {
        input,
        output,
        cached,
        thoughts,
        total,
    } = usage;
    format!("{finish:?} {input}+{output}={total} cached {cached} thoughts {thoughts}")
}

fn short(text: &str) -> String {
    if text.len() < 200 {
        text.to_owned()
    } else {
        format!("<{} bytes>", text.len())
    }
}

/// Asks once and compares all that came; the key is in none of it.
fn check(reply: Reply, expected: Expect) {
    let stub = StubModel::replies(vec![reply]);
    let events = collect(&stub);
    let address = stub.address().to_string();
    let told = told(&events).replace(&address, "ADDRESS");
    assert!(!format!("{events:?}").contains(KEY));
    expected.assert_eq(&told);
}

/// `hello `, as most of these streams begin.
fn hi() -> Reply {
    Reply::stream()
        .event(&delta(json!({"role": "assistant", "content": ""}), None))
        .text("hello ")
}

fn usage() -> Value {
    json!({
        "choices": [],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 7,
            "total_tokens": 17,
            "completion_tokens_details": {"reasoning_tokens": 3},
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    })
}

/// A piece of a call; what is `null` is not said.
fn call(index: Value, id: Value, name: Value, args: Value) -> Value {
    let said = |fields: Vec<(&str, Value)>| -> serde_json::Map<_, _> {
        let said = fields.into_iter().filter(|(_, value)| !value.is_null());
        said.map(|(name, value)| (name.to_owned(), value)).collect()
    };
    let function = said(vec![("name", name), ("arguments", args)]);
    let part = said(vec![
        ("index", index),
        ("id", id),
        ("function", function.into()),
    ]);
    delta(json!({"tool_calls": [part]}), None)
}

fn read_file(args: &str) -> Value {
    call(json!(0), json!("call_a"), json!("read_file"), json!(args))
}

fn more(args: &str) -> Value {
    call(json!(0), Value::Null, Value::Null, json!(args))
}

// Answers with a status that is no success, or that only look like one.

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

// Tool calls.

#[test]
fn full_has_thoughts_text_a_call_and_tokens() {
    check(
        Reply::stream()
            .event(&delta(json!({"role": "assistant", "content": ""}), None))
            .event(&delta(json!({"reasoning_content": "think "}), None))
            .event(&delta(json!({"reasoning_content": "more"}), None))
            .text("ok ")
            .event(&delta(
                json!({"content": "fine", "reasoning_content": "both"}),
                None,
            ))
            .event(&read_file(""))
            .event(&more("{\"pa"))
            .event(&more("th\":\"/x\"}"))
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
            thought think |more
            text ok 
            thought both
            text fine
            call call_a read_file {"path":"/x"}
            done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn badargs_come_as_the_text_they_are() {
    check(
        hi().event(&read_file(""))
            .event(&more("{\"path\": \"a"))
            .event(&more("b\", }"))
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
            text hello 
            call call_a read_file "{\"path\": \"ab\", }"
            done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn emptyargs_are_an_empty_object() {
    check(
        hi().event(&read_file(""))
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
        text hello 
        call call_a read_file {}
        done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn strargs_stay_a_string() {
    check(
        hi().event(&read_file("\"quoted\""))
            .finish("tool_calls")
            .done(),
        expect![[r#"
        text hello 
        call call_a read_file "quoted"
        done ToolCalls"#]],
    );
}

#[test]
fn objargs_are_the_object() {
    let mut chunk = call(
        json!(0),
        json!("call_a"),
        json!("read_file"),
        json!({"path": "/x"}),
    );
    chunk["choices"][0]["finish_reason"] = json!("tool_calls");
    check(
        hi().event(&chunk).done(),
        expect![[r#"
        text hello 
        call call_a read_file {"path":"/x"}
        done ToolCalls"#]],
    );
}

#[test]
fn twotools_are_not_mixed() {
    let second = |id, name, args| call(json!(1), id, name, json!(args));
    check(
        hi().event(&read_file("{\"a\""))
            .event(&second(json!("call_b"), json!("read_file"), "{\"b\""))
            .event(&more(":1}"))
            .event(&second(Value::Null, Value::Null, ":2}"))
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
            text hello 
            call call_a read_file {"a":1}
            call call_b read_file {"b":2}
            done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn noindex_is_a_call() {
    let part = call(
        Value::Null,
        json!("call_a"),
        json!("read_file"),
        json!("{\"a\":1}"),
    );
    check(
        hi().event(&part)
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
        text hello 
        call call_a read_file {"a":1}
        done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn noid_is_given_one() {
    let part = call(
        json!(0),
        Value::Null,
        json!("read_file"),
        json!("{\"a\":1}"),
    );
    check(
        hi().event(&part)
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
        text hello 
        call ? read_file {"a":1}
        done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn idrepeat_is_one_call() {
    check(
        hi().event(&read_file("{\"a\""))
            .event(&read_file(":1}"))
            .finish("tool_calls")
            .done(),
        expect![[r#"
            text hello 
            call call_a read_file {"a":1}
            done ToolCalls"#]],
    );
}

#[test]
fn bigindex_costs_nothing() {
    let part = call(
        json!(2_000_000),
        json!("call_a"),
        json!("read_file"),
        json!("{\"a\":1}"),
    );
    check(
        hi().event(&part)
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
        text hello 
        call call_a read_file {"a":1}
        done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn index1first_is_one_call() {
    let part = call(
        json!(1),
        json!("call_a"),
        json!("read_file"),
        json!("{\"a\":1}"),
    );
    check(
        hi().event(&part).finish("tool_calls").done(),
        expect![[r#"
        text hello 
        call call_a read_file {"a":1}
        done ToolCalls"#]],
    );
}

#[test]
fn bigargs_take_time_in_proportion() {
    let part = frame(&more("abcdefghij".repeat(5).as_str()));
    let started = Instant::now();
    check(
        hi().event(&read_file("{\"path\":\""))
            .bytes(part.repeat(20_000))
            .event(&more("\"}"))
            .finish("tool_calls")
            .event(&usage())
            .done(),
        expect![[r#"
            text hello 
            call call_a read_file <1000011 bytes>
            done ToolCalls 10+7=17 cached 4 thoughts 3"#]],
    );
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn too_many_calls_are_an_error() {
    let part = |n: usize| {
        frame(&call(
            json!(n),
            json!(format!("c{n}")),
            json!("x"),
            json!("{}"),
        ))
    };
    check(
        hi().bytes((0..200).map(part).collect::<String>())
            .finish("tool_calls")
            .done(),
        expect![[r#"
        text hello 
        error Protocol None: the answer holds too many tool calls"#]],
    );
}

// Text.

fn raw_text(content: &str) -> String {
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{content}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

/// case-E02
#[test]
fn surrogate_halves_of_two_chunks_are_joined() {
    check(
        hi().bytes(raw_text("A\\ud83d"))
            .bytes(raw_text("\\ude00B"))
            .text("tail")
            .finish("stop")
            .event(&usage())
            .done(),
        expect![[r#"
            text hello |A|😀B|tail
            done Stop 10+7=17 cached 4 thoughts 3"#]],
    );
}

/// case-E02
#[test]
fn a_lone_surrogate_half_is_replaced_and_the_answer_goes_on() {
    check(
        hi().bytes(raw_text("A\\ud83d"))
            .text("tail")
            .bytes(raw_text("\\ude00"))
            .bytes(raw_text("\\ud83d"))
            .finish("stop")
            .done(),
        expect![[r#"
            text hello |A|�tail|�|�
            done Stop"#]],
    );
}

#[test]
fn a_surrogate_half_before_a_cut_is_told() {
    check(
        hi().bytes(raw_text("A\\ud83d")),
        expect![[r#"
        text hello |A|�
        error Cut None: the answer was cut off: the stream ended before the model was done; try again"#]],
    );
}

#[test]
fn garbage_ends_the_answer_with_an_error() {
    check(
        hi().bytes("data: {not json\n\n")
            .text("tail")
            .finish("stop")
            .done(),
        expect![[r#"
        text hello 
        error Protocol None: the answer holds an event that is no JSON; part of it is lost"#]],
    );
}

#[test]
fn badutf8_costs_the_broken_bytes_alone() {
    let broken: &[u8] = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\xff\xfey\"},\"finish_reason\":null}]}\n\n";
    check(
        hi().bytes(broken).text("tail").finish("stop").done(),
        expect![[r#"
        text hello |x��y|tail
        done Stop"#]],
    );
}

#[test]
fn mbsplit_is_put_together() {
    let event = raw_text("é😀z");
    let n = event.find('😀').unwrap() + 2;
    check(
        hi().bytes(&event.as_bytes()[..n])
            .bytes(&event.as_bytes()[n..])
            .finish("stop")
            .done(),
        expect![[r#"
            text hello |é😀z
            done Stop"#]],
    );
}

#[test]
fn spaces_are_kept_in_text_and_dropped_around_json() {
    let event = raw_text("x").replace("\n\n", " \n\n");
    check(
        Reply::stream()
            .text("  lead")
            .bytes(event)
            .finish("stop")
            .done(),
        expect![[r#"
        text   lead|x
        done Stop"#]],
    );
}

#[test]
fn bigevent_of_32_mib_arrives() {
    let started = Instant::now();
    check(
        Reply::stream()
            .text(&"x".repeat(32 << 20))
            .finish("stop")
            .done(),
        expect![[r#"
        text <33554432 bytes>
        done Stop"#]],
    );
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn ev_of_middle_sizes_arrive() {
    for n_kib in [1, 64, 1024] {
        let text = "x".repeat(n_kib << 10);
        let stub = StubModel::replies(vec![Reply::says(&text)]);
        let events = collect(&stub);
        assert!(
            matches!(&events[0], Ok(ModelEvent::Text(came)) if *came == text),
            "{n_kib} KiB"
        );
        assert!(
            matches!(&events[1..], [Ok(ModelEvent::Done(_))]),
            "{n_kib} KiB"
        );
    }
}

#[test]
fn endless_is_ended_at_the_limit() {
    let mut reply =
        Reply::stream().bytes("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
    let piece = vec![b'y'; 1 << 20];
    for _ in 0..64 {
        reply = reply.bytes(&piece);
    }
    check(
        reply.bytes("\"}}]}\n\n").done(),
        expect![
            "error Protocol None: the answer cannot be read: a server-sent event is larger than 50331648 bytes"
        ],
    );
}

#[test]
fn an_answer_of_many_events_is_ended_at_the_limit() {
    let event = frame(&delta(json!({"content": "x".repeat(1 << 20)}), None));
    let stub = StubModel::replies(vec![
        Reply::stream()
            .bytes(event.repeat(70))
            .finish("stop")
            .done(),
    ]);
    let events = collect(&stub);
    assert_eq!(
        events.len(),
        66,
        "64 MiB, and the piece that is over it before the error"
    );
    assert!(matches!(&events[65], Err(error) if error.kind == ModelErrorKind::Protocol));
}

// Ends.

#[test]
fn cut_chunked_is_told() {
    let cut = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ha";
    check(
        hi().framed(Framing::Chunked).bytes(cut).ends(End::Cut),
        expect![[r#"
        text hello 
        error Cut None: the answer was cut off: the connection broke; try again"#]],
    );
}

#[test]
fn cut_close_is_told() {
    check(
        hi().bytes("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ha"),
        expect![[r#"
        text hello 
        error Cut None: the answer was cut off: the stream ended before the model was done; try again"#]],
    );
}

#[test]
fn cut_chunked_mid_is_told() {
    check(
        hi().framed(Framing::Chunked)
            .unframed("400\r\ndata: {\"choi")
            .ends(End::Cut),
        expect![[r#"
            text hello 
            error Cut None: the answer was cut off: the connection broke; try again"#]],
    );
}

#[test]
fn cut_clean_is_told() {
    check(
        hi(),
        expect![[r#"
        text hello 
        error Cut None: the answer was cut off: the stream ended before the model was done; try again"#]],
    );
}

#[test]
fn a_cut_before_anything_is_tried_again() {
    let stub = StubModel::replies(vec![Reply::stream(), Reply::hello(1)]);
    expect![[r#"
        retry 1 after 0ns: the answer was cut off: the stream ended before the model was done; try again
        text hello world 
        done Stop 10+1=11 cached 0 thoughts 0"#]].assert_eq(&told(&collect(&stub)));
}

#[test]
fn nodone_is_an_end_where_the_model_was_done() {
    check(
        hi().finish("stop").event(&usage()),
        expect![[r#"
        text hello 
        done Stop 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn a_last_event_without_its_blank_line_counts() {
    check(
        hi().bytes(frame(&delta(json!({}), Some("stop"))).trim_end()),
        expect![[r#"
        text hello 
        done Stop"#]],
    );
    check(
        hi().bytes("data: [DONE]"),
        expect![[r#"
        text hello 
        done Stop"#]],
    );
}

#[test]
fn rst_is_told() {
    let gate = Gate::new();
    let stub = StubModel::replies(vec![hi().gate(&gate).ends(End::Reset)]);
    let events = block_on(async {
        let mut stream = ask(&provider(stub.base_url()));
        let mut events = vec![stream.next().await.unwrap()];
        gate.open();
        while let Some(event) = stream.next().await {
            events.push(event);
        }
        events
    });
    expect![[r#"
        text hello 
        error Cut None: the answer was cut off: the connection broke; try again"#]]
    .assert_eq(&told(&events));
}

#[test]
fn a_reset_after_the_model_was_done_spoils_nothing() {
    let gate = Gate::new();
    let stub = StubModel::replies(vec![hi().finish("stop").gate(&gate).ends(End::Reset)]);
    let events = block_on(async {
        let mut stream = ask(&provider(stub.base_url()));
        let mut events = vec![stream.next().await.unwrap()];
        gate.open();
        while let Some(event) = stream.next().await {
            events.push(event);
        }
        events
    });
    expect![[r#"
        text hello 
        done Stop"#]]
    .assert_eq(&told(&events));
}

#[test]
fn instream_error_is_told_after_what_came() {
    check(
        hi().bytes("data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\",\"code\":503}}\n\n")
            .text("tail")
            .done(),
        expect![[r#"
            text hello 
            error Provider None: the provider failed (overloaded); try again later"#]],
    );
}

#[test]
fn instream_ev_error_is_told() {
    check(
        hi().bytes("event: error\ndata: {\"message\":\"overloaded\"}\n\n")
            .done(),
        expect![[r#"
        text hello 
        error Provider None: the provider failed (overloaded); try again later"#]],
    );
}

#[test]
fn an_error_before_anything_is_tried_again() {
    let overloaded = "data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n";
    let stub = StubModel::replies(vec![
        Reply::stream().bytes(overloaded).done(),
        Reply::hello(1),
    ]);
    expect![[r#"
        retry 1 after 0ns: the provider failed (overloaded); try again later
        text hello world 
        done Stop 10+1=11 cached 0 thoughts 0"#]]
    .assert_eq(&told(&collect(&stub)));
}

#[test]
fn unkfinish_is_an_end() {
    check(
        hi().finish("weird_reason").event(&usage()).done(),
        expect![[r#"
        text hello 
        done Stop 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn known_ends_are_told_apart() {
    check(
        hi().finish("length").done(),
        expect![[r#"
        text hello 
        done Length"#]],
    );
    check(
        hi().finish("content_filter").done(),
        expect![[r#"
        text hello 
        done Filtered"#]],
    );
}

#[test]
fn afterdone_is_not_heard() {
    check(
        hi().finish("stop").done().event(&usage()).text("late"),
        expect![[r#"
        text hello 
        done Stop"#]],
    );
}

#[test]
fn done_alone_ends_an_answer_that_has_words() {
    check(
        hi().done(),
        expect![[r#"
        text hello 
        done Stop"#]],
    );
    check(
        Reply::stream().done(),
        expect!["error Protocol None: the provider ended the answer without a word of it"],
    );
}

// Shapes of events and chunks.

#[test]
fn crlf_comments_ids_and_missing_blanks_are_understood() {
    let event = |text| frame(&delta(json!({"content": text}), None)).replace('\n', "\r\n");
    let end = frame(&delta(json!({}), Some("stop"))).replace('\n', "\r\n");
    let stream = format!(
        ": ping\r\n\r\n{}id: 4\r\nevent: message\r\nretry: 10\r\n{}{end}data:[DONE]\r\n\r\n",
        event("a"),
        event("b"),
    );
    check(
        Reply::stream().bytes(stream),
        expect![[r#"
        text a|b
        done Stop"#]],
    );
}

#[test]
fn multidata_is_one_event() {
    let event = "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"multi\"},\"finish_reason\":null}]}\n\n";
    check(
        Reply::stream().bytes(event).finish("stop").done(),
        expect![[r#"
        text multi
        done Stop"#]],
    );
}

#[test]
fn azure_sends_chunks_without_choices_and_null_content() {
    check(
        Reply::stream()
            .event(&json!({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}))
            .text("hello ")
            .event(&delta(json!({"content": null}), Some("stop")))
            .done(),
        expect![[r#"
            text hello 
            done Stop"#]],
    );
}

#[test]
fn usagenull_is_no_usage() {
    let chunk = |content: Value, finish, usage: Value| {
        let mut chunk = delta(content, finish);
        chunk["usage"] = usage;
        chunk
    };
    check(
        Reply::stream()
            .event(&chunk(json!({"content": "a"}), None, Value::Null))
            .event(&chunk(json!({"content": "b"}), None, Value::Null))
            .event(&chunk(
                json!({}),
                Some("stop"),
                json!({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}),
            ))
            .done(),
        expect![[r#"
            text a|b
            done Stop 1+2=3 cached 0 thoughts 0"#]],
    );
}

#[test]
fn usageinline_gives_way_to_the_last() {
    let mut first = delta(json!({"content": "a"}), None);
    first["usage"] = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    let last = delta(json!({"content": "b"}), Some("stop"));
    check(
        Reply::stream()
            .event(&first)
            .event(&last)
            .event(&usage())
            .done(),
        expect![[r#"
        text a|b
        done Stop 10+7=17 cached 4 thoughts 3"#]],
    );
}

#[test]
fn minimal_chunks_are_enough() {
    check(
        Reply::stream()
            .event(&json!({"choices": [{"delta": {"content": "mini"}}]}))
            .event(&json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}))
            .done(),
        expect![[r#"
            text mini
            done Stop"#]],
    );
}

#[test]
fn content_in_parts_and_refusals_are_text() {
    check(
        Reply::stream()
            .event(&delta(
                json!({"content": [{"type": "text", "text": "a"}, {"text": "b"}]}),
                None,
            ))
            .event(&delta(json!({"refusal": "no"}), Some("stop")))
            .done(),
        expect![[r#"
            text ab|no
            done Stop"#]],
    );
    check(
        Reply::stream()
            .event(&delta(json!({"content": 5}), None))
            .done(),
        expect!["error Protocol None: the answer holds content of an unknown shape"],
    );
}

#[test]
fn reasoning_spelled_twice_is_told_once() {
    check(
        Reply::stream()
            .event(&delta(
                json!({"reasoning": "r", "reasoning_content": "r"}),
                None,
            ))
            .event(&delta(
                json!({"reasoning": "s", "content": "t"}),
                Some("stop"),
            ))
            .done(),
        expect![[r#"
            thought r|s
            text t
            done Stop"#]],
    );
}

#[test]
fn keep_alives_are_nothing() {
    let noise = "event: ping\ndata: {}\n\nevent: heartbeat\ndata: x\n\ndata:\n\ndata: {\"type\":\"ping\"}\n\n";
    check(
        hi().bytes(noise).finish("stop").done(),
        expect![[r#"
        text hello 
        done Stop"#]],
    );
}

// The call around the answer.

#[test]
fn tries_end_and_the_waits_are_those_asked_for() {
    let limited = || Reply::json(429, r#"{"error":{"message":"slow"}}"#);
    let stub = StubModel::replies(vec![
        limited().header("retry-after", "0"),
        Reply::json(503, "{}"),
        Reply::hello(1),
    ]);
    expect![[r#"
        retry 1 after 0ns: the provider limits requests (HTTP 429: slow); wait, or use another model
        retry 2 after 0ns: the provider failed (HTTP 503: {}); try again later
        text hello world 
        done Stop 10+1=11 cached 0 thoughts 0"#]]
    .assert_eq(&told(&collect(&stub)));
    assert_eq!(stub.requests().len(), 3);

    let stub = StubModel::replies(vec![limited().header("retry-after", "0")]);
    let events = collect(&stub);
    assert_eq!((events.len(), stub.requests().len()), (5, 5));
}

#[test]
fn retry_after_is_honoured_up_to_the_limit() {
    for (asked, expected) in [("30", 30), ("86400", 60)] {
        let stub = StubModel::replies(vec![Reply::json(429, "{}").header("retry-after", asked)]);
        let provider = provider(stub.base_url()).with_retries(Retries::default());
        // Told before the wait, and so at once.
        let first = async {
            let mut stream = ask(&provider);
            tokio::time::timeout(Duration::from_secs(20), stream.next()).await
        };
        let first = block_on(first)
            .expect("the wait is not waited for")
            .unwrap()
            .unwrap();
        let ModelEvent::Retrying {
            attempt: 1, wait, ..
        } = first
        else {
            panic!("{first:?}")
        };
        assert_eq!(wait, Duration::from_secs(expected));
    }
}

#[test]
fn nothing_is_tried_again_once_something_was_said() {
    let stub = StubModel::replies(vec![hi()]);
    assert!(matches!(collect(&stub).last(), Some(Err(error)) if error.kind == ModelErrorKind::Cut));
    assert_eq!(stub.requests().len(), 1);
}

#[test]
fn an_endpoint_that_does_not_listen_is_named_without_its_credentials() {
    let address = StubModel::hello(1).address();
    let provider = provider(format!("http://user:pass-word@{address}/v1?key=query-key"));
    let events: Vec<_> = block_on(ask(&provider).collect());
    let text = format!("{events:?}");
    assert!(!text.contains("pass-word") && !text.contains("query-key") && !text.contains(KEY));
    let told = told(&events[4..]).replace(&address.to_string(), "ADDRESS");
    expect!["error Unreachable None: the provider at http://ADDRESS/v1 cannot be reached: connection refused; check OPENAI_BASE_URL, and that the server runs"].assert_eq(&told);
    assert_eq!(events.len(), 5);
}

#[test]
fn plain_http_behind_an_https_address_is_told_at_once() {
    let stub = StubModel::hello(1);
    let provider = provider(stub.base_url().replace("http://", "https://"));
    let events: Vec<_> = block_on(ask(&provider).collect());
    assert_eq!(events.len(), 1, "no other try would help: {events:?}");
    let error = events[0].as_ref().unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unreachable);
    assert!(error.to_string().contains("https"), "{error}");
}

#[test]
fn the_request_carries_key_model_and_stream() {
    let stub = StubModel::hello(1);
    let events = collect(&stub);
    assert!(events.iter().all(Result::is_ok));
    let request = &stub.requests()[0];
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(
        request.header("authorization"),
        Some(&*format!("Bearer {KEY}"))
    );
    assert_eq!(request.body["model"], "fake-model");
    assert_eq!(request.body["stream"], true);
    assert_eq!(request.body["stream_options"]["include_usage"], true);
    assert_eq!(
        request.body["messages"],
        json!([{"role": "user", "content": "hi"}])
    );
}

#[test]
fn dropping_the_stream_ends_the_call() {
    let gate = Gate::new();
    let stub = StubModel::replies(vec![hi().gate(&gate).text("late")]);
    block_on(async {
        let mut stream = ask(&provider(stub.base_url()));
        assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Text(_)))));
    });
    assert_eq!(stub.requests().len(), 1);
}

#[test]
fn a_connection_is_used_again() {
    let stub = StubModel::hello(3);
    let provider = provider(stub.base_url());
    block_on(async {
        for _ in 0..3 {
            let events: Vec<_> = ask(&provider).collect().await;
            assert_eq!(events.len(), 4);
        }
    });
    assert_eq!(stub.n_connections(), 1);
}

/// Any way in which the network cuts an answer gives the same events.
#[test]
fn any_division_of_a_stream_gives_the_same_answer() {
    let mut stream = String::new();
    for event in [
        delta(json!({"reasoning_content": "é"}), None),
        delta(json!({"content": "a😀"}), None),
        read_file("{\"a\":"),
        more("\"b\"}"),
        delta(json!({}), Some("tool_calls")),
        usage(),
    ] {
        stream.push_str(&frame(&event));
    }
    stream.insert_str(0, &raw_text("\\ud83d"));
    stream.insert_str(0, ": c\r\n");
    stream.push_str("data: [DONE]\n\n");
    let whole = told(&collect(&StubModel::replies(vec![
        Reply::stream().bytes(&stream),
    ])));
    for size in [1, 2, 3, 7, 64, 333] {
        let mut reply = Reply::stream().framed(Framing::Chunked);
        for piece in stream.as_bytes().chunks(size) {
            reply = reply.bytes(piece);
        }
        assert_eq!(
            told(&collect(&StubModel::replies(vec![reply]))),
            whole,
            "pieces of {size}"
        );
    }
}
