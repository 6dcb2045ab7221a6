//! Reads that the agent answers.

use std::time::Duration;

use axum::extract::{Extension, Query, State};
use serde_json::{Map, Value, json};
use wire::limits::{DAEMON_ASK_TRANSCRIPT_WAIT_MAX, DAEMON_ASK_WAIT_MAX, DAEMON_HISTORY_PAGE_MAX};

use super::{Answer, Fields, Id, Named, Shared, Who, good, told};
use crate::{
    app::{App, Asker},
    error::ApiError,
};

/// A read without parameters.
async fn read(app: &App, who: &Asker, id: &str, method: &str) -> Answer {
    told(app.bridge.status(id), id, who)?;
    ask(
        app,
        method,
        json!({"sessionId": id}),
        DAEMON_ASK_WAIT_MAX,
        id,
    )
    .await
}

/// `GET /session/{id}/context`.
pub(crate) async fn context(State(app): Shared, Extension(who): Who, Named(id): Id) -> Answer {
    read(&app, &who, &id, "context").await
}

/// `GET /session/{id}/context-usage`.
pub(crate) async fn context_usage(
    State(app): Shared,
    Extension(who): Who,
    Named(id): Id,
) -> Answer {
    read(&app, &who, &id, "context_usage").await
}

/// `GET /session/{id}/supported-commands`.
pub(crate) async fn supported_commands(
    State(app): Shared,
    Extension(who): Who,
    Named(id): Id,
) -> Answer {
    read(&app, &who, &id, "supported_commands").await
}

/// `GET /session/{id}/stats`.
pub(crate) async fn stats(State(app): Shared, Extension(who): Who, Named(id): Id) -> Answer {
    read(&app, &who, &id, "stats").await
}

/// `GET /session/{id}/tasks`.
pub(crate) async fn tasks(State(app): Shared, Extension(who): Who, Named(id): Id) -> Answer {
    read(&app, &who, &id, "tasks").await
}

/// `GET /session/{id}/turn-index`.
pub(crate) async fn turn_index(State(app): Shared, Named(id): Id, Query(query): Fields) -> Answer {
    paged(&app, "turn_index", &id, &query).await
}

/// `GET /session/{id}/transcript`.
pub(crate) async fn transcript(State(app): Shared, Named(id): Id, Query(query): Fields) -> Answer {
    paged(&app, "transcript", &id, &query).await
}

async fn paged(
    app: &App,
    method: &str,
    id: &str,
    query: &std::collections::HashMap<String, String>,
) -> Answer {
    let mut params = Map::new();
    params.insert("sessionId".to_owned(), json!(id));
    params.insert(
        "cwd".to_owned(),
        json!(app.options.workspace.to_string_lossy()),
    );
    if let Some(limit) = query.get("limit") {
        let limit: Option<u64> = limit.parse().ok();
        let limit = limit
            .filter(|limit| (1..=DAEMON_HISTORY_PAGE_MAX).contains(limit))
            .ok_or_else(|| {
                ApiError::invalid(
                    "invalid_transcript_limit",
                    "`limit` is a whole number from 1 to 500",
                )
                .with("maxLimit", DAEMON_HISTORY_PAGE_MAX)
            })?;
        params.insert("limit".to_owned(), json!(limit));
    }
    for name in ["cursor", "direction", "beforeRecordId"] {
        if let Some(value) = query.get(name) {
            params.insert(name.to_owned(), json!(value));
        }
    }
    ask(
        app,
        method,
        Value::Object(params),
        DAEMON_ASK_TRANSCRIPT_WAIT_MAX,
        id,
    )
    .await
}

async fn ask(app: &App, method: &str, params: Value, wait: Duration, id: &str) -> Answer {
    let method = format!("qwen/status/session/{method}");
    let answer = app.bridge.ask(&method, &params, wait).await;
    good(answer.map_err(|error| of_read(error, id))?)
}

/// An agent says in its own way that there is no such session.
fn of_read(error: bridge::Error, id: &str) -> ApiError {
    if let bridge::Error::Agent(refusal) = &error {
        let is_unknown = refusal.code != -32_601 && refusal.message.contains("not found");
        if refusal.code == -32_002 || is_unknown {
            return ApiError::no_session(id);
        }
        let is_of_cursor = refusal
            .data
            .as_ref()
            .is_some_and(|data| data.get().contains("`cursor`"));
        if is_of_cursor || refusal.message.contains("`cursor`") {
            return ApiError::invalid(
                "invalid_transcript_cursor",
                "`cursor` is what the page before gave",
            );
        }
    }
    ApiError::of(error, Some(id), None)
}
