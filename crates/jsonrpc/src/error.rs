//! Errors: those that travel, and those of this side.

use std::io;

use serde::Serialize;
use serde_json::{json, value::RawValue};

/// The line was no JSON.
pub const PARSE_ERROR: i64 = -32_700;
/// The line was JSON and no request.
pub const INVALID_REQUEST: i64 = -32_600;
/// Nobody here knows the method.
pub const METHOD_NOT_FOUND: i64 = -32_601;
/// The method does not take these params.
pub const INVALID_PARAMS: i64 = -32_602;
/// The method failed.
pub const INTERNAL_ERROR: i64 = -32_603;

/// The `error` of an answer, sent or received.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// What happened, for programs.
    pub code: i64,
    /// What happened, for people. What is sent of it is cut to
    /// [`wire::limits::JSONRPC_ERROR_MESSAGE_BYTES_MAX`].
    pub message: String,
    /// More of it, as it came or goes; absent where there is none, and where it was null.
    pub data: Option<Box<RawValue>>,
}

impl RpcError {
    /// An error without data.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The same error with data. Data that JSON cannot hold is left out: an error about an error
    /// helps nobody.
    #[must_use]
    pub fn with_data(mut self, data: &(impl Serialize + ?Sized)) -> Self {
        self.data = serde_json::value::to_raw_value(data).ok();
        self
    }

    /// -32601, in the words and with the data of the ACP SDKs.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("\"Method not found\": {method}"))
            .with_data(&json!({ "method": method }))
    }

    /// -32602 with the reason in `data.details`.
    #[must_use]
    pub fn invalid_params(details: &str) -> Self {
        Self::new(INVALID_PARAMS, "Invalid params").with_details(details)
    }

    /// -32603 with the reason in `data.details`.
    #[must_use]
    pub fn internal(details: &str) -> Self {
        Self::new(INTERNAL_ERROR, "Internal error").with_details(details)
    }

    pub(crate) fn parse_error() -> Self {
        Self::new(PARSE_ERROR, "Parse error")
    }

    pub(crate) fn invalid_request(details: &str) -> Self {
        Self::new(INVALID_REQUEST, "Invalid Request").with_details(details)
    }

    fn with_details(self, details: &str) -> Self {
        self.with_data(&json!({ "details": details }))
    }
}

/// Why a connection carries nothing more. Of several causes the first stands. Kinds only: texts of
/// the system stay out of what may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// The other side ended its output.
    #[error("the other side ended its output")]
    EndOfInput,
    /// Reading failed.
    #[error("reading failed: {0}")]
    ReadFailed(io::ErrorKind),
    /// Writing failed; for a pipe whose reader is gone, with [`io::ErrorKind::BrokenPipe`].
    #[error("writing failed: {0}")]
    WriteFailed(io::ErrorKind),
    /// It was closed on this side, or its [`Connection`](crate::Connection) or runtime was dropped.
    #[error("closed on this side")]
    Here,
}

/// Why a notification or an answer will not be written.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The connection carries nothing more.
    #[error("the connection is closed: {0}")]
    Closed(Closed),
    /// The frame is longer than a line, or than a notice, may be.
    #[error("the frame is larger than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// Too many notices are not yet written.
    #[error("more than {notices_max} notices wait to be written")]
    TooMany {
        /// The limit.
        notices_max: usize,
    },
    /// The value cannot be said in JSON.
    #[error("failed to encode")]
    Encode(#[source] serde_json::Error),
}

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The other side answered with an error.
    #[error(transparent)]
    Remote(RpcError),
    /// The connection ended first. Whether the other side did what was asked is not known.
    #[error("the connection is closed: {0}")]
    Closed(Closed),
    /// The caller's time limit passed. A late answer is dropped.
    #[error("no answer in time")]
    TimedOut,
    /// The request is longer than a line may be and was not sent.
    #[error("the request is larger than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// The answer is longer than a line may be; the other side did what was asked.
    #[error("the answer is larger than {bytes_max} bytes")]
    AnswerTooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// The answer names this request, and holds neither a result nor an error that can be read.
    #[error("the answer is malformed")]
    Malformed,
    /// Too many requests have no answer yet; this one was not sent.
    #[error("more than {requests_max} requests have no answer")]
    TooMany {
        /// The limit.
        requests_max: usize,
    },
    /// The params cannot be said in JSON; the request was not sent.
    #[error("failed to encode")]
    Encode(#[source] serde_json::Error),
}
