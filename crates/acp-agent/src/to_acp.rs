//! How a session's events look to a client.

use std::{path::Path, sync::Arc};

use agent::{
    event::{Event, Subscriber, ToolStatus},
    message::{Block, ToolCall as Call, Usage},
    tool::{Display, Preview},
};
use futures_util::{FutureExt, future::BoxFuture};
use jsonrpc::Peer;
use serde_json::{Map, Value, json};

use crate::protocol::update::{
    Chunk, Location, SessionUpdate, Text, ToolCall, ToolContent, Update,
};

/// Tells one session's events to the client.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    peer: Peer,
    session_id: Arc<str>,
    /// Where relative paths of calls start.
    root: Arc<Path>,
    /// The client takes the update `notice`.
    takes_notices: bool,
}

impl Teller {
    pub(crate) fn new(peer: Peer, session_id: &str, root: &Path, takes_notices: bool) -> Self {
        Self {
            peer,
            session_id: session_id.into(),
            root: root.into(),
            takes_notices,
        }
    }

    /// Sends an update; what is answered waits for room.
    pub(crate) fn tell(&self, update: &Update<'_>) -> BoxFuture<'static, ()> {
        let sent = self.peer.notify(
            "session/update",
            &SessionUpdate {
                session_id: &self.session_id,
                update,
            },
        );
        async move {
            // Dropped: a client that is gone is told nothing more.
            _ = sent.await;
        }
        .boxed()
    }

    fn tell_all(&self, updates: &[Update<'_>]) -> Option<BoxFuture<'static, ()>> {
        let sent: Vec<_> = updates.iter().map(|update| self.tell(update)).collect();
        Some(
            async move {
                for sent in sent {
                    sent.await;
                }
            }
            .boxed(),
        )
    }
}

impl Subscriber for Teller {
    fn take(&self, event: &Event) -> Option<BoxFuture<'static, ()>> {
        match event {
            Event::Text(text) => Some(self.tell(&Update::AgentMessageChunk(Chunk::new(text)))),
            Event::Thought(text) => Some(self.tell(&Update::AgentThoughtChunk(Chunk::new(text)))),
            Event::ModelEnded { blocks, usage } => {
                let calls = blocks.iter().filter_map(|block| match block {
                    Block::Call(call) => Some(Update::ToolCall(made(call, &self.root))),
                    Block::Text(_) | Block::Thought(_) => None,
                });
                let usage = usage.map(|usage| Update::AgentMessageChunk(counted(&usage)));
                self.tell_all(&calls.chain(usage).collect::<Vec<_>>())
            }
            Event::ToolStarted(call) => Some(self.tell(&Update::ToolChanged(ToolCall {
                status: Some("in_progress"),
                ..about(call)
            }))),
            Event::ToolEnded {
                call,
                text,
                display,
                status,
                ..
            } => Some(self.tell(&Update::ToolChanged(ended(call, text, display, *status)))),
            Event::PlanChanged(todos) => Some(self.tell(&Update::plan(todos))),
            Event::Warning(text) if self.takes_notices => Some(self.tell(&Update::Notice {
                severity: "warning",
                content: Text::new(text),
            })),
            Event::SessionStarted(_)
            | Event::TurnStarted { .. }
            | Event::SessionChanged(_)
            | Event::ModelStarted
            | Event::Retrying { .. }
            | Event::ToolProgress { .. }
            | Event::Warning(_)
            | Event::TurnEnded(_)
            | Event::SessionEnded(_) => None,
        }
    }

    fn offer(&self, event: &Event) {
        if let Event::ToolProgress { call_id, text } = event {
            // It takes its place and is waited for by nobody; its rate is bounded where it is made.
            drop(self.tell(&Update::ToolChanged(ToolCall {
                tool_call_id: call_id,
                status: Some("in_progress"),
                content: Some(vec![shown(text)]),
                ..ToolCall::default()
            })));
        }
    }
}

/// A call that the model made.
fn made<'a>(call: &'a Call, root: &Path) -> ToolCall<'a> {
    ToolCall {
        title: Some(title_of(call)),
        kind: Some(kind_of(&call.name)),
        status: Some("pending"),
        locations: Some(locations_of(call, root)),
        raw_input: Some(&call.args),
        ..about(call)
    }
}

fn about(call: &Call) -> ToolCall<'_> {
    ToolCall {
        tool_call_id: &call.id,
        meta: named(&call.name),
        ..ToolCall::default()
    }
}

pub(crate) fn named(tool_name: &str) -> Map<String, Value> {
    let mut meta = Map::new();
    meta.insert("toolName".to_owned(), json!(tool_name));
    let provenance = if tool_name.starts_with("mcp__") {
        "mcp"
    } else {
        "builtin"
    };
    meta.insert("provenance".to_owned(), json!(provenance));
    meta
}

fn ended<'a>(
    call: &'a Call,
    text: &'a str,
    display: &'a Display,
    status: ToolStatus,
) -> ToolCall<'a> {
    let content = match display {
        Display::Diff {
            path,
            texts: Some(texts),
            ..
        } => ToolContent::Diff {
            path: path.to_string_lossy().into_owned(),
            old_text: texts.old.as_deref(),
            new_text: &texts.new,
        },
        Display::Diff { diff, .. } => shown(diff),
        Display::Shell { output, .. } => shown(output),
        Display::Text(text) => shown(text),
        // The plan has an update of its own.
        Display::Plan(_) => shown(text),
    };
    ToolCall {
        status: Some(if status == ToolStatus::Success {
            "completed"
        } else {
            "failed"
        }),
        content: Some(vec![content]),
        raw_output: Some(text),
        ..about(call)
    }
}

/// What a client is shown of a call before it decides.
pub(crate) fn asked_about<'a>(call: &'a Call, preview: &'a Preview, root: &Path) -> ToolCall<'a> {
    let content = match preview {
        Preview::Edit {
            path,
            texts: Some(texts),
            ..
        } => ToolContent::Diff {
            path: path.to_string_lossy().into_owned(),
            old_text: texts.old.as_deref(),
            new_text: &texts.new,
        },
        Preview::Edit { diff, .. } => shown(diff),
        Preview::Command { command, .. } => shown(command),
        Preview::Read(text) | Preview::Call(text) => shown(text),
    };
    ToolCall {
        content: Some(vec![content]),
        ..made(call, root)
    }
}

pub(crate) fn shown(text: &str) -> ToolContent<'_> {
    ToolContent::Content {
        content: Text::new(text),
    }
}

/// The tokens of a model call, on a piece of no text.
fn counted(usage: &Usage) -> Chunk<'static> {
    Chunk {
        meta: Some(json!({"usage": {
            "inputTokens": usage.input,
            "outputTokens": usage.output,
            "totalTokens": usage.total,
            "thoughtTokens": usage.thoughts,
            "cachedReadTokens": usage.cached,
        }})),
        ..Chunk::new("")
    }
}

/// Kinds that every client knows.
pub(crate) fn kind_of(tool_name: &str) -> &'static str {
    match tool_name {
        "read_file" | "list_directory" => "read",
        "glob" | "grep_search" => "search",
        "edit" | "write_file" => "edit",
        "run_shell_command" => "execute",
        "todo_write" => "think",
        _ => "other",
    }
}

/// A line that says what a call does.
pub(crate) fn title_of(call: &Call) -> String {
    let args: Value = serde_json::from_str(call.args.get()).unwrap_or_default();
    let arg = |name: &str| args.get(name).and_then(Value::as_str);
    let what = ["command", "file_path", "path", "pattern"]
        .into_iter()
        .find_map(arg);
    match what {
        Some(what) => format!("{}: {}", call.name, what.lines().next().unwrap_or_default()),
        None => call.name.clone(),
    }
}

/// The files that a call names, absolute.
fn locations_of(call: &Call, root: &Path) -> Vec<Location> {
    let args: Value = serde_json::from_str(call.args.get()).unwrap_or_default();
    let path = ["file_path", "path"]
        .into_iter()
        .find_map(|name| args.get(name).and_then(Value::as_str));
    path.into_iter()
        .map(|path| Location {
            path: root.join(path).to_string_lossy().into_owned(),
        })
        .collect()
}
