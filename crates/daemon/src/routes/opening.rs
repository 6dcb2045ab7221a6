//! Sessions that begin, come back, and end.

use axum::{
    extract::{Extension, State},
    http::StatusCode,
    response::IntoResponse,
};
use bridge::Source;
use transcript::store;
use uuid::Uuid;
use wire::{
    http::{NewSession, Restore, Scope},
    limits::{DAEMON_HISTORY_PAGE_MAX, SESSION_NAME_CHARS_MAX},
};

use super::{Answer, Id, Named, Shared, Who, good, told};
use crate::{app::App, body::Body, error::ApiError};

/// The approval modes that there are.
pub(crate) const MODES: [&str; 5] = ["plan", "default", "auto-edit", "auto", "yolo"];

/// `POST /session`.
pub(crate) async fn create(State(app): Shared, Extension(who): Who, body: Body) -> Answer {
    check_cwd(&app, &body)?;
    let scope = match body.get("sessionScope").map(|scope| scope.as_str()) {
        None | Some(Some("single")) => Scope::Single,
        Some(Some("thread")) => Scope::Thread,
        Some(_) => {
            return Err(ApiError::invalid(
                "invalid_session_scope",
                "`sessionScope` is \"single\" or \"thread\"",
            ));
        }
    };
    let session_id = match body.get("sessionId") {
        None => None,
        Some(id) => Some(id.as_str().and_then(own_id).ok_or_else(|| {
            ApiError::invalid("invalid_session_id", "`sessionId` is an RFC 4122 UUID")
        })?),
    };
    let approval_mode = match body.get("approvalMode") {
        None => None,
        Some(mode) => Some(mode_of(mode.as_str())?),
    };
    if let (Some(id), Some(project)) = (&session_id, &app.options.project) {
        let (project, id) = (project.clone(), id.clone());
        let is_stored = tokio::task::spawn_blocking(move || store::exists(&project, &id)).await;
        if is_stored.unwrap_or(false)
            && app
                .bridge
                .status(session_id.as_deref().unwrap_or_default())
                .is_err()
        {
            let error = bridge::Error::SessionIdConflict { conflict: "stored" };
            return Err(ApiError::of(error, session_id.as_deref(), None));
        }
    }
    let wanted = session_id.clone();
    let new = NewSession {
        scope: if session_id.is_some() {
            Scope::Thread
        } else {
            scope
        },
        session_id,
        approval_mode,
        model: body.text("modelServiceId").map(str::to_owned),
    };
    let created = app.bridge.create(&who.0, new).await;
    let created = created
        .map_err(|error| ApiError::of(error, wanted.as_deref(), who.0.client_id.as_deref()))?;
    if let Some(source) = source_of(&body) {
        app.bridge.note_source(&created.session_id, source);
    }
    good(created)
}

/// Where a session is asked for, if the request says it.
fn source_of(body: &Body) -> Option<Source> {
    let word = |name: &str| {
        let word: String = body
            .text(name)?
            .chars()
            .take(SESSION_NAME_CHARS_MAX)
            .collect();
        Some(word).filter(|word| !word.is_empty())
    };
    Some(Source {
        kind: word("sourceType")?,
        id: word("sourceId"),
    })
}

/// A lower-case UUID of version 1 to 5.
fn own_id(text: &str) -> Option<String> {
    let id = Uuid::try_parse(text).ok()?;
    let is_hyphenated = text.len() == 36;
    (is_hyphenated && (1..=5).contains(&id.get_version_num())).then(|| id.to_string())
}

pub(crate) fn mode_of(mode: Option<&str>) -> Result<String, ApiError> {
    mode.filter(|mode| MODES.contains(mode))
        .map(str::to_owned)
        .ok_or_else(|| {
            ApiError::invalid("invalid_approval_mode", "this is no approval mode")
                .with("allowed", MODES.to_vec())
        })
}

/// A `cwd` is our own folder, where it is given.
fn check_cwd(app: &App, body: &Body) -> Result<(), ApiError> {
    let Some(cwd) = body.get("cwd") else {
        return Ok(());
    };
    let Some(cwd) = cwd.as_str().filter(|cwd| cwd.starts_with('/')) else {
        return Err(ApiError::bad("`cwd` must be an absolute path"));
    };
    let own = app.options.workspace.to_string_lossy();
    if cwd.trim_end_matches('/') == own.trim_end_matches('/') {
        return Ok(());
    }
    Err(
        ApiError::invalid("workspace_mismatch", "this daemon serves another folder")
            .with("boundWorkspace", own.into_owned())
            .with("requestedWorkspace", cwd),
    )
}

/// `POST /session/{id}/load`.
pub(crate) async fn load(
    State(app): Shared,
    Extension(who): Who,
    Named(id): Id,
    body: Body,
) -> Answer {
    check_cwd(&app, &body)?;
    for (field, code) in [
        ("compactedReplayMode", "invalid_compacted_replay_mode"),
        ("liveReplayMode", "invalid_live_replay_mode"),
    ] {
        if let Some(mode) = body.get(field)
            && !matches!(mode.as_str(), Some("full" | "summary"))
        {
            return Err(ApiError::invalid(
                code,
                format!("`{field}` is \"full\" or \"summary\""),
            ));
        }
    }
    let history_page_size = match body.get("historyPageSize") {
        None => None,
        Some(size) => Some(
            size.as_u64()
                .filter(|size| (1..=DAEMON_HISTORY_PAGE_MAX).contains(size))
                .and_then(|size| u32::try_from(size).ok())
                .ok_or_else(|| {
                    ApiError::invalid(
                        "invalid_transcript_limit",
                        "`historyPageSize` is a whole number from 1 to 500",
                    )
                    .with("maxLimit", DAEMON_HISTORY_PAGE_MAX)
                })?,
        ),
    };
    refuse_archived(&app, &id).await?;
    let restore = Restore { history_page_size };
    let loaded = app.bridge.load(&who.0, &id, restore).await;
    good(told(loaded, &id, &who)?)
}

/// `POST /session/{id}/resume`.
pub(crate) async fn resume(
    State(app): Shared,
    Extension(who): Who,
    Named(id): Id,
    body: Body,
) -> Answer {
    check_cwd(&app, &body)?;
    refuse_archived(&app, &id).await?;
    let resumed = app.bridge.resume(&who.0, &id).await;
    good(told(resumed, &id, &who)?)
}

/// What is archived is not brought back as it is.
async fn refuse_archived(app: &App, id: &str) -> Result<(), ApiError> {
    let Some(project) = app.options.project.clone() else {
        return Ok(());
    };
    if app.bridge.status(id).is_ok() {
        return Ok(());
    }
    let name = id.to_owned();
    let found = tokio::task::spawn_blocking(move || store::whereabouts(&project, &name)).await;
    let refused = |code, text: &str| {
        Err(ApiError::new(StatusCode::CONFLICT, text)
            .code(code)
            .with("sessionId", id))
    };
    match found.unwrap_or_default() {
        (None, Some(_)) => refused(
            "session_archived",
            "the session is archived; take it out of the archive first",
        ),
        (Some(_), Some(_)) => refused(
            "session_conflict",
            "the session is there twice, active and archived; delete one of them",
        ),
        (_, None) => Ok(()),
    }
}

/// `POST /session/{id}/detach`.
pub(crate) async fn detach(
    State(app): Shared,
    Extension(who): Who,
    Named(id): Id,
    _: Body,
) -> Answer {
    app.bridge.detach(&who.0, &id).await;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `DELETE /session/{id}`.
pub(crate) async fn close(State(app): Shared, Extension(who): Who, Named(id): Id) -> Answer {
    told(app.bridge.close(&who.0, &id).await, &id, &who)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
