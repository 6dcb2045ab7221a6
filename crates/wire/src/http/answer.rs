//! What the daemon answers.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{event::Frame, recording::RecordingState};

/// Of a session that was created, attached to or brought back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Opened {
    /// The session.
    pub session_id: String,
    /// Its folder.
    pub workspace_cwd: String,
    /// Whether it was there already.
    pub attached: bool,
    /// Who the caller is from now on.
    pub client_id: String,
    /// When it began, as far as the daemon knows.
    pub created_at: String,
    /// Absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub has_running_background_tasks: Option<bool>,
    /// Whether a turn is running; absent for a session that was just created.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub has_active_prompt: Option<bool>,
    /// Ours: whether the record failed (R18); absent for a session that was just created.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recording_degraded: Option<bool>,
    /// Ours: the level of the record (B1); absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recording_state: Option<RecordingState>,
}

/// Of `load` and `resume`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Loaded {
    /// What every opening says.
    #[serde(flatten)]
    pub opened: Opened,
    /// What the agent said of modes, models and options; an object.
    pub state: Box<RawValue>,
    /// Finished turns, folded; of `load` alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub compacted_replay: Option<Vec<Frame>>,
    /// What came since the last turn ended, folded; of `load` alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub live_journal: Option<Vec<Frame>>,
    /// Older history is there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub history_has_more: Option<bool>,
    /// Where the older history ends.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub history_anchor_record_id: Option<String>,
    /// The history is not whole.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub partial: Option<bool>,
    /// Why it is not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replay_error: Option<String>,
    /// The cursor at which a stream goes on from here.
    pub last_event_id: u64,
    /// Of the bus.
    pub event_epoch: String,
}

/// Of a prompt that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// The daemon's id of the prompt; its outcome comes as an event with it.
    pub prompt_id: String,
    /// The head of the bus before this prompt's first event.
    pub last_event_id: u64,
    /// Of the bus.
    pub event_epoch: String,
}

/// A live session, as lists and `status` show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    /// The session.
    pub session_id: String,
    /// Its folder.
    pub workspace_cwd: String,
    /// When it began.
    pub created_at: String,
    /// Its last activity; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub updated_at: Option<String>,
    /// Its title; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub display_name: Option<String>,
    /// `manual` or `auto`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title_source: Option<String>,
    /// Where it was asked for, such as `default`; absent where nobody said it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source_type: Option<String>,
    /// Which one of that kind.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source_id: Option<String>,
    /// Registered clients.
    pub client_count: usize,
    /// Whether a turn is running.
    pub has_active_prompt: bool,
    /// `active`, `idle`, `unknown` or `unsupported`.
    pub active_work_state: String,
    /// Absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub has_running_background_tasks: Option<bool>,
    /// A permission request is open.
    pub is_waiting_for_permission: bool,
    /// A question to the user is open.
    pub is_waiting_for_user_question: bool,
    /// Open requests of both kinds.
    pub pending_interaction_count: usize,
    /// The last turn failed, and no other has begun.
    pub has_turn_error: bool,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn_error: Option<TurnFault>,
    /// The open requests.
    pub pending_interactions: Vec<Interaction>,
    /// Ours: whether the record failed (R18).
    pub recording_degraded: bool,
    /// Ours: the level of the record (B1); absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recording_state: Option<RecordingState>,
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnFault {
    /// For people.
    pub message: String,
    /// For programs; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// Of the agent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error_kind: Option<String>,
}

/// An open request to the people of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Interaction {
    /// What a vote names.
    pub request_id: String,
    /// `permission` or `user_question`.
    pub kind: String,
    /// When it was asked.
    pub created_at: String,
    /// What will be done.
    pub action: InteractionAction,
    /// What may be chosen.
    pub options: Vec<Choice>,
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InteractionAction {
    /// The kind of the tool; `other` where it has none.
    #[serde(rename = "type")]
    pub kind: String,
    /// For people.
    pub title: String,
    /// Content blocks.
    pub content: serde_json::Value,
    /// Places.
    pub locations: serde_json::Value,
    /// The raw input of the call.
    pub input: serde_json::Value,
}

/// One option of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// What a vote names.
    pub option_id: String,
    /// For people.
    pub label: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always`.
    pub kind: String,
}

/// `GET /workspaces/:w/sessions/live-state`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LiveState {
    /// 1.
    pub v: u32,
    /// A list is stale once this differs.
    pub catalog_version: CatalogVersion,
    /// The live sessions.
    pub sessions: Vec<LiveRow>,
}

/// Whether lists of sessions have changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CatalogVersion {
    /// Of this daemon's life.
    pub generation: String,
    /// Raised with every change.
    pub revision: u64,
}

/// A live session, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LiveRow {
    /// The session.
    pub session_id: String,
    /// Registered clients.
    pub client_count: usize,
    /// Whether a turn is running.
    pub has_active_prompt: bool,
    /// As in [`SessionRow`].
    pub active_work_state: String,
    /// As in [`SessionRow`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub has_running_background_tasks: Option<bool>,
    /// As in [`SessionRow`].
    pub is_waiting_for_permission: bool,
    /// As in [`SessionRow`].
    pub is_waiting_for_user_question: bool,
    /// As in [`SessionRow`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub updated_at: Option<String>,
    /// Ours, as in [`SessionRow`].
    pub recording_degraded: bool,
    /// Ours, as in [`SessionRow`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recording_state: Option<RecordingState>,
}

/// `GET /session/:id/pending-prompts`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PendingPrompts {
    /// The running one first.
    pub pending_prompts: Vec<PendingPrompt>,
}

/// A prompt that is running or waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PendingPrompt {
    /// Of the daemon.
    pub prompt_id: String,
    /// Its text blocks.
    pub text: String,
    /// Ms since 1970.
    pub queued_at: u64,
    /// `running` or `queued`.
    pub state: String,
    /// Who sent it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub originator_client_id: Option<String>,
}

/// `GET /session/:id/turns/…`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// The session.
    pub session_id: String,
    /// `queued`, `running`, `completed`, `cancelled` or `error`.
    pub state: String,
    /// Of the daemon.
    pub prompt_id: String,
    /// What was asked.
    pub prompt_text: String,
    /// Ms since 1970.
    pub queued_at: u64,
    /// Ms since 1970.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_at: Option<u64>,
    /// Ms since 1970.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_at: Option<u64>,
    /// Why it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stop_reason: Option<String>,
    /// What was answered, cut.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub result_text: Option<String>,
    /// Who sent it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub originator_client_id: Option<String>,
}

/// Of a changed approval mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModeSet {
    /// The session.
    pub session_id: String,
    /// Of now.
    pub mode: String,
    /// Before.
    pub previous: String,
    /// Whether it is kept for later sessions.
    pub persisted: bool,
}

/// Of a changed title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TitleSet {
    /// The session.
    pub session_id: String,
    /// The title of now; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub display_name: Option<String>,
    /// Ours: whether it is in the record (R27); absent where nothing was changed or it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub persisted: Option<bool>,
}

/// Of a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// The session.
    pub session_id: String,
    /// The caller; absent where it is anonymous.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_id: Option<String>,
    /// Ms since 1970.
    pub last_seen_at: u64,
}

/// What is known of a session's record when it closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// Whether the record had failed.
    pub recording_degraded: bool,
}

/// `GET /health?deep=1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// Registered workspaces.
    pub workspace_count: usize,
    /// Live sessions.
    pub sessions: usize,
    /// Open permission requests.
    pub pending_permissions: usize,
    /// Turns that are running.
    pub active_prompts: usize,
    /// Whether anything is being done.
    pub active_work: bool,
    /// How much of it the agents tell: `full`, `partial`, `none`.
    pub active_work_reporting: String,
    /// Ms since the oldest report.
    pub active_work_stale_ms: u64,
    /// Open event streams.
    pub connected_clients: usize,
    /// Whether an agent is running.
    pub channel_alive: bool,
    /// ISO; `null` before the first.
    pub last_activity_at: Option<String>,
    /// Ms; `null` before the first activity.
    pub idle_since_ms: Option<u64>,
    /// Ours: live sessions whose record failed.
    pub recording_degraded: usize,
    /// Ours: live sessions whose transcript could not be made so far (B1).
    pub recording_never_started: usize,
    /// Ours: prompts refused because the queue was full, since the start.
    pub prompt_queue_full: u64,
    /// Ours: streams that were too slow, since the start.
    pub evictions: u64,
    /// Ours: streams that could not go on where they were, since the start.
    pub resyncs: u64,
}
