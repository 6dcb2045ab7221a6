//! The lists of sessions: what is live, from the bridge, and what is stored, from its files.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{Query, State},
    http::{HeaderValue, header::CACHE_CONTROL},
    response::IntoResponse,
};
use serde_json::{Map, Value, json};
use transcript::store::{self, Row};
use wire::{
    http::SessionRow,
    limits::{DAEMON_LIST_ROWS_DEFAULT, DAEMON_LIST_ROWS_MAX, DAEMON_LIST_ROWS_ORGANIZED_MAX},
};

use super::{Answer, Fields, Id, Named, Shared, good};
use crate::{app::App, error::ApiError};

/// What a list is asked for.
struct Wish {
    size: usize,
    /// Where a page begins: the time of the last row before it, in ms, and how many of that time there were.
    cursor: Option<(u64, usize)>,
    archived: bool,
    organized: bool,
    pinned_only: bool,
}

impl Wish {
    fn of(query: &HashMap<String, String>) -> Result<Self, ApiError> {
        let archived = match query.get("archiveState").map(String::as_str) {
            None | Some("active") => false,
            Some("archived") => true,
            Some(_) => {
                return Err(ApiError::invalid(
                    "invalid_archive_state",
                    "`archiveState` is \"active\" or \"archived\"",
                ));
            }
        };
        let organized = match query.get("view").map(String::as_str) {
            None => false,
            Some("organized") => true,
            Some(_) => {
                return Err(ApiError::invalid(
                    "invalid_session_view",
                    "`view` is \"organized\"",
                ));
            }
        };
        let group = query.get("group").map(String::as_str);
        if group.is_some() && !organized {
            return Err(ApiError::invalid(
                "invalid_session_group_filter",
                "`group` needs `view=organized`",
            ));
        }
        if let Some(group) = group.filter(|group| !matches!(*group, "all" | "pinned" | "ungrouped"))
        {
            return Err(
                ApiError::new(axum::http::StatusCode::NOT_FOUND, "there is no such group")
                    .code("group_not_found")
                    .with("group", group),
            );
        }
        let cursor = match query.get("cursor") {
            None => None,
            Some(text) => Some(cursor_of(text).ok_or_else(|| {
                ApiError::invalid("invalid_cursor", "`cursor` is what the page before gave")
            })?),
        };
        let max = if organized {
            DAEMON_LIST_ROWS_ORGANIZED_MAX
        } else {
            DAEMON_LIST_ROWS_MAX
        };
        let size = query.get("size").and_then(|size| size.parse().ok());
        Ok(Self {
            size: size.unwrap_or(DAEMON_LIST_ROWS_DEFAULT).clamp(1, max),
            cursor,
            archived,
            organized,
            pinned_only: group == Some("pinned"),
        })
    }
}

fn cursor_of(text: &str) -> Option<(u64, usize)> {
    let (time, n) = text.split_once('.')?;
    Some((time.parse().ok()?, n.parse().ok()?))
}

/// `GET /workspace/{id}/sessions`, and its twin below `/workspaces`.
pub(crate) async fn sessions(
    State(app): Shared,
    Named(workspace): Id,
    Query(query): Fields,
) -> Answer {
    check_workspace(&app, &workspace)?;
    let wish = Wish::of(&query)?;
    let live = if wish.archived {
        Vec::new()
    } else {
        app.bridge.sessions()
    };
    if wish.pinned_only {
        return good(json!({"sessions": []}));
    }
    let (rows, next) = stored(&app, &wish).await;
    let mut live: HashMap<String, SessionRow> = live
        .into_iter()
        .map(|row| (row.session_id.clone(), row))
        .collect();
    let mut listed: Vec<(u64, Value)> = Vec::new();
    for row in rows {
        let of_live = live.remove(&row.session_id);
        listed.push((row.mtime, merged(&app, &wish, row, of_live)));
    }
    if wish.cursor.is_none() {
        // What is live and has no file yet, or an old one, is on the first page.
        listed.extend(live.into_values().map(|row| {
            let at = row.updated_at.as_deref().or(Some(&row.created_at));
            let at_ms = at.and_then(millis).unwrap_or(0);
            (at_ms, of_live(&wish, &row))
        }));
    }
    listed.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let sessions: Vec<Value> = listed.into_iter().map(|(_, row)| row).collect();
    let mut answer = json!({"sessions": sessions});
    if let Some(next) = next {
        answer["nextCursor"] = json!(next);
    }
    good(answer)
}

/// A page of stored sessions, and where the next one begins.
async fn stored(app: &Arc<App>, wish: &Wish) -> (Vec<Row>, Option<String>) {
    let Some(project) = app.options.project.clone() else {
        return (Vec::new(), None);
    };
    let cwd = app.options.workspace.to_string_lossy().into_owned();
    let (archived, cursor, size) = (wish.archived, wish.cursor, wish.size);
    let listing = tokio::task::spawn_blocking(move || {
        // A page behind a cursor is looked for among all rows.
        let limit = cursor.is_none().then_some(size);
        if archived {
            store::list_archived(&project, Some(&cwd), limit)
        } else {
            store::list(&project, Some(&cwd), limit)
        }
    });
    let Ok(listing) = listing.await else {
        return (Vec::new(), None);
    };
    let mut rows = listing.rows;
    let mut has_more = listing.n_more > 0;
    if let Some((at, n)) = cursor {
        rows.retain(|row| row.mtime <= at);
        let n_same = rows.iter().take_while(|row| row.mtime == at).count();
        rows.drain(..n.min(n_same));
        has_more = rows.len() > size;
        rows.truncate(size);
    }
    let next = rows.last().filter(|_| has_more).map(|last| {
        let n_before = cursor
            .filter(|(at, _)| *at == last.mtime)
            .map_or(0, |(_, n)| n);
        let n_same = rows
            .iter()
            .rev()
            .take_while(|row| row.mtime == last.mtime)
            .count();
        format!("{}.{}", last.mtime, n_before + n_same)
    });
    (rows, next)
}

/// A stored row, with what is known of it where it is live.
fn merged(app: &App, wish: &Wish, row: Row, live: Option<SessionRow>) -> Value {
    let updated = iso(row.mtime);
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    put("sessionId", json!(row.session_id));
    put(
        "workspaceCwd",
        json!(app.options.workspace.to_string_lossy()),
    );
    put(
        "createdAt",
        json!(row.start_time.as_ref().or(updated.as_ref())),
    );
    if let Some(updated) = &updated {
        put("updatedAt", json!(updated));
    }
    if let Some(name) = row.title.as_ref().or(row.prompt.as_ref()) {
        put("displayName", json!(name));
    }
    if let Some(source) = row.title_source {
        put("titleSource", json!(source));
    }
    put("clientCount", json!(0));
    put("hasActivePrompt", json!(false));
    put("isArchived", json!(wish.archived));
    if wish.organized {
        put("groupId", Value::Null);
        put("color", Value::Null);
        put("isPinned", json!(false));
    }
    if let Some(Value::Object(of_live)) = live.map(|row| json!(row)) {
        for (name, value) in of_live {
            // The record knows better when a session began, and what its first words were.
            let is_known = matches!(name.as_str(), "createdAt" | "updatedAt" | "workspaceCwd")
                || name == "displayName" && row.title.is_some();
            if !is_known {
                fields.insert(name, value);
            }
        }
    }
    Value::Object(fields)
}

fn of_live(wish: &Wish, row: &SessionRow) -> Value {
    let mut value = json!(row);
    value["isArchived"] = json!(false);
    if wish.organized {
        value["groupId"] = Value::Null;
        value["color"] = Value::Null;
        value["isPinned"] = json!(false);
    }
    value
}

/// `GET /workspaces/{id}/sessions/live-state`.
pub(crate) async fn live_state(State(app): Shared, Named(workspace): Id) -> Answer {
    check_workspace(&app, &workspace)?;
    let mut answer = axum::Json(app.bridge.live_state()).into_response();
    answer
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

/// `GET /workspaces/{id}/session-info`.
pub(crate) async fn info(State(app): Shared, Named(workspace): Id) -> Answer {
    check_workspace(&app, &workspace)?;
    let counts = match app.options.project.clone() {
        None => Ok((0, 0)),
        Some(project) => {
            tokio::task::spawn_blocking(move || {
                (
                    store::sessions(&project.chats_dir()).len(),
                    store::sessions(&project.archive_dir()).len(),
                )
            })
            .await
        }
    };
    let (active, archived) = counts.unwrap_or_default();
    good(json!({
        "active": active,
        "archived": archived,
        "total": active + archived,
        "live": app.bridge.sessions().len(),
        "expensive": true,
        "cost": "disk_scan",
    }))
}

pub(crate) fn check_workspace(app: &App, text: &str) -> Result<(), ApiError> {
    if app.is_workspace(text) {
        return Ok(());
    }
    Err(ApiError::bad(
        "this workspace is not served here: name it by its id or its folder (see /capabilities)",
    ))
}

fn iso(ms: u64) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
    Some(format!("{time:.3}"))
}

fn millis(text: &str) -> Option<u64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}
