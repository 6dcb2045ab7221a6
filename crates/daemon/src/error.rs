//! What every error looks like: a status, `{"error", "code"?, …}`, sometimes `Retry-After`. No body holds a
//! path of ours (R28).

use axum::{
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use wire::words;

/// Seconds after which a client may try again what is full now.
const RETRY_SECONDS: u64 = 5;

/// What an agent says of a request that it does not know (JSON-RPC 2.0 §5.1).
const METHOD_NOT_FOUND: i64 = -32_601;

/// An answer that says why there is none.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    body: Map<String, Value>,
    retry_after: Option<u64>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let mut body = Map::new();
        body.insert("error".to_owned(), Value::String(message.into()));
        Self {
            status,
            body,
            retry_after: None,
        }
    }

    /// 400 without a code.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 400 with a code.
    pub(crate) fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::bad(message).code(code)
    }

    pub(crate) fn code(self, code: &'static str) -> Self {
        self.with("code", code)
    }

    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.body.insert(key.to_owned(), value.into());
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// No session of that id.
    pub(crate) fn no_session(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("No session with id {id:?}"))
            .code("session_not_found")
            .with("sessionId", id)
    }

    /// The body alone, for an answer that lists several.
    pub(crate) fn into_body(self) -> Map<String, Value> {
        self.body
    }

    /// What the bridge could not do for `session`, and `client`, where they are known.
    pub(crate) fn of(error: bridge::Error, session: Option<&str>, client: Option<&str>) -> Self {
        use StatusCode as S;
        use bridge::Error as E;
        let text = error.to_string();
        let of = |status, code| Self::new(status, text.clone()).code(code);
        let mut answer = match error {
            E::SessionNotFound(id) => return Self::no_session(&id),
            E::SessionClosing => of(S::NOT_FOUND, "session_closing"),
            E::SessionIdConflict { conflict } => {
                of(S::CONFLICT, "session_id_conflict").with("conflict", conflict)
            }
            E::SessionIdNotHonored => of(S::INTERNAL_SERVER_ERROR, "session_id_not_honored"),
            E::UnknownClient => {
                let answer = of(S::BAD_REQUEST, "invalid_client_id");
                match client {
                    Some(client) => answer.with("clientId", client),
                    None => answer,
                }
            }
            E::SessionLimit { limit } => of(S::SERVICE_UNAVAILABLE, "session_limit_exceeded")
                .with("limit", limit)
                .with("scope", "workspace")
                .retry_after(RETRY_SECONDS),
            E::PromptQueueFull { limit, n_pending } => {
                of(S::SERVICE_UNAVAILABLE, "prompt_queue_full")
                    .with("limit", limit)
                    .with("pendingCount", n_pending)
                    .retry_after(RETRY_SECONDS)
            }
            E::PromptNotFound => of(S::NOT_FOUND, "prompt_not_found"),
            E::InvalidOption { option_id } => {
                of(S::BAD_REQUEST, "invalid_option_id").with("optionId", option_id)
            }
            E::RequestNotFound { .. } => Self::new(S::NOT_FOUND, text),
            E::PermissionForbidden { reason } => {
                of(S::FORBIDDEN, "permission_forbidden").with("reason", reason)
            }
            E::TooManyStreams { limit } => of(S::TOO_MANY_REQUESTS, "subscriber_limit_exceeded")
                .with("limit", limit)
                .retry_after(RETRY_SECONDS),
            E::RestoreInProgress { active, requested } => of(S::CONFLICT, "restore_in_progress")
                .with("retryable", true)
                .with("activeAction", active)
                .with("requestedAction", requested)
                .retry_after(RETRY_SECONDS),
            E::InitTimeout { timeout_ms, phase } => of(S::GATEWAY_TIMEOUT, "init_timeout")
                .with("errorKind", "init_timeout")
                .with("retryable", true)
                .with("phase", phase)
                .with("timeoutMs", timeout_ms)
                .retry_after(RETRY_SECONDS),
            E::RestoreTimeout { timeout_ms } => of(S::GATEWAY_TIMEOUT, "session_restore_timeout")
                .with("retryable", true)
                .with("timeoutMs", timeout_ms)
                .retry_after(RETRY_SECONDS),
            E::FlushFailed { class } => {
                let mut answer = of(S::CONFLICT, "recording_flush_failed");
                if let Some(class) = class {
                    let text = format!("{text} ({}): {}", class.as_str(), words::remedy(class));
                    answer = answer.with("error", text).with("class", class.as_str());
                }
                answer
            }
            E::Agent(error) => return Self::of_agent(&error),
            E::AgentGone => {
                of(S::SERVICE_UNAVAILABLE, "acp_channel_unavailable").retry_after(RETRY_SECONDS)
            }
            E::AgentTimeout => of(S::GATEWAY_TIMEOUT, "agent_timeout").retry_after(RETRY_SECONDS),
            E::Draining => of(S::SERVICE_UNAVAILABLE, "daemon_draining"),
        };
        if let Some(session) = session {
            answer = answer.with("sessionId", session);
        }
        answer
    }

    /// What an agent says of a failure, as JSON-RPC has it, unless it names a place on this machine.
    fn of_agent(error: &bridge::RpcError) -> Self {
        let status = if error.code == METHOD_NOT_FOUND {
            StatusCode::NOT_IMPLEMENTED
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        let answer = Self::new(status, error.message.clone());
        let mut answer = if names_a_place(&error.message) {
            answer.with("error", "Internal error")
        } else {
            answer
        };
        answer = answer.with("code", error.code);
        let data = error.data.as_deref().map(serde_json::value::RawValue::get);
        match data {
            Some(data) if names_a_place(data) => answer.with(
                "data",
                json!({"details": "the agent failed; its log names the cause"}),
            ),
            Some(data) => answer.with(
                "data",
                serde_json::from_str::<Value>(data).unwrap_or_default(),
            ),
            None => answer,
        }
    }
}

/// Whether a text holds what looks like an absolute path.
fn names_a_place(text: &str) -> bool {
    let bytes = text.as_bytes();
    let begins = |at: usize| {
        at == 0
            || matches!(
                bytes[at - 1],
                b' ' | b'"' | b'\'' | b'`' | b'(' | b':' | b'='
            )
    };
    bytes.iter().enumerate().any(|(at, &byte)| {
        byte == b'/'
            && begins(at)
            && bytes[at + 1..]
                .iter()
                .take_while(|byte| !byte.is_ascii_whitespace() && !b"\"'`".contains(byte))
                .any(|&byte| byte == b'/')
    })
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(Value::Object(self.body))).into_response();
        if let Some(seconds) = self.retry_after {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::names_a_place;

    #[test]
    fn a_text_with_a_path_is_known() {
        for text in [
            "EPERM: operation not permitted, open '/home/me/.x/chats/a.jsonl'",
            "/var/lib",
            r#"{"details":"/a/b"}"#,
            "no such file: /tmp/x/y",
        ] {
            assert!(names_a_place(text), "{text}");
        }
        for text in [
            "and/or",
            "application/json",
            "Model 'a/b' not found",
            "/ is one",
        ] {
            assert!(!names_a_place(text), "{text}");
        }
    }
}
