//! `session/update`: what a client is told while a turn runs.

use agent::{image::Image, tool::Todo};
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

/// Params.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionUpdate<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) update: &'a Update<'a>,
}

/// One update. Only kinds that the first schema of ACP knew, but for `notice`.
#[derive(Debug, Serialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(crate) enum Update<'a> {
    UserMessageChunk(Chunk<'a>),
    AgentMessageChunk(Chunk<'a>),
    AgentThoughtChunk(Chunk<'a>),
    ToolCall(ToolCall<'a>),
    #[serde(rename = "tool_call_update")]
    ToolChanged(ToolCall<'a>),
    #[serde(rename = "available_commands_update")]
    Commands {
        #[serde(rename = "availableCommands")]
        available_commands: Vec<Command>,
    },
    Plan {
        entries: Vec<PlanEntry<'a>>,
    },
    /// Only for clients that take it.
    Notice {
        severity: &'static str,
        content: Text<'a>,
    },
}

/// A piece of a message.
#[derive(Debug, Serialize)]
pub(crate) struct Chunk<'a> {
    pub(crate) content: Shown<'a>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub(crate) meta: Option<Value>,
}

/// What a piece of a message shows.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Shown<'a> {
    Text(Text<'a>),
    Image(Picture),
}

/// A picture.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Picture {
    r#type: &'static str,
    mime_type: &'static str,
    /// Base64.
    data: String,
}

impl Picture {
    pub(crate) fn new(image: &Image) -> Self {
        Self {
            r#type: "image",
            mime_type: image.mime_type(),
            data: image.base64(),
        }
    }
}

/// A block of text.
#[derive(Debug, Serialize)]
pub(crate) struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl<'a> Text<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            r#type: "text",
            text,
        }
    }
}

impl<'a> Chunk<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            content: Shown::Text(Text::new(text)),
            meta: None,
        }
    }
}

/// One item of a plan.
#[derive(Debug, Serialize)]
pub(crate) struct PlanEntry<'a> {
    content: &'a str,
    /// The model gives none.
    priority: &'static str,
    status: &'static str,
}

impl<'a> PlanEntry<'a> {
    fn new(todo: &'a Todo) -> Self {
        Self {
            content: &todo.content,
            priority: "medium",
            status: todo.status.as_str(),
        }
    }
}

impl<'a> Update<'a> {
    /// The whole plan.
    pub(crate) fn plan(todos: &'a [Todo]) -> Self {
        Self::Plan {
            entries: todos.iter().map(PlanEntry::new).collect(),
        }
    }
}

/// A slash command.
#[derive(Debug, Serialize)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
}

/// A tool call, or what changed of it. Absent fields are absent, never `null`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolCall<'a> {
    pub(crate) tool_call_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Vec<ToolContent<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) locations: Option<Vec<Location>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_input: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_output: Option<&'a str>,
    #[serde(rename = "_meta", skip_serializing_if = "Map::is_empty")]
    pub(crate) meta: Map<String, Value>,
}

/// What a tool shows.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ToolContent<'a> {
    Content {
        content: Text<'a>,
    },
    #[serde(rename_all = "camelCase")]
    Diff {
        path: String,
        /// `null` where there was no file.
        old_text: Option<&'a str>,
        new_text: &'a str,
    },
}

/// A file that a call is about.
#[derive(Debug, Serialize)]
pub(crate) struct Location {
    pub(crate) path: String,
}
