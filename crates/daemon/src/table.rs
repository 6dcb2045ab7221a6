//! The routes: the router and the OpenAPI document are made from this table.

use std::sync::Arc;

use axum::{
    Router,
    routing::{MethodRouter, delete, get, patch, post},
};

use crate::{
    app::App,
    page,
    routes::{listing, moving, opening, reads, session, turns, workspace},
};

/// A route.
#[cfg_attr(
    not(feature = "schema"),
    expect(
        dead_code,
        reason = "what the document says of a route, besides its path and handler"
    )
)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// What it does, in a few words.
    pub(crate) summary: &'static str,
    /// The status of a good answer.
    pub(crate) good: u16,
    /// The name of the good answer's schema; absent where it has no body, or an open one.
    pub(crate) answer: Option<&'static str>,
    /// The body's fields, as `name: type`; `!` marks what must be there.
    pub(crate) body: &'static [(&'static str, &'static str)],
    /// What the query takes.
    pub(crate) query: &'static [&'static str],
    handler: fn() -> MethodRouter<Arc<App>>,
}

const fn route(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    handler: fn() -> MethodRouter<Arc<App>>,
) -> Route {
    Route {
        method,
        path,
        summary,
        good: 200,
        answer: None,
        body: &[],
        query: &[],
        handler,
    }
}

impl Route {
    const fn good(mut self, status: u16) -> Self {
        self.good = status;
        self
    }

    const fn answer(mut self, name: &'static str) -> Self {
        self.answer = Some(name);
        self
    }

    const fn body(mut self, fields: &'static [(&'static str, &'static str)]) -> Self {
        self.body = fields;
        self
    }

    const fn query(mut self, names: &'static [&'static str]) -> Self {
        self.query = names;
        self
    }
}

const RESTORE: &[(&str, &str)] = &[
    ("cwd", "string"),
    ("historyPageSize", "integer"),
    ("compactedReplayMode", "string"),
    ("liveReplayMode", "string"),
];
const LIST: &[&str] = &["size", "cursor", "archiveState", "view", "group"];
const PAGE: &[&str] = &["limit", "cursor", "direction", "beforeRecordId"];
const IDS: &[(&str, &str)] = &[("sessionIds", "array!")];
const VOTE: &[(&str, &str)] = &[("outcome", "object!")];

/// All of them.
pub(crate) const ROUTES: &[Route] = &[
    route("get", "/health", "Whether the daemon lives", || {
        get(workspace::health)
    })
    .query(&["deep"]),
    route("get", "/capabilities", "What the daemon can do", || {
        get(workspace::capabilities)
    }),
    route("get", "/daemon/status", "How the daemon stands", || {
        get(workspace::status)
    }),
    route("get", "/metrics", "Counts in Prometheus' format", || {
        get(workspace::metrics)
    }),
    route("get", "/openapi.json", "This document", || {
        get(workspace::openapi)
    }),
    route(
        "post",
        "/session",
        "Create a session, or attach to the shared one",
        || post(opening::create),
    )
    .answer("Opened")
    .body(&[
        ("cwd", "string"),
        ("sessionScope", "string"),
        ("sessionId", "string"),
        ("approvalMode", "string"),
        ("modelServiceId", "string"),
    ]),
    route(
        "post",
        "/session/{id}/load",
        "Bring a session back, with its history",
        || post(opening::load),
    )
    .answer("Loaded")
    .body(RESTORE),
    route(
        "post",
        "/session/{id}/resume",
        "Bring a session back",
        || post(opening::resume),
    )
    .answer("Loaded")
    .body(RESTORE),
    route("delete", "/session/{id}", "Close a session", || {
        delete(opening::close)
    })
    .good(204),
    route("post", "/session/{id}/detach", "Leave a session", || {
        post(opening::detach)
    })
    .good(204),
    route(
        "get",
        "/session/{id}/events",
        "The events of a session",
        || get(turns::events),
    )
    .query(&["snapshot", "maxQueued", "connectReason", "previousStreamId"]),
    route("post", "/session/{id}/prompt", "Say something", || {
        post(turns::prompt)
    })
    .good(202)
    .answer("Accepted")
    .body(&[
        ("prompt", "array!"),
        ("eventDetailMode", "string"),
        ("deadlineMs", "integer"),
        ("_meta", "object"),
    ]),
    route(
        "post",
        "/session/{id}/cancel",
        "Cancel the running turn",
        || post(turns::cancel),
    )
    .good(204),
    route(
        "get",
        "/session/{id}/pending-prompts",
        "The queue of prompts",
        || get(turns::pending),
    )
    .answer("PendingPrompts"),
    route(
        "delete",
        "/session/{id}/pending-prompts/{prompt}",
        "Take a prompt back",
        || delete(turns::remove),
    ),
    route(
        "get",
        "/session/{id}/turns/{prompt}",
        "A turn; `current` is the last",
        || get(turns::turn),
    )
    .answer("Turn"),
    route(
        "post",
        "/session/{id}/permission/{request}",
        "Vote about a tool call",
        || post(turns::vote),
    )
    .body(VOTE),
    route(
        "post",
        "/permission/{request}",
        "Vote about a tool call of any session",
        || post(turns::vote_anywhere),
    )
    .body(VOTE),
    route(
        "get",
        "/session/{id}/status",
        "How a session stands",
        || get(session::status),
    )
    .answer("SessionRow"),
    route(
        "post",
        "/session/{id}/heartbeat",
        "Say that a client is there",
        || post(session::heartbeat),
    )
    .answer("Heartbeat"),
    route("post", "/session/{id}/model", "Switch the model", || {
        post(session::model)
    })
    .body(&[("modelId", "string!")]),
    route(
        "post",
        "/session/{id}/approval-mode",
        "Set the approval mode",
        || post(session::approval_mode),
    )
    .answer("ModeSet")
    .body(&[("mode", "string!"), ("persist", "boolean")]),
    route("patch", "/session/{id}/metadata", "Name a session", || {
        patch(session::metadata)
    })
    .answer("TitleSet")
    .body(&[("displayName", "string")]),
    route(
        "get",
        "/session/{id}/transcript",
        "A page of what was recorded",
        || get(reads::transcript),
    )
    .query(PAGE),
    route(
        "get",
        "/session/{id}/turn-index",
        "The turns of a session",
        || get(reads::turn_index),
    )
    .query(PAGE),
    route(
        "get",
        "/session/{id}/export",
        "What is saved of a session, to read",
        || get(moving::exported),
    )
    .query(&["format"]),
    route(
        "get",
        "/session/{id}/context",
        "Modes, models and options",
        || get(reads::context),
    ),
    route(
        "get",
        "/session/{id}/context-usage",
        "How full the context is",
        || get(reads::context_usage),
    ),
    route(
        "get",
        "/session/{id}/supported-commands",
        "Slash commands",
        || get(reads::supported_commands),
    ),
    route("get", "/session/{id}/stats", "Counts of a session", || {
        get(reads::stats)
    }),
    route("get", "/session/{id}/tasks", "Background tasks", || {
        get(reads::tasks)
    }),
    route(
        "get",
        "/session/{id}/attachments",
        "Attachments; none",
        || get(workspace::attachments),
    ),
    route("get", "/session/{id}/artifacts", "Artifacts; none", || {
        get(workspace::artifacts)
    }),
    route("get", "/session/{id}/sources", "Sources; none", || {
        get(workspace::sources)
    }),
    route("get", "/session/{id}/goal", "The goal; none", || {
        get(workspace::goal)
    }),
    route(
        "get",
        "/session/{id}/mid-turn-messages",
        "Messages in a turn; none",
        || get(workspace::mid_turn_messages),
    ),
    route(
        "post",
        "/sessions/archive",
        "Archive sessions whose record is saved",
        || post(moving::archive),
    )
    .body(IDS),
    route(
        "post",
        "/sessions/unarchive",
        "Take sessions out of the archive",
        || post(moving::unarchive),
    )
    .body(IDS),
    route("post", "/sessions/delete", "Delete sessions", || {
        post(moving::delete)
    })
    .body(IDS),
    route(
        "get",
        "/workspace/{id}/sessions",
        "The sessions of a workspace",
        || get(listing::sessions),
    )
    .query(LIST),
    route("get", "/workspaces/{id}/sessions", "The same", || {
        get(listing::sessions)
    })
    .query(LIST),
    route(
        "get",
        "/workspaces/{id}/sessions/live-state",
        "The live sessions in short",
        || get(listing::live_state),
    )
    .answer("LiveState"),
    route(
        "get",
        "/workspaces/{id}/session-info",
        "How many sessions there are",
        || get(listing::info),
    ),
    route(
        "get",
        "/workspaces/{id}/session-groups",
        "Groups; none",
        || get(workspace::groups),
    ),
    route(
        "get",
        "/workspaces/{id}/git",
        "The branch; not told",
        || get(workspace::git),
    ),
    route(
        "get",
        "/workspace/{id}",
        "Models, providers, settings, voice; none",
        || get(workspace::small),
    ),
    route(
        "get",
        "/standalone/sessions",
        "Sessions without a workspace; none",
        || get(workspace::standalone),
    ),
    route("get", "/brand", "The brand; none", || get(workspace::brand)),
];

/// The router of the table.
pub(crate) fn router() -> Router<Arc<App>> {
    let routed = ROUTES.iter().fold(Router::new(), |router, route| {
        router.route(route.path, (route.handler)())
    });
    // A known path with another method is as unknown as an unknown path.
    routed
        .method_not_allowed_fallback(page::anything_else)
        .fallback(page::anything_else)
}
