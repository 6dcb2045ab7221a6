//! What a daemon says to one stream alone, between the events of its session.
//!
//! These frames have no id, are not replayed, and bear the time at which they were written. Each type is
//! the `data` of the frame whose `type` is its `KIND`.

use serde::{Deserialize, Serialize};

/// The kind of the frame that says how a session stands, for clients that ask for it (R18).
pub const SESSION_SNAPSHOT: &str = "session_snapshot";

/// Something is missing here; the client reads the session anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateResyncRequired {
    /// Why.
    pub reason: ResyncReason,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<ResyncDetail>,
    /// The event before the gap: the last one that this stream gave, or that the client said it had.
    pub last_delivered_id: u64,
    /// The first event that there is behind it, perhaps still to come.
    pub earliest_available_id: u64,
}

/// Why a client has to read the session anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResyncReason {
    /// The client's cursor belongs to another bus.
    EpochReset,
    /// The ring no longer holds what follows.
    RingEvicted,
    /// What follows was before the session was loaded, and never was in the ring.
    SeededReplayNotInRing,
    /// More follows than one stream replays.
    ReplayBudgetExceeded,
}

/// How it is known that a cursor belongs to another bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResyncDetail {
    /// The client named the other bus. Absent where its cursor is one that this bus has not reached.
    EpochMismatch,
}

/// What was before the stream has been said; live events follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayComplete {
    /// Events that were replayed.
    pub replayed_count: u64,
    /// The last of them; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_replayed_event_id: Option<u64>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_event_id: Option<u64>,
}

/// The client reads too slowly and will be given up if that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowClientWarning {
    /// Events that wait.
    pub queue_size: u64,
    /// How many may.
    pub max_queued: u64,
    /// The last event that this stream gave.
    pub last_event_id: u64,
    /// Bytes that wait.
    pub queued_bytes: u64,
    /// How many may.
    pub max_queued_bytes: u64,
    /// What there is much of.
    pub threshold: Threshold,
}

/// What there is much of in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Threshold {
    /// Events.
    Frames,
    /// Bytes.
    Bytes,
    /// Both.
    FramesAndBytes,
}

/// The client read too slowly. The last frame of its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientEvicted {
    /// Why.
    pub reason: EvictionReason,
    /// The last event that this stream gave; the client loses nothing where it comes back behind it.
    pub dropped_after: u64,
    /// Events that waited.
    pub queue_size: u64,
    /// How many might.
    pub max_queued: u64,
    /// Bytes that waited.
    pub queued_bytes: u64,
    /// How many might.
    pub max_queued_bytes: u64,
    /// Bytes of the event that had no room; absent where it was one too many.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event_bytes: Option<u64>,
}

/// What a slow client left too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvictionReason {
    /// Events.
    QueueOverflow,
    /// Bytes.
    QueueBytesOverflow,
}

impl StateResyncRequired {
    /// The `type` of its frame.
    pub const KIND: &str = "state_resync_required";
}

impl ReplayComplete {
    /// The `type` of its frame.
    pub const KIND: &str = "replay_complete";
}

impl SlowClientWarning {
    /// The `type` of its frame.
    pub const KIND: &str = "slow_client_warning";
}

impl ClientEvicted {
    /// The `type` of its frame.
    pub const KIND: &str = "client_evicted";
}
