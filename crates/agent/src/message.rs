//! What a conversation is made of while it runs. Disk and wire have types of their own.

use serde_json::value::RawValue;

/// One entry of the model's history.
#[derive(Debug, Clone)]
pub enum Message {
    /// What the person said.
    User(String),
    /// One model response.
    Assistant(Vec<Block>),
    /// Results of the calls of the response before it, in the order of the calls.
    ToolResults(Vec<ToolResult>),
}

/// A block of a model response.
#[derive(Debug, Clone)]
pub enum Block {
    /// Reasoning.
    Thought(String),
    /// Answer text.
    Text(String),
    /// A tool call.
    Call(ToolCall),
}

/// A tool call.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Never empty, unique in its response: made up where the model gave none.
    pub id: String,
    /// The tool's name as the model gave it.
    pub name: String,
    /// JSON text; an object, unless the model erred (the tool layer answers that).
    pub args: Box<RawValue>,
}

/// What the model is told of a call.
#[derive(Debug, Clone)]
pub struct ToolResult {
    /// The call's id.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The text for the model.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
}

/// Tokens of one model call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the prompt.
    pub input: u64,
    /// Of the answer, thoughts included.
    pub output: u64,
    /// Of the prompt, taken from a cache.
    pub cached: u64,
    /// Of the answer, spent on thoughts.
    pub thoughts: u64,
    /// As the provider sums it.
    pub total: u64,
}
