//! Events of a session's stream, as a daemon publishes them and clients fold them.
//!
//! A frame is `{"id":…,"v":1,"type":…,"data":{…},"promptId"?,"originatorClientId"?,"_meta":{"serverTimestamp":…}}`.
//! Frames with an id are of the bus: stored, replayed, the same for everybody. Frames without one are for
//! one stream alone. Shapes: `docs/daemon.md`.

mod payload;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use payload::{
    ApprovalModeChanged, Command, Ended, MetadataUpdated, ModelSwitched, Payload, PermissionOption,
    PermissionRequest, PermissionResolved, PlanEntry, PromptNamed, PromptQueued, RecordingDegraded,
    ResyncRequired, Role, Snapshot, TextChunk, ToolCallFields, TurnComplete, TurnError, Update,
    Usage,
};

/// `v` of every frame. New kinds and fields are additive under it (R20).
pub const EVENT_SCHEMA_VERSION: u32 = 1;

/// What a frame of the bus says, before it has an id.
#[derive(Debug, Clone, Copy)]
pub struct NewEvent<'a> {
    /// The `type`.
    pub kind: &'a str,
    /// The `data`, an object; written as it is.
    pub data: &'a RawValue,
    /// The daemon's id of the prompt it belongs to.
    pub prompt_id: Option<&'a str>,
    /// Whose request caused it.
    pub originator: Option<&'a str>,
    /// When it was published, in ms since 1970.
    pub at_ms: u64,
}

/// A frame as it is read back: what is not understood stays raw.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Frame {
    /// Of the bus, from 1; absent in frames for one stream.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<u64>,
    /// [`EVENT_SCHEMA_VERSION`].
    pub v: u32,
    /// The kind; unknown ones are ignored by clients.
    #[serde(rename = "type")]
    pub kind: String,
    /// What happened.
    pub data: Box<RawValue>,
    /// The prompt it belongs to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prompt_id: Option<String>,
    /// Whose request caused it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub originator_client_id: Option<String>,
    /// When it was published.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none", default)]
    pub meta: Option<Stamp>,
}

/// `_meta` of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Stamp {
    /// Ms since 1970.
    pub server_timestamp: u64,
}
