//! What clients ask for, once it is checked.

use serde::Deserialize;
use serde_json::value::RawValue;

/// `POST /session`.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    /// Whether a session that is there may be shared.
    pub scope: Scope,
    /// The id that it must have; implies a session of its own.
    pub session_id: Option<String>,
    /// The approval mode it begins in.
    pub approval_mode: Option<String>,
    /// The model it begins with.
    pub model: Option<String>,
}

/// `sessionScope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The workspace's shared session: begun by the first who asks, attached to by the others.
    #[default]
    Single,
    /// One of its own.
    Thread,
}

/// `POST /session/:id/load` and `/resume`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Restore {
    /// Records of history in the answer at the most, the newest; all where absent.
    pub history_page_size: Option<u32>,
}

/// `POST /session/:id/prompt`.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// ACP content blocks, a non-empty array of objects.
    pub content: Box<RawValue>,
    /// `_meta` of the caller, an object.
    pub meta: Option<Box<RawValue>>,
    /// The caller's own deadline in ms; it can only shorten the server's.
    pub deadline_ms: Option<u64>,
}

/// A vote about a permission request.
#[derive(Debug, Clone)]
pub enum Vote {
    /// This option.
    Selected {
        /// One of those offered.
        option_id: String,
        /// The rest of the body, passed on to the agent (`answers`, …).
        extra: Option<Box<RawValue>>,
    },
    /// None.
    Cancelled,
}
