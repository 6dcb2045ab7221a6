//! What one JSONL line looks like on disk.
//!
//! These are disk types: neither the wire's nor the runtime's. The order of the fields is the order
//! in which Qwen Code writes them. What is read is kept as it stands: unknown types, subtypes and
//! fields survive a copy, and a `version` is never a reason to refuse a record.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::media::Medium;

/// What a new record says; the recorder adds its ids, its time and its place in the chain.
#[derive(Debug, Clone)]
pub enum Body {
    /// What the person said.
    User {
        /// Role `user`.
        message: Content,
        /// Pictures that are kept beside the transcript. The text names each of them, so that
        /// readers which do not know this field know that it was there.
        media: Vec<Medium>,
    },
    /// One model response: thoughts, text and calls together.
    Assistant {
        /// The model's name.
        model: String,
        /// Role `model`.
        message: Content,
        /// Tokens; absent for a partial answer.
        usage: Option<UsageMetadata>,
    },
    /// One tool call's result.
    ToolResult {
        /// Role `user`, one `functionResponse`.
        message: Content,
        /// How the call ended.
        result: ToolCallResult,
    },
    /// A system record. `custom_title` is written by [`Recorder::rename`](crate::recorder::Recorder::rename).
    System {
        /// Its kind.
        subtype: &'static str,
        /// Its payload.
        payload: Box<RawValue>,
    },
}

/// A session's name, as its last `custom_title` record says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    /// The name.
    #[serde(rename = "customTitle")]
    pub text: String,
    /// Who gave it.
    #[serde(rename = "titleSource", default)]
    pub source: TitleSource,
}

/// Who named a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TitleSource {
    /// A person; also where a record does not say.
    #[default]
    Manual,
    /// A program.
    Auto,
}

/// `message` of a record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Content {
    /// `user` (prompts and tool results) or `model`.
    pub role: String,
    /// In order.
    #[serde(default)]
    pub parts: Vec<Part>,
}

/// One part of a [`Content`]; exactly one of the optional fields is there, except `thought`, which
/// joins `text`. A part that is none of these is kept by readers as [`Part::default`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// Text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text: Option<String>,
    /// `true` where the text is a thought.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub thought: Option<bool>,
    /// A tool call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub function_call: Option<FunctionCall>,
    /// A tool's answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub function_response: Option<FunctionResponse>,
}

impl Part {
    /// A text part.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// A thought part.
    #[must_use]
    pub fn thought(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            thought: Some(true),
            ..Self::default()
        }
    }
}

/// A tool call as the model made it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionCall {
    /// Absent in files of other programs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// A JSON object, kept as text: it may be deeper than `serde_json::Value` reads.
    pub args: Box<RawValue>,
}

/// What a tool answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionResponse {
    /// The call's id; absent in files of other programs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// `{output}` or `{error}`.
    pub response: Response,
}

/// The `response` of a [`FunctionResponse`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Response {
    /// What the tool said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// `usageMetadata`, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageMetadata {
    /// Of the prompt.
    pub prompt_token_count: u64,
    /// Of the answer.
    pub candidates_token_count: u64,
    /// Of its thoughts.
    pub thoughts_token_count: u64,
    /// Together, as the provider counts.
    pub total_token_count: u64,
    /// Of the prompt, taken from a cache.
    pub cached_content_token_count: u64,
}

/// `toolCallResult`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallResult {
    /// The call's id.
    pub call_id: String,
    /// `success`, `error` or `cancelled`.
    pub status: &'static str,
    /// What a person is shown: a string, or an object of the tool's own.
    pub result_display: Box<RawValue>,
    /// The error's text, absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its kind, absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<&'static str>,
    /// `success`, `error`, `cancelled` or `not_started`.
    pub execution_status: &'static str,
}
