//! Disk types to runtime types: what the model is told of a session that is taken up again.

use std::collections::BTreeSet;

use serde::Deserialize;
use transcript::{
    reader::{Loaded, Stored, Type},
    record::{Content, Part},
};

use crate::{
    image,
    message::{Block, Message, ToolCall, ToolResult},
};

/// Said to the model where records are missing: it must not take what is before for the whole.
const GAP: &str = "[Part of the record of this conversation is missing here. What stands before may \
                   be incomplete or belong to a branch that was given up.]";

/// Said of a call whose result was never recorded.
const NO_RESULT: &str = "The call was interrupted; it is not known whether it took effect.";

/// The model's history from the active chain.
#[must_use]
pub(crate) fn history(loaded: &Loaded) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut images = image::stored(loaded);
    for stored in &loaded.records {
        if stored.gap_before {
            messages.push(Message::User(GAP.into()));
        }
        read(stored, &mut messages);
        if let (Some(of_record), Some(Message::User(prompt))) =
            (images.remove(stored.uuid.as_str()), messages.last_mut())
        {
            prompt.images.extend(of_record.images);
            if of_record.n_absent > 0 {
                prompt.push_text(&image::absent(of_record.n_absent));
            }
        }
    }
    answer_open_calls(messages)
}

fn read(stored: &Stored, messages: &mut Vec<Message>) {
    match stored.kind {
        Type::System => {
            if stored.subtype.as_deref() == Some("chat_compression")
                && let Some(compressed) = compressed_history(stored)
            {
                *messages = compressed;
            }
        }
        Type::User | Type::Assistant | Type::ToolResult => {
            if stored.subtype.as_deref() == Some("realtime_message") {
                return;
            }
            if let Some(content) = stored.content() {
                push(content, messages);
            }
        }
        Type::Unknown => {}
    }
}

/// The part of a `chat_compression` record that replaces all before it.
fn compressed_history(stored: &Stored) -> Option<Vec<Message>> {
    #[derive(Deserialize)]
    struct Record {
        #[serde(rename = "systemPayload")]
        payload: Payload,
    }
    #[derive(Deserialize)]
    struct Payload {
        #[serde(rename = "compressedHistory")]
        history: Vec<Content>,
    }
    let record: Record = serde_json::from_slice(stored.raw()).ok()?;
    let mut messages = Vec::new();
    for content in record.payload.history {
        push(content, &mut messages);
    }
    Some(messages)
}

fn push(content: Content, messages: &mut Vec<Message>) {
    if content.role == "model" {
        let blocks: Vec<_> = content.parts.into_iter().filter_map(block).collect();
        if !blocks.is_empty() {
            messages.push(Message::Assistant(blocks));
        }
        return;
    }
    let mut text = String::new();
    for part in content.parts {
        if let Some(response) = part.function_response {
            let (said, is_error) = match (response.response.output, response.response.error) {
                (_, Some(error)) => (error, true),
                (Some(output), None) => (output, false),
                (None, None) => (String::new(), false),
            };
            let result = ToolResult {
                call_id: response.id.unwrap_or_default(),
                name: response.name,
                text: said,
                is_error,
            };
            match messages.last_mut() {
                Some(Message::ToolResults(results)) => results.push(result),
                _ => messages.push(Message::ToolResults(vec![result])),
            }
        } else if let Some(more) = part.text {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&more);
        }
    }
    if !text.is_empty() {
        messages.push(Message::User(text.into()));
    }
}

/// A block of a model response.
pub(crate) fn block(part: Part) -> Option<Block> {
    if let Some(call) = part.function_call {
        return Some(Block::Call(ToolCall {
            id: call.id.unwrap_or_default(),
            name: call.name,
            args: call.args,
        }));
    }
    match (part.text, part.thought) {
        (Some(text), Some(true)) => Some(Block::Thought(text)),
        (Some(text), _) => Some(Block::Text(text)),
        (None, _) => None,
    }
}

/// Providers refuse a call without a result: each one gets one.
fn answer_open_calls(messages: Vec<Message>) -> Vec<Message> {
    let mut answered = Vec::with_capacity(messages.len());
    let mut open: Vec<ToolCall> = Vec::new();
    for message in messages {
        match message {
            Message::ToolResults(mut results) => {
                let calls: BTreeSet<&str> = open.iter().map(|call| call.id.as_str()).collect();
                // A result whose call is behind a gap would be refused as well.
                results.retain(|result| calls.contains(result.call_id.as_str()));
                let known: BTreeSet<String> = results
                    .iter()
                    .map(|result| result.call_id.clone())
                    .collect();
                results.extend(
                    open.drain(..)
                        .filter(|call| !known.contains(&call.id))
                        .map(no_result),
                );
                if !results.is_empty() {
                    answered.push(Message::ToolResults(results));
                }
            }
            Message::User(_) | Message::Assistant(_) => {
                close(&mut open, &mut answered);
                if let Message::Assistant(blocks) = &message {
                    open.extend(blocks.iter().filter_map(|block| match block {
                        Block::Call(call) => Some(call.clone()),
                        Block::Text(_) | Block::Thought(_) => None,
                    }));
                }
                answered.push(message);
            }
        }
    }
    close(&mut open, &mut answered);
    answered
}

fn close(open: &mut Vec<ToolCall>, answered: &mut Vec<Message>) {
    if !open.is_empty() {
        answered.push(Message::ToolResults(
            open.drain(..).map(no_result).collect(),
        ));
    }
}

fn no_result(call: ToolCall) -> ToolResult {
    ToolResult {
        call_id: call.id,
        name: call.name,
        text: NO_RESULT.to_owned(),
        is_error: true,
    }
}
