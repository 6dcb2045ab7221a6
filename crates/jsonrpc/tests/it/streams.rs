//! Any bytes in any division give the messages that a naive reader finds in them.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use jsonrpc::{Bounds, Connection, Message, Options};
use proptest::prelude::*;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

const LINE_BYTES_MAX: usize = 120;

/// Gives out bytes in pieces, and makes its reader wait before each.
struct Pieces {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
    n_given: usize,
    has_waited: bool,
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.has_waited = !self.has_waited;
        if self.has_waited {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let size = self.sizes.pop().unwrap_or(usize::MAX);
        let rest = &self.bytes[self.n_given..];
        let size = size.min(rest.len()).min(buf.remaining());
        buf.put_slice(&rest[..size]);
        self.n_given += size;
        Poll::Ready(Ok(()))
    }
}

/// What came of a stream: messages as they were taken, and answers as they were written, those of the
/// reader and those of whoever took apart.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    messages: Vec<String>,
    refusals: Vec<String>,
    results: Vec<String>,
    n_bad: u64,
}

/// Reads the stream through a connection whose taker answers each request with its params.
fn through_connection(bytes: Vec<u8>, sizes: Vec<usize>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let source = Pieces {
            bytes,
            sizes,
            n_given: 0,
            has_waited: false,
        };
        let options = Options {
            bounds: Bounds {
                line_bytes_max: LINE_BYTES_MAX,
                incoming_messages_max: 2,
                ..Bounds::default()
            },
            ..Options::default()
        };
        let (sink, mut far) = tokio::io::duplex(1 << 20);
        let (peer, mut incoming, mut connection) = Connection::start(source, sink, options);
        let mut outcome = Outcome::default();
        while let Some(message) = incoming.next().await {
            match message {
                Message::Request(request) => {
                    outcome
                        .messages
                        .push(format!("{} {}", request.responder.id(), request.method));
                    let params = request.params;
                    request.responder.respond(Ok(params)).await.unwrap();
                }
                Message::Notification(notification) => outcome.messages.push(notification.method),
            }
        }
        connection.ended().await;
        outcome.n_bad = peer.bad_lines().borrow().n_total;
        let mut written = String::new();
        far.read_to_string(&mut written).await.unwrap();
        for line in written.lines() {
            let frame: Value = serde_json::from_str(line).unwrap();
            assert_eq!(frame["jsonrpc"], "2.0");
            match frame.get("error") {
                Some(error) => outcome
                    .refusals
                    .push(format!("{} {}", frame["id"], error["code"])),
                None => outcome
                    .results
                    .push(format!("{} {}", frame["id"], frame["result"])),
            }
        }
        outcome
    })
}

/// The same without any cleverness: all bytes at once, every line a value.
fn naively(bytes: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    for line in lines {
        naive_line(line, &mut outcome);
    }
    outcome
}

fn naive_line(line: &[u8], outcome: &mut Outcome) {
    let mut refuse = |id: &Value, code: i64| {
        outcome.n_bad += 1;
        outcome.refusals.push(format!("{id} {code}"));
    };
    if line.len() >= LINE_BYTES_MAX {
        // Only `long` makes them, with an id that the text after `id` shows.
        let text = String::from_utf8_lossy(&line[..LINE_BYTES_MAX]).into_owned();
        let id = text
            .split_once(r#""id":"#)
            .and_then(|(_, rest)| rest.split_once(','));
        let id = id.map_or(Value::Null, |(id, _)| id.parse().unwrap());
        return refuse(&id, -32_600);
    }
    if line.trim_ascii().is_empty() {
        return;
    }
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return refuse(&Value::Null, -32_700);
    };
    let Some(frame) = value.as_object() else {
        return refuse(&Value::Null, -32_600);
    };
    let id = frame.get("id");
    let Some(method) = frame.get("method") else {
        if frame.contains_key("result") || frame.contains_key("error") {
            outcome.n_bad += 1;
            return;
        }
        return refuse(id.unwrap_or(&Value::Null), -32_600);
    };
    if frame.get("jsonrpc") != Some(&"2.0".into()) || !method.is_string() {
        return refuse(id.unwrap_or(&Value::Null), -32_600);
    }
    let method = method.as_str().unwrap();
    match id {
        None => outcome.messages.push(method.to_owned()),
        Some(id) => {
            outcome.messages.push(format!("{id} {method}"));
            let params = frame.get("params").unwrap_or(&Value::Null);
            outcome.results.push(format!("{id} {params}"));
        }
    }
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof!["[0-9]", Just("null".into()), r#""[a-z]{0,3}""#]
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        3 => (id(), "[a-z/]{1,5}", "\\[[0-9]?\\]").prop_map(|(id, method, params)| format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        )),
        3 => "[a-z/]{1,5}".prop_map(|method| format!(r#"{{"method":"{method}","jsonrpc":"2.0"}}"#)),
        1 => (id(), 0..LINE_BYTES_MAX).prop_map(|(id, n)| format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{}","params":["{}"]}}"#,
            "m".repeat(LINE_BYTES_MAX),
            "x".repeat(n),
        )),
        1 => id().prop_map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1}}"#)),
        1 => id().prop_map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#)),
        1 => id().prop_map(|id| format!(r#"{{"id":{id},"method":1}}"#)),
        1 => r#"[{}\[\]":,0-9a-z ]{0,20}"#,
        1 => Just("[1, 2]".into()),
        1 => "[ \t\r]{0,3}",
    ];
    let text = text.prop_map(String::into_bytes);
    prop_oneof![
        9 => text,
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let end = prop_oneof![9 => Just(&b"\n"[..]), 1 => Just(&b"\r\n"[..])];
    let lines = prop::collection::vec((line(), end), 0..20);
    (lines, any::<bool>()).prop_map(|(lines, is_ended)| {
        let lines = lines.into_iter();
        let mut bytes: Vec<u8> = lines
            .flat_map(|(line, end)| [&line, end].concat())
            .collect();
        if !is_ended {
            bytes.pop();
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_stream_in_any_division_is_read_as_a_naive_reader_does(
        bytes in stream(),
        sizes in prop::collection::vec(1..30usize, 0..200),
    ) {
        prop_assert_eq!(through_connection(bytes.clone(), sizes), naively(&bytes));
    }
}

/// Pieces of lines, and anything else.
fn any_lines() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n".to_vec()),
        Just(b"{\"jsonrpc\":\"2.0\",\"id\":".to_vec()),
        Just(b"\"method\":\"m\"}\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(vec![b'['; 300]),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// The body of the fuzz target, for every run of the tests.
    #[test]
    fn any_bytes_are_survived_and_answered_in_whole_frames(bytes in any_lines()) {
        crate::any_bytes::survives(&bytes);
    }
}
