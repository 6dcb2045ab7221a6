//! From the events of a stream to the events of a response.
//!
//! The rule over all others: nothing that a model said is lost without an error. What is not
//! understood fails the call, what stops in the middle fails it, and an answer without content is
//! none unless the model says that it is done.

use std::{borrow::Cow, collections::VecDeque};

use serde_json::value::RawValue;
use wire::{limits::MODEL_RESPONSE_BYTES_MAX, sse};

use super::{
    calls::{Calls, TooMany},
    chunk::{self, CallPart, Choice, Chunk, ContentPart, Delta},
    failure::{Failure, Names, is_error},
    halves::Halves,
};
use crate::model::{Completion, Finish, ModelEvent};

/// Names of events that only keep a connection alive.
const KEEP_ALIVE: [&str; 5] = ["ping", "heartbeat", "keepalive", "keep-alive", "keep_alive"];

/// One response while it comes in.
#[derive(Debug, Default)]
pub(super) struct Response {
    text: Halves,
    thought: Halves,
    calls: Calls,
    finish: Option<Finish>,
    /// The last `usage` that was said, raw.
    usage: Option<Box<str>>,
    /// `[DONE]` came: what follows it is no part of the response.
    done: bool,
    n_bytes: usize,
}

type Events = VecDeque<ModelEvent>;

impl Response {
    /// Whether nothing more has to come for the response to be whole.
    pub(super) fn is_whole(&self) -> bool {
        self.done || self.finish.is_some()
    }

    /// Whether nothing more will come.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Takes one event of the stream.
    pub(super) fn take(
        &mut self,
        event: sse::Event<'_>,
        names: &Names,
        out: &mut Events,
    ) -> Result<(), Failure> {
        let data = lossy(event.data);
        let data = data.trim();
        if event.event == "error" {
            return Err(Failure::in_answer(data, names));
        }
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        if data.is_empty() || (KEEP_ALIVE.contains(&event.event) && !data.starts_with('{')) {
            return Ok(());
        }
        let chunk = parse(data).ok_or_else(|| {
            Failure::protocol("the answer holds an event that is no JSON; part of it is lost")
        })?;
        self.take_chunk(&chunk, data, names, out)
    }

    /// Takes what the stream ended with in place of a whole event. A whole chunk counts; a cut one
    /// does not, for the missing end is told anyway.
    pub(super) fn take_unfinished(
        &mut self,
        event: sse::Event<'_>,
        names: &Names,
        out: &mut Events,
    ) -> Result<(), Failure> {
        let data = lossy(event.data);
        let whole = data.trim() == "[DONE]" || parse(data.trim()).is_some();
        if whole {
            self.take(event, names, out)
        } else {
            Ok(())
        }
    }

    /// Takes a body that is no stream of events: an error, or the answer of a server that does not
    /// stream.
    pub(super) fn take_body(
        &mut self,
        body: &[u8],
        names: &Names,
        out: &mut Events,
    ) -> Result<(), Failure> {
        let body = lossy(body);
        let body = body.trim();
        if body.starts_with('[') {
            return Err(Failure::in_answer(body, names));
        }
        let Some(chunk) = parse(body) else {
            return Err(Failure::protocol(format!(
                "{} answered with something that is no model's answer; check OPENAI_BASE_URL",
                names.endpoint
            )));
        };
        if chunk.choices.is_none() {
            return Err(Failure::in_answer(body, names));
        }
        self.take_chunk(&chunk, body, names, out)
    }

    /// No marker of an end follows: what was taken was the whole body.
    pub(super) fn close(&mut self) {
        self.done = true;
    }

    /// Tells half characters that still wait for their other half.
    pub(super) fn flush(&mut self, out: &mut Events) {
        let (mut text, mut thought) = (String::new(), String::new());
        self.thought.finish(&mut thought);
        self.text.finish(&mut text);
        push(thought, ModelEvent::Thought, out);
        push(text, ModelEvent::Text, out);
    }

    /// Ends the response: the calls, then [`ModelEvent::Done`]; or the failure that it ended so.
    pub(super) fn end(&mut self, out: &mut Events) -> Result<(), Failure> {
        self.flush(out);
        if !self.is_whole() {
            return Err(Failure::cut("the stream ended before the model was done"));
        }
        let has_calls = !self.calls.is_empty();
        let finish = match (self.finish, has_calls) {
            (None | Some(Finish::ToolCalls), false) if self.n_bytes == 0 => {
                return Err(Failure::protocol(
                    "the provider ended the answer without a word of it",
                ));
            }
            (None | Some(Finish::Stop | Finish::ToolCalls), true) => Finish::ToolCalls,
            (None | Some(Finish::ToolCalls), false) => Finish::Stop,
            (Some(finish), _) => finish,
        };
        out.extend(self.calls.finish().into_iter().map(ModelEvent::Call));
        let usage = self.usage.take().and_then(|raw| chunk::usage(&raw));
        out.push_back(ModelEvent::Done(Completion { finish, usage }));
        Ok(())
    }

    fn take_chunk(
        &mut self,
        chunk: &Chunk<'_>,
        data: &str,
        names: &Names,
        out: &mut Events,
    ) -> Result<(), Failure> {
        let is_error_object = chunk
            .object
            .is_some_and(|object| object.get() == "\"error\"");
        if chunk.error.is_some_and(is_error) || is_error_object {
            return Err(Failure::in_answer(data, names));
        }
        if let Some(usage) = chunk.usage {
            self.usage = Some(usage.get().into());
        }
        for choice in chunk.choices.iter().flatten() {
            // Another choice is another answer, not a part of this one; none was asked for.
            if choice.index.is_none_or(|index| index.get() == "0") {
                self.take_choice(choice, names, out)?;
            }
        }
        if self.n_bytes > MODEL_RESPONSE_BYTES_MAX {
            return Err(Failure::protocol(format!(
                "the answer is larger than {MODEL_RESPONSE_BYTES_MAX} bytes"
            )));
        }
        Ok(())
    }

    fn take_choice(
        &mut self,
        choice: &Choice<'_>,
        names: &Names,
        out: &mut Events,
    ) -> Result<(), Failure> {
        for delta in [&choice.delta, &choice.message].into_iter().flatten() {
            self.take_delta(delta, out)?;
        }
        if let Some(error) = choice.error.filter(|error| is_error(error)) {
            return Err(Failure::in_answer(error.get(), names));
        }
        let reason = choice.finish_reason.map(chunk::text).unwrap_or_default();
        match reason.as_str() {
            "" => {}
            "error" => return Err(Failure::in_answer("", names)),
            "tool_calls" | "function_call" => self.finish = Some(Finish::ToolCalls),
            "length" | "max_tokens" => self.finish = Some(Finish::Length),
            "content_filter" => self.finish = Some(Finish::Filtered),
            // Whatever other word a server has for it, the model is done.
            _ => self.finish = Some(Finish::Stop),
        }
        Ok(())
    }

    fn take_delta(&mut self, delta: &Delta<'_>, out: &mut Events) -> Result<(), Failure> {
        // Servers that spell both say the same twice.
        let thought = [delta.reasoning_content, delta.reasoning]
            .into_iter()
            .flatten()
            .find(|raw| raw.get() != "\"\"");
        if let Some(raw) = thought {
            let mut thought = String::new();
            append(raw, &mut self.thought, &mut thought);
            self.n_bytes += thought.len();
            push(thought, ModelEvent::Thought, out);
        }
        for raw in [delta.content, delta.refusal].into_iter().flatten() {
            let mut text = String::new();
            if !append(raw, &mut self.text, &mut text) {
                return Err(Failure::protocol(
                    "the answer holds content of an unknown shape",
                ));
            }
            self.n_bytes += text.len();
            push(text, ModelEvent::Text, out);
        }
        let older = CallPart {
            index: None,
            id: None,
            function: delta.function_call,
        };
        let older = delta.function_call.map(|_| &older);
        for part in delta.tool_calls.iter().flatten().chain(older) {
            self.n_bytes += self
                .calls
                .take(part)
                .map_err(|TooMany| Failure::protocol("the answer holds too many tool calls"))?;
        }
        Ok(())
    }
}

/// Reads a chunk; `None` where it is no JSON object of that shape.
fn parse(data: &str) -> Option<Chunk<'_>> {
    // Serde would also take an array for a struct.
    if !data.starts_with('{') {
        return None;
    }
    serde_json::from_str(data).ok()
}

/// Bytes as text. A broken character becomes U+FFFD, and the rest of the answer stays.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Appends a content, a string or a list of parts; `false` where it is neither.
fn append(raw: &RawValue, halves: &mut Halves, out: &mut String) -> bool {
    match raw.get().as_bytes().first() {
        Some(b'"') => halves.append(raw.get(), out),
        Some(b'[') => {
            let Ok(parts) = serde_json::from_str::<Vec<ContentPart<'_>>>(raw.get()) else {
                return false;
            };
            for text in parts.iter().filter_map(|part| part.text) {
                halves.append(text.get(), out);
            }
        }
        _ => return false,
    }
    true
}

fn push(text: String, event: fn(String) -> ModelEvent, out: &mut Events) {
    if !text.is_empty() {
        out.push_back(event(text));
    }
}
