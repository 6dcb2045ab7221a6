//! Puts tool calls together from the pieces that a stream brings.
//!
//! A piece finds its call by index, else by id, else it continues the last one. An index is a name
//! and never a position: whatever number it is, it costs nothing. Every call that a stream begins
//! comes out, whole or not; what of it is no JSON object is for the tool layer to answer.

use serde_json::value::RawValue;
use uuid::Uuid;
use wire::limits::{MODEL_ARGS_DEPTH_MAX, MODEL_TOOL_CALLS_MAX};

use super::{
    chunk::{self, CallPart},
    halves::{Halves, mended},
};
use crate::message::ToolCall;

/// The stream began more calls than are taken.
#[derive(Debug)]
pub(super) struct TooMany;

/// The calls of one response, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<Box<str>>,
    id: String,
    name: String,
    args: String,
    halves: Halves,
}

impl Calls {
    /// Whether the stream began none.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes a piece; gives the bytes that it added.
    pub(super) fn take(&mut self, part: &CallPart<'_>) -> Result<usize, TooMany> {
        let index = part.index.map(RawValue::get);
        // `"null"` is what some servers make of no id.
        let id = part
            .id
            .map(chunk::text)
            .filter(|id| !id.is_empty() && id != "null");
        let function = part.function.as_ref();
        let name = function
            .and_then(|function| function.name)
            .map(chunk::text)
            .unwrap_or_default();
        let place = self.place(index, id.as_deref(), &name);
        let place = match place {
            Some(place) => place,
            None if self.calls.len() == MODEL_TOOL_CALLS_MAX => return Err(TooMany),
            None => {
                let index = index.map(Box::from);
                self.calls.push(Call {
                    index,
                    ..Call::default()
                });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[place];
        let n_before = call.n_bytes();
        if let Some(id) = id
            && call.id.is_empty()
        {
            call.id = id;
        }
        // A name that comes again with every piece is the same name; one that goes on before the
        // arguments begin was cut.
        if call.name != name && call.args.is_empty() {
            call.name.push_str(&name);
        }
        if let Some(args) = function.and_then(|function| function.arguments) {
            call.append_args(args.get());
        }
        Ok(call.n_bytes() - n_before)
    }

    /// The call that a piece belongs to; `None` where it begins one.
    fn place(&self, index: Option<&str>, id: Option<&str>, name: &str) -> Option<usize> {
        if index.is_some() {
            let place = self
                .calls
                .iter()
                .rposition(|call| call.index.as_deref() == index)?;
            let call = &self.calls[place];
            // Some servers give all calls the same index: another id with a name begins a call.
            let begins =
                !name.is_empty() && id.is_some_and(|id| !call.id.is_empty() && call.id != id);
            return (!begins).then_some(place);
        }
        match id {
            Some(id) => self.calls.iter().rposition(|call| call.id == id),
            None if name.is_empty() => self.calls.len().checked_sub(1),
            None => None,
        }
    }

    /// The calls, once no more pieces come. Ids are unique and never empty.
    pub(super) fn finish(&mut self) -> Vec<ToolCall> {
        let mut done: Vec<ToolCall> = Vec::with_capacity(self.calls.len());
        for mut call in self.calls.drain(..) {
            call.halves.finish(&mut call.args);
            if call.id.is_empty() || done.iter().any(|other| other.id == call.id) {
                call.id = format!("call_{}", Uuid::new_v4().simple());
            }
            done.push(ToolCall {
                id: call.id,
                name: call.name,
                args: args(&call.args),
            });
        }
        done
    }
}

impl Call {
    fn n_bytes(&self) -> usize {
        self.id.len() + self.name.len() + self.args.len()
    }

    /// Arguments come as pieces of a string; a few servers send an object.
    fn append_args(&mut self, raw: &str) {
        if raw.starts_with('"') {
            self.halves.append(raw, &mut self.args);
        } else if raw != "null" {
            self.args.push_str(raw);
        }
    }
}

/// The arguments as JSON that every reader takes.
///
/// None at all are an empty object, and an object in a string is the object. What is no JSON, or
/// nests too deep for a record to be read back, becomes a JSON string that holds the text.
fn args(text: &str) -> Box<RawValue> {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed == "null" {
        return raw("{}").unwrap_or_default();
    }
    if trimmed.starts_with('"')
        && let Ok(inner) = serde_json::from_str::<&RawValue>(trimmed)
        && let mut object = String::new()
        && {
            Halves::default().append(inner.get(), &mut object);
            object.trim_start().starts_with('{')
        }
        && let Some(object) = raw(&object)
    {
        return object;
    }
    raw(trimmed).unwrap_or_else(|| {
        // Text always serializes; were it not so, an empty object would be refused by the tool.
        serde_json::value::to_raw_value(text).unwrap_or_default()
    })
}

fn raw(json: &str) -> Option<Box<RawValue>> {
    if depth(json) > MODEL_ARGS_DEPTH_MAX {
        return None;
    }
    let checked: &RawValue = serde_json::from_str(json).ok()?;
    RawValue::from_string(mended(checked.get()).into_owned()).ok()
}

/// How deep JSON text nests.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let mut bytes = json.bytes();
    let mut in_string = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if in_string => {
                // Dropped: an escaped byte is no quote that ends the string, whatever it is.
                _ = bytes.next();
            }
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assemble(parts: &[&str]) -> Vec<(String, String, String)> {
        let mut calls = Calls::default();
        for part in parts {
            calls.take(&serde_json::from_str(part).unwrap()).unwrap();
        }
        let row = |call: ToolCall| (call.id, call.name, call.args.get().to_owned());
        calls.finish().into_iter().map(row).collect()
    }

    fn row(id: &str, name: &str, args: &str) -> (String, String, String) {
        (id.to_owned(), name.to_owned(), args.to_owned())
    }

    #[test]
    fn pieces_find_their_call_by_index_then_id_then_order() {
        assert_eq!(
            assemble(&[
                r#"{"index":7,"id":"a","function":{"name":"x","arguments":"{\"n\""}}"#,
                r#"{"id":"b","function":{"name":"y","arguments":"{"}}"#,
                r#"{"index":7,"function":{"arguments":":1}"}}"#,
                r#"{"id":"b","function":{"arguments":"\"m\":"}}"#,
                r#"{"function":{"arguments":"2}"}}"#,
            ]),
            [row("a", "x", r#"{"n":1}"#), row("b", "y", r#"{"m":2}"#)]
        );
    }

    #[test]
    fn calls_that_share_an_index_are_told_apart_by_id() {
        assert_eq!(
            assemble(&[
                r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}"#,
                r#"{"index":0,"id":"b","function":{"name":"x","arguments":"{}"}}"#,
            ]),
            [row("a", "x", "{}"), row("b", "x", "{}")]
        );
    }

    #[test]
    fn named_calls_without_index_and_id_are_calls_of_their_own() {
        let calls = assemble(&[
            r#"{"id":"null","function":{"name":"x","arguments":"{}"}}"#,
            r#"{"function":{"name":"y","arguments":{"a":1}}}"#,
        ]);
        assert_eq!(calls.len(), 2);
        assert_ne!(calls[0].0, calls[1].0);
        assert_eq!((&calls[1].1[..], &calls[1].2[..]), ("y", r#"{"a":1}"#));
    }

    #[test]
    fn an_id_given_twice_is_made_unique() {
        let calls = assemble(&[
            r#"{"index":0,"id":"a","function":{"name":"x"}}"#,
            r#"{"index":1,"id":"a","function":{"name":"y"}}"#,
        ]);
        assert_eq!(calls[0], row("a", "x", "{}"));
        assert!(calls[1].0 != "a" && !calls[1].0.is_empty());
    }

    #[test]
    fn a_name_may_come_in_pieces_or_again_and_again() {
        assert_eq!(
            assemble(&[
                r#"{"index":0,"id":"a","function":{"name":"read_"}}"#,
                r#"{"index":0,"function":{"name":"file","arguments":"{\"a\""}}"#,
                r#"{"index":0,"function":{"name":"read_file","arguments":":1}"}}"#,
            ]),
            [row("a", "read_file", r#"{"a":1}"#)]
        );
    }

    #[test]
    fn arguments_are_json_that_every_reader_takes() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for (text, expected) in [
            ("", "{}".to_owned()),
            (" \n", "{}".to_owned()),
            ("null", "{}".to_owned()),
            (r#" {"a": 1} "#, r#"{"a": 1}"#.to_owned()),
            (r#""{\"a\":1}""#, r#"{"a":1}"#.to_owned()),
            (r#""quoted""#, r#""quoted""#.to_owned()),
            (r#"{"a": b, }"#, r#""{\"a\": b, }""#.to_owned()),
            (r#"{"a":"\ud83d"}"#, r#"{"a":"\ufffd"}"#.to_owned()),
            (r#"{"a":"[[[\"{"}"#, r#"{"a":"[[[\"{"}"#.to_owned()),
            (&deep, format!("\"{deep}\"")),
        ] {
            let made = args(text);
            assert_eq!(made.get(), expected);
            serde_json::from_str::<serde_json::Value>(made.get()).unwrap();
        }
    }

    #[test]
    fn halves_split_over_pieces_of_arguments_are_joined() {
        assert_eq!(
            assemble(&[
                r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{\"a\":\"\ud83d"}}"#,
                r#"{"index":0,"function":{"arguments":"\ude00\"}"}}"#,
            ]),
            [row("a", "x", r#"{"a":"😀"}"#)]
        );
    }

    #[test]
    fn calls_over_the_limit_are_refused() {
        let mut calls = Calls::default();
        for n in 0..=MODEL_TOOL_CALLS_MAX {
            let part = format!(r#"{{"index":{n},"function":{{"name":"x"}}}}"#);
            let taken = calls.take(&serde_json::from_str(&part).unwrap());
            assert_eq!(taken.is_ok(), n < MODEL_TOOL_CALLS_MAX);
        }
    }
}
