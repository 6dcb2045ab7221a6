//! Why a request was not served.

use jsonrpc::{RequestError, RpcError};
use wire::recording::FaultClass;

/// Why a request was not served. None of it holds a path (R28).
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No live, and for `load` no stored, session has this id.
    #[error("no session with the id {0:?}")]
    SessionNotFound(String),
    /// It is being closed.
    #[error("the session is being closed")]
    SessionClosing,
    /// The id is live, pending or stored.
    #[error("the id is taken")]
    SessionIdConflict {
        /// `live`, `pending` or `stored`.
        conflict: &'static str,
    },
    /// The agent gave the session another id.
    #[error("the agent did not honour the id")]
    SessionIdNotHonored,
    /// A client id that is not registered here.
    #[error("the client id is not registered on this session")]
    UnknownClient,
    /// There are too many sessions.
    #[error("more than {limit} sessions")]
    SessionLimit {
        /// The limit.
        limit: usize,
    },
    /// Too many prompts run and wait.
    #[error("{n_pending} prompts are pending, of at most {limit}")]
    PromptQueueFull {
        /// The limit.
        limit: usize,
        /// Running and waiting.
        n_pending: usize,
    },
    /// No turn of that prompt is known.
    #[error("no such prompt")]
    PromptNotFound,
    /// The option was not offered.
    #[error("the option was not offered")]
    InvalidOption {
        /// The option.
        option_id: String,
    },
    /// The request is unknown, or was decided before.
    #[error("no such permission request is open")]
    RequestNotFound {
        /// The session, where it is known.
        session_id: Option<String>,
    },
    /// The policy refuses the voter.
    #[error("the permission policy refuses this voter")]
    PermissionForbidden {
        /// `designated_mismatch` or `remote_not_allowed`.
        reason: &'static str,
    },
    /// There are too many streams of this session.
    #[error("more than {limit} streams")]
    TooManyStreams {
        /// The limit.
        limit: usize,
    },
    /// The other restore of this session is not done.
    #[error("another restore of this session is in progress")]
    RestoreInProgress {
        /// `load` or `resume`.
        active: &'static str,
        /// `load` or `resume`.
        requested: &'static str,
    },
    /// The child did not start in time.
    #[error("the agent did not start in time")]
    InitTimeout {
        /// How long it had, in ms.
        timeout_ms: u64,
        /// `initialize` or `session_new`.
        phase: &'static str,
    },
    /// The restore was not done in time.
    #[error("the session was not restored in time")]
    RestoreTimeout {
        /// How long it had, in ms.
        timeout_ms: u64,
    },
    /// The record is not on disk, and the session stays open (R21).
    #[error("the record of the session is not on disk")]
    FlushFailed {
        /// The cause, where the child told it.
        class: Option<FaultClass>,
    },
    /// The agent answered with an error.
    #[error("the agent refused: {0}")]
    Agent(RpcError),
    /// The agent could not be started, or ended.
    #[error("the agent is not running")]
    AgentGone,
    /// The agent did not answer in time.
    #[error("the agent did not answer in time")]
    AgentTimeout,
    /// The daemon is stopping.
    #[error("the daemon is stopping")]
    Draining,
}

impl From<RequestError> for Error {
    /// What is wrong with the request itself is the agent's answer to nobody, so that it says as much.
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Remote(error) => Self::Agent(error),
            RequestError::Closed(_) => Self::AgentGone,
            RequestError::TimedOut => Self::AgentTimeout,
            RequestError::TooLarge { .. }
            | RequestError::AnswerTooLarge { .. }
            | RequestError::Malformed
            | RequestError::TooMany { .. }
            | RequestError::Encode(_) => Self::Agent(RpcError::internal(&error.to_string())),
        }
    }
}
