//! What a session tells its outputs, in order. Every output is a subscriber of the same events.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

use wire::recording::RecordingReport;

use crate::{
    approval::Mode,
    message::{Block, ToolCall, Usage},
    model::ModelError,
    tool::{Display, Todo},
};

/// Somebody who is told of a session's events, in their order.
pub trait Subscriber: Send + Sync + std::fmt::Debug {
    /// Takes an event. What is answered is to be awaited before the next one; `None` where there is
    /// nothing to wait for.
    fn take(&self, event: &Event) -> Option<BoxFuture<'static, ()>>;

    /// Takes an event where there is room, else forgets it; for what is said again later.
    fn offer(&self, event: &Event);
}

/// One step of a session.
#[derive(Debug, Clone)]
pub enum Event {
    /// The session begins; told to outputs that want to know before its first turn.
    SessionStarted(Arc<SessionInfo>),
    /// A turn begins.
    TurnStarted {
        /// What is known of the session.
        info: Arc<SessionInfo>,
        /// What the person said; `None` where an interrupted turn goes on.
        prompt: Option<Arc<str>>,
    },
    /// The process goes on in another session; what was said before is not part of it.
    SessionChanged(Arc<SessionChange>),
    /// A model call begins.
    ModelStarted,
    /// The answer grew.
    Text(String),
    /// The reasoning grew.
    Thought(String),
    /// A model call ended and its response is recorded. Blocks in the order of the response.
    ModelEnded {
        /// The whole response; may be partial where the turn was cancelled.
        blocks: Arc<[Block]>,
        /// Tokens of this call.
        usage: Option<Usage>,
    },
    /// A model call is tried again.
    Retrying {
        /// The try that failed, from 1.
        attempt: u32,
        /// The wait before the next.
        wait: Duration,
        /// What went wrong.
        error: ModelError,
    },
    /// A tool call that may run begins to run.
    ToolStarted(ToolCall),
    /// A running tool says something.
    ToolProgress {
        /// The call's id.
        call_id: String,
        /// The text.
        text: String,
    },
    /// A tool call ended and its result is recorded.
    ToolEnded {
        /// The call.
        call: ToolCall,
        /// What the model is told.
        text: String,
        /// What a person is shown.
        display: Display,
        /// How it ended.
        status: ToolStatus,
        /// How long it ran.
        duration: Duration,
    },
    /// The model's plan is another one: all of it. Comes behind the call that wrote it down.
    PlanChanged(Arc<[Todo]>),
    /// Something a person should read once; one line.
    Warning(String),
    /// A turn ended.
    TurnEnded(Box<TurnSummary>),
    /// Nothing more comes, and the record has come as far as it ever will.
    SessionEnded(RecordingReport),
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolStatus {
    /// It did what it was asked.
    Success,
    /// It failed.
    Error,
    /// A mode, or somebody who was asked, refused it.
    Denied,
    /// The turn was cancelled.
    Cancelled,
}

/// What is known of a session when a turn begins.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// The session.
    pub session_id: String,
    /// The project root.
    pub cwd: String,
    /// Names of the tools on offer.
    pub tools: Vec<String>,
    /// MCP servers that offer some of them.
    pub mcp_servers: Vec<McpServer>,
    /// The model's name.
    pub model: String,
    /// The approval mode.
    pub mode: Mode,
}

/// An MCP server and how it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// Whether its tools can be called.
    pub connected: bool,
}

/// One session after another in the same process.
#[derive(Debug, Clone)]
pub struct SessionChange {
    /// The session that ended.
    pub previous_session_id: String,
    /// The level of its record as it was left.
    pub previous_recording: RecordingReport,
    /// The session that begins.
    pub session_id: String,
}

/// How a turn ended.
#[derive(Debug, Clone)]
pub struct TurnSummary {
    /// How it ended.
    pub outcome: Outcome,
    /// The last answer's text; may be partial or empty.
    pub answer: String,
    /// Wall time of the turn.
    pub duration: Duration,
    /// Wall time of its model calls.
    pub duration_api: Duration,
    /// Model round trips of the turn.
    pub n_round_trips: u32,
    /// Tokens of the session so far.
    pub usage: Usage,
    /// Calls that were refused, of the session so far.
    pub denials: Arc<[ToolCall]>,
    /// Totals of the session so far.
    pub stats: Stats,
    /// The record's level after the settle (R13).
    pub recording: RecordingReport,
}

/// How the work of a turn ended.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The model is done.
    Success,
    /// A model call failed.
    ModelFailed(ModelError),
    /// `--max-session-turns` was reached.
    TurnLimit(u32),
    /// `--max-tool-calls` was reached.
    ToolCallLimit(u32),
    /// `--max-wall-time` was reached.
    WallTimeLimit(Duration),
    /// The person, or a signal, ended it.
    Cancelled,
    /// Recording is required and the first record could not be saved; the model was not called (B6).
    RecordingRequired,
}

/// Totals for `stats`.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Model calls.
    pub n_requests: u64,
    /// Of these, failed.
    pub n_request_errors: u64,
    /// Per tool: name, calls, successes, failures, milliseconds.
    pub tools: Vec<ToolStats>,
    /// Tokens that the last model call took in and gave out: what the context holds.
    pub context_tokens: u64,
    /// Lines added by edits.
    pub n_lines_added: u64,
    /// Lines removed by edits.
    pub n_lines_removed: u64,
}

/// Totals of one tool.
#[derive(Debug, Clone)]
pub struct ToolStats {
    /// The tool's name.
    pub name: String,
    /// Calls.
    pub n_calls: u64,
    /// Calls that did what they were asked.
    pub n_success: u64,
    /// Milliseconds of all calls.
    pub duration_ms: u64,
}
