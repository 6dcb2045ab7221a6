//! Lines that a program sends to a long-lived session, and what is wrong with a bad one.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{halves, limits::INPUT_LINE_BYTES_MAX};

use super::control::HostRequest;

/// One line, understood.
#[derive(Debug, Clone)]
pub enum Input {
    /// A prompt.
    User(String),
    /// A request of the host.
    Request {
        /// Its id, for the answer.
        request_id: String,
        /// The word of its kind, also where we do not know it.
        subtype: String,
        /// What is asked.
        request: HostRequest,
    },
    /// The host's answer to a request of ours.
    Response {
        /// The id of our request.
        request_id: String,
        /// The answer, or the host's words for why there is none.
        answer: Result<Box<RawValue>, String>,
    },
    /// The host does not wait for an answer any more: for one of its requests, or for all.
    Cancel {
        /// The request; `None` is all.
        request_id: Option<String>,
    },
    /// A line that says nothing to us: blank, an empty prompt, a type of message that we do not know.
    Nothing,
}

/// A line that is not understood. The session goes on; its sender is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidInput {
    /// What is wrong.
    pub reason: InvalidReason,
    /// The same for a person, with the mend.
    pub message: String,
    /// The request that the line was meant to be, where that much could be read.
    pub request_id: Option<String>,
}

impl InvalidInput {
    /// A line whose bytes were not kept.
    #[must_use]
    pub fn too_long() -> Self {
        invalid(
            InvalidReason::TooLong,
            format!(
                "the line is longer than {} MiB and was not read",
                INPUT_LINE_BYTES_MAX >> 20
            ),
        )
    }
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InvalidReason {
    /// It is no JSON.
    NotJson,
    /// It is JSON, but no object.
    NotAnObject,
    /// It has no string `type`.
    NoType,
    /// A field is missing, or is not what it must be.
    BadField,
    /// It is longer than `INPUT_LINE_BYTES_MAX`.
    TooLong,
    /// Too many prompts wait already.
    TooManyPrompts,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Subtype {
    subtype: String,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
struct Block {
    r#type: String,
    text: String,
}

#[derive(Deserialize)]
struct HostResponse {
    subtype: String,
    request_id: String,
    response: Option<Box<RawValue>>,
    error: Option<serde_json::Value>,
}

/// Understands one line, without its line feed.
///
/// # Errors
/// The line is none of the protocol.
pub fn parse(line: &[u8]) -> Result<Input, InvalidInput> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(Input::Nothing);
    }
    let line = halves::replaced(line);
    let raw: &RawValue = serde_json::from_slice(&line).map_err(|error| {
        invalid(
            InvalidReason::NotJson,
            format!("the line is no JSON ({error})"),
        )
    })?;
    if !raw.get().starts_with('{') {
        return Err(invalid(
            InvalidReason::NotAnObject,
            "the line is no JSON object",
        ));
    }
    let envelope: Envelope<'_> = read(raw, "a field is given twice")?;
    let kind = envelope.r#type.and_then(string).ok_or_else(|| {
        invalid(
            InvalidReason::NoType,
            "the object has no `type`: send `user`, `control_request`, `control_response` or `control_cancel_request`",
        )
    })?;
    match kind.as_str() {
        "user" => user(&envelope),
        "control_request" => request(&envelope),
        "control_response" => response(&envelope),
        "control_cancel_request" => Ok(Input::Cancel {
            request_id: envelope.request_id.and_then(string),
        }),
        _ => Ok(Input::Nothing),
    }
}

fn user(envelope: &Envelope<'_>) -> Result<Input, InvalidInput> {
    const SHAPE: &str =
        "a `user` line needs `message.content`, a string or an array of content blocks";
    let message = envelope
        .message
        .ok_or_else(|| invalid(InvalidReason::BadField, SHAPE))?;
    let content = fields::<Message<'_>>(message, SHAPE)?.content;
    let text = if content.get().starts_with('"') {
        read(content, SHAPE)?
    } else {
        let blocks: Vec<&RawValue> = read(content, SHAPE)?;
        let texts: Vec<String> = blocks.into_iter().map(text_of).collect();
        texts.join("\n")
    };
    if text.trim().is_empty() {
        return Ok(Input::Nothing);
    }
    Ok(Input::User(text))
}

/// The text of a block; of another block its JSON, so that nothing is lost.
fn text_of(raw: &RawValue) -> String {
    if let Some(text) = string(raw) {
        return text;
    }
    match fields::<Block>(raw, "") {
        Ok(block) if block.r#type == "text" => block.text,
        Ok(_) | Err(_) => raw.get().to_owned(),
    }
}

fn request(envelope: &Envelope<'_>) -> Result<Input, InvalidInput> {
    let Some(request_id) = envelope.request_id.and_then(string) else {
        return Err(invalid(
            InvalidReason::BadField,
            "a `control_request` needs a string `request_id`",
        ));
    };
    let for_request = |mut error: InvalidInput| {
        error.request_id = Some(request_id.clone());
        error
    };
    const SHAPE: &str = "a `control_request` needs a `request` with a string `subtype`";
    let raw = envelope
        .request
        .ok_or_else(|| for_request(invalid(InvalidReason::BadField, SHAPE)))?;
    let Subtype { subtype } = fields(raw, SHAPE).map_err(for_request)?;
    let request = serde_json::from_str(raw.get()).map_err(|error| {
        for_request(invalid(
            InvalidReason::BadField,
            format!("`{subtype}` has a field that is missing or wrong: {error}"),
        ))
    })?;
    Ok(Input::Request {
        request_id,
        subtype,
        request,
    })
}

fn response(envelope: &Envelope<'_>) -> Result<Input, InvalidInput> {
    const SHAPE: &str = "a `control_response` needs a `response` with `subtype` (`success` or `error`) and a string `request_id`";
    let raw = envelope
        .response
        .ok_or_else(|| invalid(InvalidReason::BadField, SHAPE))?;
    let HostResponse {
        subtype,
        request_id,
        response,
        error,
    } = fields(raw, SHAPE)?;
    let answer = match (subtype.as_str(), error) {
        ("success", _) => Ok(response.unwrap_or_else(|| RawValue::NULL.to_owned())),
        ("error", Some(serde_json::Value::String(words))) => Err(words),
        ("error", Some(other)) => Err(other.to_string()),
        ("error", None) => Err("the host gave no reason".to_owned()),
        _ => return Err(invalid(InvalidReason::BadField, SHAPE)),
    };
    Ok(Input::Response { request_id, answer })
}

/// As [`read`], of an object alone: serde would take an array for the fields in their order.
fn fields<'a, T: Deserialize<'a>>(raw: &'a RawValue, shape: &str) -> Result<T, InvalidInput> {
    if !raw.get().starts_with('{') {
        return Err(invalid(InvalidReason::BadField, shape));
    }
    read(raw, shape)
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue, shape: &str) -> Result<T, InvalidInput> {
    serde_json::from_str(raw.get()).map_err(|_| invalid(InvalidReason::BadField, shape))
}

fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn invalid(reason: InvalidReason, message: impl Into<String>) -> InvalidInput {
    InvalidInput {
        reason,
        message: message.into(),
        request_id: None,
    }
}
