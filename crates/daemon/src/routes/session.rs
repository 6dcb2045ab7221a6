//! What is changed in a live session, and how it stands.

use axum::extract::{Extension, State};
use serde_json::Value;
use wire::limits::SESSION_NAME_CHARS_MAX;

use super::{Answer, Id, Named, Shared, Who, good, opening::mode_of, told};
use crate::{body::Body, error::ApiError};

/// `GET /session/{id}/status`.
pub(crate) async fn status(State(app): Shared, Extension(who): Who, Named(id): Id) -> Answer {
    good(told(app.bridge.status(&id), &id, &who)?)
}

/// `POST /session/{id}/heartbeat`.
pub(crate) async fn heartbeat(
    State(app): Shared,
    Extension(who): Who,
    Named(id): Id,
    _: Body,
) -> Answer {
    good(told(app.bridge.heartbeat(&who.0, &id), &id, &who)?)
}

/// `POST /session/{id}/model`.
pub(crate) async fn model(
    State(app): Shared,
    Extension(who): Who,
    Named(id): Id,
    body: Body,
) -> Answer {
    let model = body
        .text("modelId")
        .filter(|model| !model.trim().is_empty());
    let model = model.ok_or_else(|| ApiError::bad("`modelId` names a model"))?;
    let set = app.bridge.set_model(&who.0, &id, model).await;
    good(told(set, &id, &who)?)
}

/// `POST /session/{id}/approval-mode`.
pub(crate) async fn approval_mode(
    State(app): Shared,
    Extension(who): Who,
    Named(id): Id,
    body: Body,
) -> Answer {
    let mode = mode_of(body.text("mode"))?;
    if body
        .get("persist")
        .is_some_and(|persist| !persist.is_boolean())
    {
        return Err(ApiError::invalid(
            "invalid_persist_flag",
            "`persist` is true or false",
        ));
    }
    let set = app.bridge.set_approval_mode(&who.0, &id, &mode).await;
    good(told(set, &id, &who)?)
}

/// `PATCH /session/{id}/metadata`.
pub(crate) async fn metadata(
    State(app): Shared,
    Extension(who): Who,
    Named(id): Id,
    body: Body,
) -> Answer {
    let name = match body.get("displayName") {
        None => None,
        Some(name) => Some(name_of(name)?),
    };
    let set = app.bridge.set_title(&who.0, &id, name.as_deref()).await;
    good(told(set, &id, &who)?)
}

/// A name that a person can read, cut to what a list shows.
fn name_of(name: &Value) -> Result<String, ApiError> {
    let is_name = |name: &&str| !name.trim().is_empty() && !name.chars().any(char::is_control);
    let name = name.as_str().filter(is_name).ok_or_else(|| {
        ApiError::invalid(
            "invalid_metadata",
            "`displayName` is a text without control characters, and not empty",
        )
        .with("field", "displayName")
    })?;
    Ok(name.trim().chars().take(SESSION_NAME_CHARS_MAX).collect())
}
