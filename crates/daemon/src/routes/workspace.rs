//! The daemon itself: whether it lives, what it can do, and the small answers that the stock page asks for.

use axum::{
    extract::{Query, State},
    response::IntoResponse,
};
use serde_json::{Value, json};
use wire::limits::BUS_RING_EVENTS_MAX;

use super::{Answer, Fields, Id, Named, Shared, good, listing::check_workspace};
use crate::{app::App, error::ApiError};

/// What clients may rely on: what is really served.
const FEATURES: [&str; 39] = [
    "health",
    "daemon_status",
    "capabilities",
    "session_create",
    "session_id_override",
    "session_scope_override",
    "session_load",
    "session_resume",
    "unstable_session_resume",
    "session_list",
    "session_info",
    "session_source_metadata",
    "session_prompt",
    "session_turn_status",
    "session_cancel",
    "session_events",
    "slow_client_warning",
    "typed_event_schema",
    "session_set_model",
    "client_identity",
    "client_heartbeat",
    "session_permission_vote",
    "permission_vote",
    "permission_mediation",
    "non_blocking_prompt",
    "session_context",
    "session_context_usage",
    "session_supported_commands",
    "session_tasks",
    "session_stats",
    "session_status",
    "session_close",
    "session_archive",
    "session_metadata",
    "session_export",
    "session_transcript",
    "session_turn_navigation",
    "session_approval_mode_control",
    "workspace_session_live_state",
];

/// `GET /health`, with `?deep=1` in numbers.
pub(crate) async fn health(State(app): Shared, Query(query): Fields) -> Answer {
    let is_deep = query
        .get("deep")
        .is_some_and(|deep| matches!(deep.as_str(), "" | "1" | "true"));
    if !is_deep {
        return good(json!({"status": "ok"}));
    }
    let mut health = app.bridge.health();
    health.connected_clients = app.n_streams();
    good(health)
}

/// `GET /capabilities`.
pub(crate) async fn capabilities(State(app): Shared) -> Answer {
    let options = &app.options;
    let mut features: Vec<&str> = FEATURES.to_vec();
    let conditional = [
        ("require_auth", options.require_auth),
        ("allow_origin", !options.allow_origins.is_empty()),
        ("writer_idle_timeout", options.writer_idle_max.is_some()),
        ("rate_limit", options.rate_limit),
    ];
    features.extend(
        conditional
            .iter()
            .filter(|(_, on)| *on)
            .map(|(tag, _)| *tag),
    );
    good(json!({
        "v": 1,
        "protocolVersions": {"current": "v1", "supported": ["v1"]},
        "qwenCodeVersion": wire::QWEN_CODE_VERSION,
        "onrecordVersion": options.version,
        "mode": "http-bridge",
        "features": features,
        "sessionLiveStatePollIntervalMs": 5000,
        "modelServices": [],
        "workspaceCwd": options.workspace.to_string_lossy(),
        "transports": ["rest"],
        "policy": {"permission": options.permission_policy},
        "limits": limits(&app),
        "workspaces": [workspace(&app)],
        "supportedLanguages": ["en"],
    }))
}

fn limits(app: &App) -> Value {
    let options = &app.options;
    json!({
        "maxRegisteredWorkspaces": 1,
        "maxPendingPromptsPerSession": options.prompts_max,
        "sessionRestoreTimeoutMs": u64::try_from(options.restore_wait.as_millis()).unwrap_or(u64::MAX),
        "maxSessionsPerWorkspace": options.sessions_max,
        "maxTotalSessions": options.sessions_max,
    })
}

fn workspace(app: &App) -> Value {
    json!({
        "id": app.workspace_id,
        "cwd": app.options.workspace.to_string_lossy(),
        "primary": true,
        "trusted": true,
        "workflowsEnabled": false,
        "removable": false,
    })
}

/// `GET /daemon/status`.
pub(crate) async fn status(State(app): Shared) -> Answer {
    let options = &app.options;
    let now_ms = (options.now_ms)();
    let health = app.bridge.health();
    let issues: Vec<Value> = [
        ("session_recording_degraded", health.recording_degraded),
        (
            "session_recording_never_started",
            health.recording_never_started,
        ),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(code, count)| json!({"code": code, "severity": "warning", "count": count}))
    .collect();
    let status = if issues.is_empty() { "ok" } else { "warning" };
    good(json!({
        "v": 1,
        "detail": "summary",
        "generatedAt": iso(now_ms),
        "status": status,
        "issues": issues,
        "daemon": {
            "pid": std::process::id(),
            "uptimeMs": now_ms.saturating_sub(app.began_ms),
            "mode": "http-bridge",
            "workspaceCwd": options.workspace.to_string_lossy(),
            "qwenCodeVersion": wire::QWEN_CODE_VERSION,
            "onrecordVersion": options.version,
        },
        "security": {
            "tokenConfigured": options.token.is_some(),
            "requireAuth": options.require_auth,
            "allowOriginConfigured": !options.allow_origins.is_empty(),
        },
        "limits": {
            "maxSessions": options.sessions_max,
            "maxPendingPromptsPerSession": options.prompts_max,
            "eventRingSize": BUS_RING_EVENTS_MAX,
        },
        "sessions": health,
    }))
}

fn iso(ms: u64) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
    Some(format!("{time:.3}"))
}

/// An answer about a live session of which nothing is kept here.
fn empty(app: &App, id: &str, body: Value) -> Answer {
    match app.bridge.status(id) {
        Ok(_) => good(body),
        Err(_) => Err(ApiError::no_session(id)),
    }
}

/// `GET /session/{id}/attachments`.
pub(crate) async fn attachments(State(app): Shared, Named(id): Id) -> Answer {
    empty(&app, &id, json!({"attachments": []}))
}

/// `GET /session/{id}/artifacts`.
pub(crate) async fn artifacts(State(app): Shared, Named(id): Id) -> Answer {
    let now = iso((app.options.now_ms)());
    let body = json!({"v": 1, "sessionId": id, "artifacts": [], "generatedAt": now, "limits": {}});
    empty(&app, &id, body)
}

/// `GET /session/{id}/sources`.
pub(crate) async fn sources(State(app): Shared, Named(id): Id) -> Answer {
    empty(&app, &id, json!({"revision": 0, "sources": []}))
}

/// `GET /session/{id}/goal`.
pub(crate) async fn goal(State(app): Shared, Named(id): Id) -> Answer {
    let body = json!({"snapshot": {"v": 2, "goal": null, "activity": "idle"}});
    empty(&app, &id, body)
}

/// `GET /session/{id}/mid-turn-messages`.
pub(crate) async fn mid_turn_messages(State(app): Shared, Named(id): Id) -> Answer {
    let body = json!({"messages": [], "settledMessageIds": [], "promotedMessageIds": []});
    empty(&app, &id, body)
}

/// `GET /brand`.
pub(crate) async fn brand() -> Answer {
    good(json!({}))
}

/// `GET /standalone/sessions`.
pub(crate) async fn standalone() -> Answer {
    good(json!({"sessions": []}))
}

/// `GET /workspace/{models,providers,settings,voice}`.
pub(crate) async fn small(State(app): Shared, Named(what): Id) -> Answer {
    let cwd = app.options.workspace.to_string_lossy();
    good(match what.as_str() {
        "models" => json!({"models": []}),
        "providers" => json!({"v": 1, "workspaceCwd": cwd, "initialized": true, "providers": []}),
        "settings" => json!({"v": 1, "settings": []}),
        "voice" => json!({"enabled": false}),
        _ => return Err(crate::page::not_found()),
    })
}

/// `GET /workspaces/{id}/session-groups`.
pub(crate) async fn groups(State(app): Shared, Named(workspace): Id) -> Answer {
    check_workspace(&app, &workspace)?;
    good(json!({"groups": [], "colorOptions": []}))
}

/// `GET /workspaces/{id}/git`.
pub(crate) async fn git(State(app): Shared, Named(workspace): Id) -> Answer {
    check_workspace(&app, &workspace)?;
    good(json!({"v": 1, "workspaceCwd": app.options.workspace.to_string_lossy(), "branch": null}))
}

/// `GET /metrics`.
pub(crate) async fn metrics(State(app): Shared) -> Answer {
    if !app.options.metrics {
        return Err(crate::page::not_found());
    }
    let text = app.metrics.render(&app);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(axum::http::header::CONTENT_TYPE, kind)], text).into_response())
}

/// `GET /openapi.json`.
pub(crate) async fn openapi() -> Answer {
    let text = include_str!("../../../../spec/openapi.json");
    let kind = "application/json; charset=utf-8";
    Ok(([(axum::http::header::CONTENT_TYPE, kind)], text).into_response())
}
