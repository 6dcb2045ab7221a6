//! Transcripts made to measure: small ones, damaged ones with what must survive, and big ones.
//!
//! They are bytes of the format as it is described, written without the product's own types, so that
//! a mistake in those does not hide itself.

use std::io::{self, Write};

use serde_json::{Value, json};

mod damaged;

pub use damaged::{Damaged, damaged};

/// The session of everything made here.
pub const SESSION_ID: &str = "5e551014-0000-4000-8000-000000000001";

/// Its working directory.
pub const CWD: &str = "/home/user/project";

/// The id of the `n`th record.
#[must_use]
pub fn id(n: u64) -> String {
    format!("{n:08x}-0000-4000-8000-{n:012x}")
}

/// A record as an object, to be changed before it becomes a line.
#[must_use]
pub fn record(n: u64, parent: Option<u64>, kind: &str) -> Value {
    let second = n % 60;
    let minute = n / 60 % 60;
    json!({
        "uuid": id(n),
        "parentUuid": parent.map(id),
        "sessionId": SESSION_ID,
        "timestamp": format!("2026-11-30T10:{minute:02}:{second:02}.000Z"),
        "type": kind,
        "provenance": match kind {
            "user" => "real_user",
            "assistant" => "assistant_output",
            "tool_result" => "tool_result",
            _ => "system",
        },
        "cwd": CWD,
        "version": "0.24.4",
    })
}

/// What a person said.
#[must_use]
pub fn user(n: u64, parent: Option<u64>, text: &str) -> Value {
    with(
        record(n, parent, "user"),
        "message",
        json!({"role": "user", "parts": [{"text": text}]}),
    )
}

/// What the model said.
#[must_use]
pub fn assistant(n: u64, parent: Option<u64>, text: &str) -> Value {
    let record = with(record(n, parent, "assistant"), "model", json!("stub"));
    with(
        record,
        "message",
        json!({"role": "model", "parts": [{"text": text}]}),
    )
}

/// A system record.
#[must_use]
pub fn system(n: u64, parent: Option<u64>, subtype: &str, payload: Value) -> Value {
    let record = with(record(n, parent, "system"), "subtype", json!(subtype));
    with(record, "systemPayload", payload)
}

/// A name for the session.
#[must_use]
pub fn title(n: u64, parent: Option<u64>, title: &str) -> Value {
    system(
        n,
        parent,
        "custom_title",
        json!({"customTitle": title, "titleSource": "manual"}),
    )
}

/// The record with one field more, or another value of it.
#[must_use]
pub fn with(mut record: Value, field: &str, value: Value) -> Value {
    record[field] = value;
    record
}

/// A conversation of records 1 to `n`: prompts and answers in turn.
#[must_use]
pub fn conversation(n: u64) -> Vec<Value> {
    (1..=n)
        .map(|n| {
            let parent = (n > 1).then(|| n - 1);
            if n % 2 == 1 {
                user(n, parent, &format!("question {n}"))
            } else {
                assistant(n, parent, &format!("answer {n}"))
            }
        })
        .collect()
}

/// Records as a file's bytes.
#[must_use]
pub fn file(records: &[Value]) -> Vec<u8> {
    records.iter().flat_map(line).collect()
}

/// One record's line.
#[must_use]
pub fn line(record: &Value) -> Vec<u8> {
    let mut line = record.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Writes a conversation of at least `n_bytes`, in records of about `record_bytes` each. Every eighth
/// turn is given up for another one where `with_branches` is set. Returns the number of records.
///
/// # Errors
/// Where `out` refuses.
pub fn big(
    out: &mut impl Write,
    n_bytes: u64,
    record_bytes: usize,
    with_branches: bool,
) -> io::Result<u64> {
    const WORDS: &str =
        "the recorder wrote what it was told and \"nothing\" else:\\n\\tlet x = 1; ";
    let text: String = WORDS
        .chars()
        .cycle()
        .take(record_bytes.saturating_sub(330))
        .collect();
    // Cut text may end in half an escape.
    let text = text.trim_end_matches('\\');
    let mut written = 0;
    let mut n = 0;
    let mut parent: Option<u64> = None;
    while written < n_bytes {
        n += 1;
        let record = if n % 2 == 1 {
            user(n, parent, text)
        } else {
            assistant(n, parent, text)
        };
        let line = line(&record);
        out.write_all(&line)?;
        written += line.len() as u64;
        // The next record begins beside this one instead of behind it.
        let is_given_up = with_branches && n % 16 == 15;
        if !is_given_up {
            parent = Some(n);
        }
    }
    Ok(n)
}

/// The `n`th of many small sessions: its file name and its bytes.
#[must_use]
pub fn small_session(n: u64) -> (String, Vec<u8>) {
    let session_id = format!("{n:08x}-5e55-4000-8000-{n:012x}");
    let records = conversation(6)
        .into_iter()
        .map(|record| with(record, "sessionId", json!(session_id)));
    let mut records: Vec<_> = records.collect();
    if n.is_multiple_of(4) {
        let title = title(7, Some(6), &format!("session {n}"));
        records.push(with(title, "sessionId", json!(session_id)));
    }
    (format!("{session_id}.jsonl"), file(&records))
}
