//! Messages of `--output-format json` and `stream-json`.
//!
//! Serialize-only; the order of the fields is the order on the wire. Absent means absent: no field
//! here is written as `null` but `parent_tool_use_id` and `stop_reason`, as clients expect them.

pub mod command;
pub mod control;
pub mod input;
pub mod stats;

use serde::Serialize;
use serde_json::value::RawValue;

use self::{
    control::{ControlCancelRequest, ControlRequest, ControlResponse},
    input::InvalidReason,
    stats::Stats,
};
use crate::recording::{FaultClass, RecordingReport};

/// One message: a line of `stream-json`, an element of the `json` array.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// What concerns the session, told apart by `subtype`.
    System(System),
    /// One kind of content of a model response.
    Assistant(Assistant),
    /// The result of a tool call; on a second output also a prompt.
    User(User),
    /// A partial message.
    StreamEvent(StreamEvent),
    /// The end of a turn.
    Result(Box<TurnResult>),
    /// A request of ours.
    ControlRequest(ControlRequest),
    /// An answer of ours.
    ControlResponse(ControlResponse),
    /// A request of ours that needs no answer any more.
    ControlCancelRequest(ControlCancelRequest),
}

/// A message of type `system`, told apart by `subtype`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum System {
    /// The start of a turn.
    Init(Box<Init>),
    /// Recording of a session failed: what follows is not saved (R12).
    SessionRecordingDegraded(SystemData<Degraded>),
    /// The first line of a second output.
    SessionStart(SystemData<SessionStart>),
    /// The last line of a second output.
    SessionEnd(SystemData<SessionEnd>),
    /// The process goes on in another session (our addition).
    SessionChanged(SystemData<SessionChanged>),
    /// A line that was sent to us is none of the protocol (our addition).
    InvalidInput(SystemData<InvalidInputData>),
    /// A model call is tried again.
    Retry(SystemData<Retry>),
    /// Something that a person should know (our addition).
    Warning(SystemData<Warning>),
    /// The last line of a second output whose reader was too slow (our addition).
    OutputGivenUp(SystemData<Warning>),
}

/// `system/init`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Init {
    /// Unique id of the message.
    pub uuid: String,
    /// The session.
    pub session_id: String,
    /// The project root.
    pub cwd: String,
    /// Names of the tools offered to the model.
    pub tools: Vec<String>,
    /// MCP servers.
    pub mcp_servers: Vec<McpServer>,
    /// The model's name.
    pub model: String,
    /// The approval mode.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["plan", "default", "auto-edit", "auto", "yolo"])))]
    pub permission_mode: &'static str,
    /// Slash commands that can be sent as prompts.
    pub slash_commands: Vec<&'static str>,
    /// The version of Qwen Code whose format this is.
    pub qwen_code_version: &'static str,
    /// Sub-agents; none yet.
    pub agents: Vec<String>,
    /// The version of onrecord (our addition).
    pub onrecord_version: &'static str,
}

/// An MCP server.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// How it stands.
    pub status: ServerStatus,
}

/// How an MCP server stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ServerStatus {
    /// Its tools can be called.
    Connected,
    /// It has not said yet what it offers.
    Connecting,
    /// It cannot be reached.
    Disconnected,
}

/// A `system` message with a `data` object.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "System{T}"))]
pub struct SystemData<T> {
    /// Unique id of the message.
    pub uuid: String,
    /// The session it is about.
    pub session_id: String,
    /// Always `null`.
    pub parent_tool_use_id: (),
    /// The payload.
    pub data: T,
}

/// Payload of `session_start`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionStart {
    /// The session.
    pub session_id: String,
    /// The project root.
    pub cwd: String,
    /// Always 2.
    #[cfg_attr(feature = "schema", schemars(extend("const" = 2)))]
    pub protocol_version: u32,
    /// The version of Qwen Code whose format this is.
    pub version: &'static str,
    /// Types of messages that may follow.
    pub supported_events: &'static [&'static str],
    /// The version of onrecord (our addition).
    pub onrecord_version: &'static str,
}

/// Payload of `session_end`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionEnd {
    /// The session of now, which need not be that of `session_start`.
    pub session_id: String,
    /// The level of its record as the output ends (our addition).
    pub recording: RecordingReport,
}

/// Payload of `session_changed`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionChanged {
    /// The session that begins.
    pub session_id: String,
    /// The session that ended.
    pub previous_session_id: String,
    /// The level of its record as it was left.
    pub previous_recording: RecordingReport,
}

/// Payload of `invalid_input`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "InvalidInput"))]
pub struct InvalidInputData {
    /// What is wrong.
    pub reason: InvalidReason,
    /// The same for a person, with the mend.
    pub message: String,
    /// The line, counted from 1.
    pub line: u64,
}

/// Payload of `retry`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Retry {
    /// The try that failed, from 1.
    pub attempt: u32,
    /// The wait before the next.
    pub delay_ms: u64,
    /// What went wrong.
    pub message: String,
}

/// Payload of `warning` and `output_given_up`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Warning {
    /// What a person reads.
    pub message: String,
}

/// Payload of `session_recording_degraded` (R12).
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Degraded {
    /// The session of the record that failed, never the current one.
    pub session_id: String,
    /// Always `write_failed`.
    #[cfg_attr(feature = "schema", schemars(extend("const" = "write_failed")))]
    pub reason: &'static str,
    /// One fixed text, `words::DEGRADED_MESSAGE`.
    pub message: &'static str,
    /// The cause (our addition).
    pub class: FaultClass,
    /// The last record on disk; absent where there is none (our addition).
    #[serde(rename = "lastRecordUuid", skip_serializing_if = "Option::is_none")]
    pub last_record_uuid: Option<String>,
}

/// `assistant`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Assistant {
    /// Unique id, the same as `message.id`.
    pub uuid: String,
    /// The session.
    pub session_id: String,
    /// The call of the sub-agent that speaks; `null` for the main one.
    pub parent_tool_use_id: Option<String>,
    /// The message.
    pub message: AssistantMessage,
}

/// The `message` of `assistant`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AssistantMessage {
    /// The same as the outer `uuid`.
    pub id: String,
    /// Always `message`.
    #[cfg_attr(feature = "schema", schemars(extend("const" = "message")))]
    pub r#type: &'static str,
    /// Always `assistant`.
    #[cfg_attr(feature = "schema", schemars(extend("const" = "assistant")))]
    pub role: &'static str,
    /// The model's name.
    pub model: String,
    /// Blocks of one kind.
    pub content: Vec<Block>,
    /// `tool_use` where all blocks are calls, else `null`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["tool_use", null])))]
    pub stop_reason: Option<&'static str>,
    /// Tokens of the response.
    pub usage: Usage,
}

/// A block of what the model said.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Answer text.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning.
    Thinking {
        /// The text.
        thinking: String,
        /// The subject of the thought; may be empty.
        signature: String,
    },
    /// A tool call.
    ToolUse {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments, as the model gave them.
        input: Box<RawValue>,
    },
}

/// A block of what the model was told.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum UserBlock {
    /// What the person said; on a second output only.
    Text {
        /// The text.
        text: String,
    },
    /// A tool's result.
    ToolResult {
        /// The call's id.
        tool_use_id: String,
        /// Whether it failed.
        is_error: bool,
        /// What the model is told.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<String>,
    },
}

/// Tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Tokens of the prompt that were cached; absent where not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_input_tokens: Option<u64>,
    /// Sum as the provider gave it; absent where not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
}

/// `user`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct User {
    /// Unique id of the message.
    pub uuid: String,
    /// The session.
    pub session_id: String,
    /// The call of the sub-agent that speaks; `null` for the main one.
    pub parent_tool_use_id: Option<String>,
    /// The message.
    pub message: UserMessage,
}

/// The `message` of `user`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserMessage {
    /// Always `user`.
    #[cfg_attr(feature = "schema", schemars(extend("const" = "user")))]
    pub role: &'static str,
    /// A tool's result, or what the person said.
    pub content: Vec<UserBlock>,
}

/// `stream_event`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamEvent {
    /// Unique id of the message.
    pub uuid: String,
    /// The session.
    pub session_id: String,
    /// The call of the sub-agent that speaks; `null` for the main one.
    pub parent_tool_use_id: Option<String>,
    /// The event.
    pub event: Partial,
}

/// The `event` of `stream_event`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Partial {
    /// A model response begins.
    MessageStart {
        /// Its head.
        message: PartialMessage,
    },
    /// A block begins.
    ContentBlockStart {
        /// Position among the blocks of its `assistant` message.
        index: usize,
        /// The empty block.
        content_block: Block,
    },
    /// A block grows.
    ContentBlockDelta {
        /// Position of the block.
        index: usize,
        /// What was added.
        delta: Delta,
    },
    /// A block is complete.
    ContentBlockStop {
        /// Position of the block.
        index: usize,
    },
    /// The model response is complete.
    MessageStop,
    /// A running tool says something.
    ToolProgress {
        /// The call's id.
        tool_use_id: String,
        /// The text.
        content: String,
    },
    /// The goal feature's state; sent once, always idle.
    GoalState {
        /// The state.
        goal_state: GoalState,
    },
}

/// The state of the goal feature: there is no goal.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GoalState {
    /// Always 2.
    #[cfg_attr(feature = "schema", schemars(extend("const" = 2)))]
    pub v: u32,
    /// Always `null`.
    pub goal: (),
    /// Always `idle`.
    #[cfg_attr(feature = "schema", schemars(extend("const" = "idle")))]
    pub activity: &'static str,
}

impl GoalState {
    /// The only one.
    pub const IDLE: Self = Self {
        v: 2,
        goal: (),
        activity: "idle",
    };
}

/// The head of a message that begins.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartialMessage {
    /// The id that the first `assistant` message of this response will have.
    pub id: String,
    /// Always `assistant`.
    #[cfg_attr(feature = "schema", schemars(extend("const" = "assistant")))]
    pub role: &'static str,
    /// The model's name.
    pub model: String,
    /// Always empty.
    pub content: [(); 0],
}

/// What was added to a block.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Delta {
    /// Answer text.
    TextDelta {
        /// The text.
        text: String,
    },
    /// Reasoning.
    ThinkingDelta {
        /// The text.
        thinking: String,
    },
    /// The arguments of a call, all at once.
    InputJsonDelta {
        /// The JSON text.
        partial_json: String,
    },
}

/// `result`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnResult {
    /// `success` or `error_during_execution`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["success", "error_during_execution"])))]
    pub subtype: &'static str,
    /// Unique id of the message.
    pub uuid: String,
    /// The session.
    pub session_id: String,
    /// Whether the work failed. Never because of the record (R26).
    pub is_error: bool,
    /// Milliseconds of the turn.
    pub duration_ms: u64,
    /// Milliseconds spent in model calls.
    pub duration_api_ms: u64,
    /// Model round trips.
    pub num_turns: u32,
    /// The answer; absent where the work failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Tokens of the session so far.
    pub usage: Usage,
    /// Calls that a policy or a person refused.
    pub permission_denials: Vec<Denial>,
    /// Totals, in `json` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<Stats>,
    /// What went wrong; absent where nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ResultError>,
    /// The record's level as the result is written (B1).
    pub recording: RecordingReport,
}

/// A refused tool call.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Denial {
    /// The tool's name.
    pub tool_name: String,
    /// The call's id.
    pub tool_use_id: String,
    /// Its arguments.
    pub tool_input: Box<RawValue>,
}

/// The `error` of a result.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResultError {
    /// What a person reads.
    pub message: String,
    /// `recording_required` where the turn was refused because its record is lost (B6); else absent
    /// (our addition).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("const" = "recording_required")))]
    pub kind: Option<&'static str>,
}
