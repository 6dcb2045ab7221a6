//! `session/update`, read once and with its values raw: as far as the bridge has to know it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Params.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Params<'a> {
    #[serde(borrow)]
    pub(crate) session_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) update: Update<'a>,
}

/// Whose update it is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Addressed<'a> {
    #[serde(borrow)]
    pub(crate) session_id: Cow<'a, str>,
}

/// One update. Kinds that are not known pass as they are.
#[derive(Debug, Deserialize)]
pub(crate) struct Update<'a> {
    #[serde(borrow, rename = "sessionUpdate")]
    pub(crate) kind: Cow<'a, str>,
    /// As JSON, quotes included.
    #[serde(borrow, rename = "toolCallId")]
    pub(crate) tool_call_id: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<&'a RawValue>,
}

/// When a stored update was recorded.
#[derive(Debug, Deserialize)]
struct Recorded {
    /// Ms since 1970.
    timestamp: u64,
}

/// A block that is text and nothing else.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl<'a> Update<'a> {
    /// When it was recorded, where it says so; in ms since 1970.
    pub(crate) fn recorded_at_ms(&self) -> Option<u64> {
        let recorded: Recorded = serde_json::from_str(self.meta?.get()).ok()?;
        Some(recorded.timestamp)
    }

    /// The text of a chunk, where its content is text and nothing else.
    pub(crate) fn chunk_text(&self) -> Option<Cow<'a, str>> {
        if !self.kind.ends_with("_chunk") {
            return None;
        }
        let text: Text<'a> = serde_json::from_str(self.content?.get()).ok()?;
        (text.kind == "text").then_some(text.text)
    }
}

/// Reads params, or an update of a replay.
pub(crate) fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}
