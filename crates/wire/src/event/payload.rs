//! What the events of a session say, as far as clients understand it.
//!
//! A payload of a known type that does not fit is an error; an unknown type is kept as it is and changes
//! nothing. Fields that nobody reads here are not looked at.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::recording::RecordingState;

/// The data of a frame, by its type.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// `session_update`.
    Update(Update),
    /// `permission_request`.
    PermissionRequest(PermissionRequest),
    /// `permission_resolved`, and `permission_already_resolved` for who came too late.
    PermissionResolved(PermissionResolved),
    /// `pending_prompt_added`.
    PromptQueued(PromptQueued),
    /// `pending_prompt_started`.
    PromptStarted(PromptNamed),
    /// `pending_prompt_completed`.
    PromptDone(PromptNamed),
    /// `turn_complete`.
    TurnComplete(TurnComplete),
    /// `turn_error`.
    TurnError(TurnError),
    /// `model_switched`.
    ModelSwitched(ModelSwitched),
    /// `approval_mode_changed`.
    ApprovalModeChanged(ApprovalModeChanged),
    /// `session_metadata_updated`.
    MetadataUpdated(MetadataUpdated),
    /// `session_recording_degraded` (R16).
    RecordingDegraded(RecordingDegraded),
    /// `session_snapshot` (R18).
    Snapshot(Snapshot),
    /// `session_closed` or `session_died`.
    Ended(Ended),
    /// `state_resync_required`.
    ResyncRequired(ResyncRequired),
    /// A type that is not known, or that changes nothing of what a client shows.
    Other,
}

/// A step of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// Text of the person, the agent, or its thoughts.
    Text(TextChunk),
    /// A tool call begins, or one that is known is told anew.
    ToolCall(ToolCallFields),
    /// What changed of a tool call; what is absent stays.
    ToolCallUpdate(ToolCallFields),
    /// The whole plan.
    Plan(Vec<PlanEntry>),
    /// The whole list of slash commands.
    Commands(Vec<Command>),
    /// The approval mode.
    Mode(String),
    /// The title.
    Title(String),
    /// Of a kind that is not known.
    Other,
}

/// A piece of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextChunk {
    /// Whose.
    pub role: Role,
    /// May be empty.
    pub text: String,
    /// Tokens of a model call, with its last piece.
    pub usage: Option<Usage>,
}

/// Whose words they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person's.
    User,
    /// The agent's.
    Agent,
    /// The agent's, to itself.
    Thought,
}

/// Tokens of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Of the prompt.
    pub input_tokens: u64,
    /// Of the answer.
    pub output_tokens: u64,
    /// Of both.
    pub total_tokens: u64,
    /// Of the answer, spent on thoughts.
    pub thought_tokens: u64,
    /// Of the prompt, taken from a cache.
    pub cached_read_tokens: u64,
}

/// What is said of a tool call; `null` counts as absent.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallFields {
    /// Names the call.
    pub tool_call_id: String,
    /// For people.
    pub title: Option<String>,
    /// Such as `execute` or `edit`.
    pub kind: Option<String>,
    /// `pending`, `in_progress`, `completed` or `failed`.
    pub status: Option<String>,
    /// Blocks: text, diffs.
    pub content: Option<Vec<Value>>,
    /// Places.
    pub locations: Option<Vec<Value>>,
    /// What it was called with.
    pub raw_input: Option<Value>,
    /// What it gave.
    pub raw_output: Option<Value>,
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    /// What is to be done.
    pub content: String,
    /// `high`, `medium` or `low`.
    #[serde(default)]
    pub priority: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
}

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Without the slash.
    pub name: String,
    /// For people.
    #[serde(default)]
    pub description: String,
}

/// A question about a tool call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRequest {
    /// Names the question.
    pub request_id: String,
    /// The call.
    pub tool_call: ToolCallFields,
    /// What may be chosen.
    pub options: Vec<PermissionOption>,
}

/// A choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionOption {
    /// What a vote names.
    pub option_id: String,
    /// For people.
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    pub kind: String,
}

/// A question is decided.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionResolved {
    /// Names the question.
    pub request_id: String,
}

/// A prompt waits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptQueued {
    /// Of the daemon.
    pub prompt_id: String,
    /// Its text.
    pub text: String,
    /// Ms since 1970.
    pub queued_at: u64,
}

/// A prompt that is named.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptNamed {
    /// Of the daemon.
    pub prompt_id: String,
}

/// A turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnComplete {
    /// Of the daemon.
    pub prompt_id: String,
    /// `end_turn`, `cancelled`, …
    pub stop_reason: String,
}

/// A turn failed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnError {
    /// Of the daemon.
    pub prompt_id: String,
    /// For people.
    pub message: String,
    /// For programs.
    pub code: Option<String>,
}

/// Another model answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelSwitched {
    /// Its name.
    pub model_id: String,
}

/// Another approval mode.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ApprovalModeChanged {
    /// Of now.
    pub next: String,
}

/// Another name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataUpdated {
    /// Of now; absent where something else changed.
    pub display_name: Option<String>,
}

/// The record failed. Reasons that are not known are kept: the record failed all the same (R22).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordingDegraded {
    /// Whose record.
    pub session_id: String,
    /// `write_failed`, or a word of a later version.
    pub reason: String,
}

/// How a session stands. What is absent is not said (R23).
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Absent where it is not said, `null` where there is none.
    #[serde(default, deserialize_with = "present")]
    pub current_model_id: Option<Option<String>>,
    /// As above.
    #[serde(default, deserialize_with = "present")]
    pub current_approval_mode: Option<Option<String>>,
    /// Whether the record failed. `null` is no answer.
    #[serde(default, deserialize_with = "never_null")]
    pub recording_degraded: Option<bool>,
    /// The level; a word that is not known counts as absent.
    #[serde(default, deserialize_with = "known_word")]
    pub recording_state: Option<RecordingState>,
}

/// The session is over.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Ended {
    /// Whether it died, instead of being closed.
    #[serde(skip)]
    pub died: bool,
    /// Why.
    pub reason: String,
}

/// Something is missing here.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ResyncRequired {
    /// Why.
    pub reason: String,
}

/// Tells `null` from absence.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

fn never_null<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

fn known_word<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<RecordingState>, D::Error> {
    let word = String::deserialize(deserializer)?;
    Ok(RecordingState::deserialize(&Value::String(word)).ok())
}
