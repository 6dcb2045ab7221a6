//! The call around the answer: tries, waits, connections, secrets.

use super::*;

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
