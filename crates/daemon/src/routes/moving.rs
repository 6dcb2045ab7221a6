//! Sessions as files: archived, taken out again, deleted, exported.

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    http::{HeaderValue, StatusCode, header},
    response::IntoResponse,
};
use serde_json::{Map, Value, json};
use transcript::{
    export, reader,
    store::{self, DeleteError, MoveError, Moved},
};
use wire::limits::DAEMON_BATCH_SESSIONS_MAX;

use super::{Answer, Fields, Id, Named, Shared, good};
use crate::{app::App, body::Body, error::ApiError};

/// The sessions that a request names.
fn ids_of(body: &Body) -> Result<Vec<String>, ApiError> {
    let ids: Option<Vec<String>> =
        body.get("sessionIds")
            .and_then(Value::as_array)
            .and_then(|ids| {
                let texts = ids.iter().map(|id| id.as_str().filter(|id| !id.is_empty()));
                texts.map(|id| id.map(str::to_owned)).collect()
            });
    ids.filter(|ids| (1..=DAEMON_BATCH_SESSIONS_MAX).contains(&ids.len()))
        .ok_or_else(|| {
            ApiError::invalid(
                "invalid_request",
                format!("`sessionIds` is a list of 1 to {DAEMON_BATCH_SESSIONS_MAX} ids"),
            )
        })
}

/// What became of the sessions of a request.
#[derive(Debug, Default)]
struct Outcomes {
    done: Vec<String>,
    already: Vec<String>,
    not_found: Vec<String>,
    errors: Vec<Map<String, Value>>,
}

impl Outcomes {
    fn fail(&mut self, id: &str, error: ApiError) {
        let mut body = error.with("sessionId", id).into_body();
        body.sort_keys();
        self.errors.push(body);
    }

    fn take(&mut self, id: &str, moved: Result<Moved, MoveError>) {
        match moved {
            Ok(Moved::Done) => self.done.push(id.to_owned()),
            Ok(Moved::Already) => self.already.push(id.to_owned()),
            Err(MoveError::NotFound) => self.not_found.push(id.to_owned()),
            Err(error) => {
                let code = match error {
                    MoveError::Conflict => "session_conflict",
                    MoveError::OpenElsewhere => "session_busy",
                    MoveError::Io(_) | MoveError::NotFound => "session_move_failed",
                };
                let answer = ApiError::new(StatusCode::CONFLICT, error.to_string()).code(code);
                self.fail(id, answer);
            }
        }
    }
}

/// `POST /sessions/archive`: a live session is closed first, and only if its record is on disk (R21).
pub(crate) async fn archive(State(app): Shared, body: Body) -> Answer {
    let mut outcomes = Outcomes::default();
    for id in ids_of(&body)? {
        match app.bridge.close_strict(&id).await {
            // A session that never said anything has no file: it is closed, and nothing of it is archived.
            Ok(_was_live) => {
                let moved = moved(&app, &id, store::archive).await;
                outcomes.take(&id, moved);
            }
            Err(error) => outcomes.fail(&id, ApiError::of(error, Some(&id), None)),
        }
    }
    app.bridge.catalog_changed();
    good(json!({
        "archived": outcomes.done,
        "alreadyArchived": outcomes.already,
        "resolvedConflicts": [],
        "notFound": outcomes.not_found,
        "errors": outcomes.errors,
    }))
}

/// `POST /sessions/unarchive`.
pub(crate) async fn unarchive(State(app): Shared, body: Body) -> Answer {
    let mut outcomes = Outcomes::default();
    for id in ids_of(&body)? {
        let moved = moved(&app, &id, store::unarchive).await;
        outcomes.take(&id, moved);
    }
    app.bridge.catalog_changed();
    good(json!({
        "unarchived": outcomes.done,
        "alreadyActive": outcomes.already,
        "resolvedConflicts": [],
        "notFound": outcomes.not_found,
        "errors": outcomes.errors,
    }))
}

async fn moved(
    app: &Arc<App>,
    id: &str,
    to: fn(&transcript::layout::ProjectDir, &str) -> Result<Moved, MoveError>,
) -> Result<Moved, MoveError> {
    let Some(project) = app.options.project.clone() else {
        return Err(MoveError::NotFound);
    };
    let id = id.to_owned();
    let moved = tokio::task::spawn_blocking(move || to(&project, &id)).await;
    moved.unwrap_or_else(|_| Err(MoveError::Io(std::io::ErrorKind::Other.into())))
}

/// `POST /sessions/delete`: a live session is closed first, as well as it goes.
pub(crate) async fn delete(State(app): Shared, body: Body) -> Answer {
    let mut outcomes = Outcomes::default();
    for id in ids_of(&body)? {
        let closed = app.bridge.close(&bridge::Caller::default(), &id).await;
        let was_live = match closed {
            Ok(_) => true,
            Err(bridge::Error::SessionNotFound(_) | bridge::Error::SessionClosing) => false,
            Err(error) => {
                outcomes.fail(&id, ApiError::of(error, Some(&id), None));
                continue;
            }
        };
        match deleted(&app, &id).await {
            Ok(true) => outcomes.done.push(id),
            Ok(false) if was_live => outcomes.done.push(id),
            Ok(false) => outcomes.not_found.push(id),
            Err(error) => outcomes.fail(&id, error),
        }
    }
    app.bridge.catalog_changed();
    good(json!({
        "removed": outcomes.done,
        "notFound": outcomes.not_found,
        "errors": outcomes.errors,
    }))
}

/// Deletes the files of a session, wherever they are; whether there were any.
async fn deleted(app: &Arc<App>, id: &str) -> Result<bool, ApiError> {
    let (Some(root), Some(project)) = (app.options.data_root.clone(), app.options.project.clone())
    else {
        return Ok(false);
    };
    let id = id.to_owned();
    let done = tokio::task::spawn_blocking(move || {
        let (active, archived) = store::whereabouts(&project, &id);
        let mut was_there = false;
        for found in [active, archived].into_iter().flatten() {
            store::delete(&root, &found)?;
            was_there = true;
        }
        Ok(was_there)
    });
    let refused =
        |text: String| ApiError::new(StatusCode::CONFLICT, text).code("session_delete_failed");
    match done.await {
        Ok(done) => done.map_err(|error: DeleteError| refused(error.to_string())),
        Err(_) => Err(refused("the session was not deleted".to_owned())),
    }
}

/// How a session is exported.
#[derive(Debug, Clone, Copy)]
enum Format {
    Markdown,
    Json,
    Lines,
}

impl Format {
    fn of(query: Option<&str>) -> Result<Self, ApiError> {
        match query {
            None | Some("md") => Ok(Self::Markdown),
            Some("json") => Ok(Self::Json),
            Some("jsonl") => Ok(Self::Lines),
            Some(_) => Err(ApiError::invalid(
                "invalid_request",
                "`format` is \"md\", \"json\" or \"jsonl\"",
            )),
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Json => "application/json; charset=utf-8",
            Self::Lines => "application/jsonl; charset=utf-8",
        }
    }
}

/// `GET /session/{id}/export`: what is saved of a session.
pub(crate) async fn exported(State(app): Shared, Named(id): Id, Query(query): Fields) -> Answer {
    let format = Format::of(query.get("format").map(String::as_str))?;
    let Some(project) = app.options.project.clone() else {
        return Err(ApiError::no_session(&id));
    };
    let name = id.clone();
    let written = tokio::task::spawn_blocking(move || {
        let (active, archived) = store::whereabouts(&project, &name);
        let loaded = reader::load(&active.or(archived)?.path).ok()?;
        let mut text = Vec::new();
        let done = match format {
            Format::Markdown => export::markdown(&loaded, &mut text),
            Format::Json => export::json(&loaded, &mut text),
            Format::Lines => export::lines(&loaded, &mut text),
        };
        done.ok().map(|()| text)
    });
    let text = written.await.ok().flatten();
    let text = text.ok_or_else(|| ApiError::no_session(&id))?;
    let kind = HeaderValue::from_static(format.media_type());
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
