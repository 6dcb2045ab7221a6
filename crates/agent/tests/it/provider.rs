//! The OpenAI-compatible provider against streams as awkward as servers really send them.
//!
//! Every answer is told with all that a turn gets to know of it: what was streamed, the calls, the
//! end with its tokens, or the error. Nothing may be lost, doubled or hidden.

mod around;
mod calls;
mod ends;
mod shapes;
mod status;
mod text;

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
        messages: vec![Message::User("hi".into())],
        tools: [].into(),
        effort: None,
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

/// An event whose text is this, escapes and all.
fn raw_text(content: &str) -> String {
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{content}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}
