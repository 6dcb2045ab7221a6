//! The shape of a chunk, as servers that call themselves compatible really send it.
//!
//! Everything may be missing or `null`, unknown fields are passed over, and what has been seen in
//! more than one shape stays raw until it is looked at.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::halves::Halves;
use crate::message::Usage;

/// One chunk of a stream, or a whole answer of a server that does not stream.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// `"error"` where the chunk itself is the error.
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow)]
    pub(super) index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    /// In place of `delta` where the answer is whole.
    #[serde(borrow)]
    pub(super) message: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning: Option<&'a RawValue>,
    /// Said in place of `content`; a person has to read it all the same.
    #[serde(borrow)]
    pub(super) refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<CallPart<'a>>>,
    /// The older spelling of one call.
    #[serde(borrow)]
    pub(super) function_call: Option<FunctionPart<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallPart<'a> {
    #[serde(borrow)]
    pub(super) index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) function: Option<FunctionPart<'a>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct FunctionPart<'a> {
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// A part of a content that is a list.
#[derive(Debug, Deserialize)]
pub(super) struct ContentPart<'a> {
    #[serde(borrow)]
    pub(super) text: Option<&'a RawValue>,
}

/// The text of a short value: a string's content, anything else as it stands.
pub(super) fn text(raw: &RawValue) -> String {
    let mut out = String::new();
    if raw.get().starts_with('"') {
        let mut halves = Halves::default();
        halves.append(raw.get(), &mut out);
        halves.finish(&mut out);
    } else {
        out.push_str(raw.get());
    }
    out
}

/// The tokens of a `usage` object; `None` where it holds none that is known.
pub(super) fn usage(raw: &str) -> Option<Usage> {
    let wire: Value = serde_json::from_str(raw).ok()?;
    let prompt = wire["prompt_tokens"].as_u64();
    let completion = wire["completion_tokens"].as_u64();
    let total = wire["total_tokens"].as_u64();
    prompt.or(completion).or(total)?;
    let (input, output) = (prompt.unwrap_or(0), completion.unwrap_or(0));
    let cached = wire["prompt_tokens_details"]["cached_tokens"]
        .as_u64()
        .or_else(|| wire["prompt_cache_hit_tokens"].as_u64());
    Some(Usage {
        input,
        output,
        cached: cached.unwrap_or(0),
        thoughts: wire["completion_tokens_details"]["reasoning_tokens"]
            .as_u64()
            .unwrap_or(0),
        total: total.unwrap_or(input.saturating_add(output)),
    })
}
