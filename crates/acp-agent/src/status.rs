//! What a daemon may read of a session and of a workspace, in Qwen Code's shapes.

use std::time::SystemTime;

use agent::{
    replay::{Replayed, Said},
    session::Interruption,
    tool,
};
use jsonrpc::RpcError;
use serde_json::{Map, Value, json};
use wire::limits::{DAEMON_HISTORY_PAGE_DEFAULT, DAEMON_HISTORY_PAGE_MAX};

use crate::{
    live::{COMMANDS, Live, unix_millis},
    protocol::session::{Choices, Named, Page},
    replay::update,
};

/// `qwen/status/session/context`.
pub(crate) fn context(live: &Live, choices: &Choices) -> Value {
    let kind = match live.facts().interruption {
        Interruption::None => "clean",
        Interruption::Prompt => "interrupted_prompt",
        Interruption::Turn => "interrupted_turn",
    };
    json!({
        "v": 1,
        "sessionId": live.id,
        "workspaceCwd": live.cwd,
        "recovery": {"kind": kind, "canContinue": kind != "clean"},
        "state": choices,
    })
}

/// `qwen/status/session/supported_commands`.
pub(crate) fn supported_commands(live: &Live) -> Value {
    let commands: Vec<Value> = COMMANDS
        .iter()
        .map(|(name, description)| json!({"name": name, "description": description, "input": null}))
        .collect();
    json!({
        "v": 1,
        "sessionId": live.id,
        "availableCommands": commands,
        "availableSkills": [],
    })
}

/// `qwen/status/session/stats`.
pub(crate) fn stats(live: &Live) -> Value {
    let facts = live.facts();
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut by_name = Map::new();
    let (mut n_calls, mut n_success, mut duration_ms) = (0, 0, 0);
    for tool in &facts.stats.tools {
        n_calls += tool.n_calls;
        n_success += tool.n_success;
        duration_ms += tool.duration_ms;
        by_name.insert(
            tool.name.clone(),
            json!({
                "count": tool.n_calls,
                "success": tool.n_success,
                "fail": tool.n_calls - tool.n_success,
                "durationMs": tool.duration_ms,
            }),
        );
    }
    let age = live.began.elapsed().unwrap_or_default();
    let mut models = Map::new();
    models.insert(
        live.controls.provider().model().to_owned(),
        json!({
            "api": {
                "totalRequests": facts.stats.n_requests,
                "totalErrors": facts.stats.n_request_errors,
                "totalLatencyMs": millis(facts.duration_api),
            },
            "tokens": {
                "prompt": facts.usage.input,
                "candidates": facts.usage.output,
                "total": facts.usage.total,
                "cached": facts.usage.cached,
                "thoughts": facts.usage.thoughts,
            },
        }),
    );
    json!({
        "v": 1,
        "sessionId": live.id,
        "workspaceCwd": live.cwd,
        "sessionStartTimeMs": unix_millis(live.began),
        "durationMs": millis(age),
        "promptCount": facts.n_prompts,
        "models": models,
        "tools": {
            "totalCalls": n_calls,
            "totalSuccess": n_success,
            "totalFail": n_calls - n_success,
            "totalDurationMs": duration_ms,
            "byName": by_name,
        },
        "files": {
            "totalLinesAdded": facts.stats.n_lines_added,
            "totalLinesRemoved": facts.stats.n_lines_removed,
        },
        "skills": {"totalCalls": 0, "totalSuccess": 0, "totalFail": 0, "byName": {}},
    })
}

/// `qwen/status/session/tasks`: nothing works on between two turns.
pub(crate) fn tasks(live: &Live) -> Value {
    json!({
        "v": 1,
        "sessionId": live.id,
        "now": unix_millis(SystemTime::now()),
        "tasks": [],
    })
}

/// `qwen/status/session/transcript`: a page of what was said, from its beginning, or backward from its end.
///
/// # Errors
/// The page is none that there is.
pub(crate) fn transcript(page: &Page, steps: &[Replayed]) -> Result<Value, RpcError> {
    let limit = match page.limit {
        None => DAEMON_HISTORY_PAGE_DEFAULT,
        Some(limit) if (1..=DAEMON_HISTORY_PAGE_MAX).contains(&limit) => limit,
        Some(_) => return Err(RpcError::invalid_params("`limit` is from 1 to 500")),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let is_backward = page.direction.as_deref() == Some("backward");
    let n_given = match page.cursor.as_deref() {
        None => 0,
        Some(cursor) => given(cursor, is_backward)
            .filter(|n_given| *n_given <= steps.len())
            .ok_or_else(|| RpcError::invalid_params("`cursor` is not of this transcript"))?,
    };
    let n_next = (n_given + limit).min(steps.len());
    let shown = if is_backward {
        &steps[steps.len() - n_next..steps.len() - n_given]
    } else {
        &steps[n_given..n_next]
    };
    let events: Vec<Value> = shown
        .iter()
        .map(|step| json!({"v": 1, "type": "session_update", "data": update(step)}))
        .collect();
    let has_more = n_next < steps.len();
    let mut answer = json!({
        "v": 1,
        "sessionId": page.session_id,
        "events": events,
        "hasMore": has_more,
        "startTime": time_of(steps.first()),
        "lastUpdated": time_of(steps.last()),
    });
    if has_more {
        answer["nextCursor"] = json!(cursor(n_next, is_backward));
    }
    Ok(answer)
}

/// How many steps were given before a page: opaque to whoever holds it. Backward, what is recorded meanwhile
/// moves the pages; forward it does not.
fn cursor(n_given: usize, is_backward: bool) -> String {
    format!("{}{n_given}", if is_backward { 'b' } else { 'f' })
}

fn given(cursor: &str, is_backward: bool) -> Option<usize> {
    let n_given = cursor.strip_prefix(if is_backward { 'b' } else { 'f' })?;
    let is_number = n_given.bytes().all(|byte| byte.is_ascii_digit());
    n_given.parse().ok().filter(|_| is_number)
}

fn time_of(step: Option<&Replayed>) -> Option<&str> {
    step?.time.as_deref()
}

/// `qwen/status/session/turn_index`.
pub(crate) fn turn_index(named: &Named, steps: &[Replayed]) -> Value {
    let prompts = steps.iter().filter_map(|step| match &step.said {
        Said::Prompt(text) => Some((step, text)),
        Said::Image(_) | Said::Block(_) | Said::Result(_) => None,
    });
    let turns: Vec<Value> = prompts
        .enumerate()
        .map(|(ordinal, (step, text))| {
            let label = tool::cut::middle(text, LABEL_BYTES_MAX);
            json!({
                "ordinal": ordinal,
                "turnId": step.record_uuid,
                "kind": "prompt",
                "timestamp": step.time,
                "label": label,
            })
        })
        .collect();
    json!({
        "v": 1,
        "sessionId": named.session_id,
        "totalTurns": turns.len(),
        "start": 0,
        "turns": turns,
        "startTime": time_of(steps.first()),
        "lastUpdated": time_of(steps.last()),
    })
}

/// Bytes of a turn's label.
const LABEL_BYTES_MAX: usize = 200;

/// `qwen/status/workspace/mcp`: no server is configured.
pub(crate) fn mcp(cwd: &str) -> Value {
    json!({
        "v": 1,
        "workspaceCwd": cwd,
        "initialized": true,
        "discoveryState": "completed",
        "servers": [],
        "clientCount": 0,
        "budgetMode": "off",
        "budgets": [],
    })
}

/// `qwen/status/workspace/skills`.
pub(crate) fn skills(cwd: &str) -> Value {
    json!({"v": 1, "workspaceCwd": cwd, "initialized": true, "skills": []})
}

/// `qwen/status/workspace/tools`.
pub(crate) fn tools(cwd: &str) -> Value {
    let tools: Vec<Value> = tool::registry()
        .iter()
        .map(|tool| {
            let spec = tool.spec();
            json!({
                "name": spec.name,
                "displayName": spec.name,
                "description": spec.description,
                "enabled": true,
            })
        })
        .collect();
    json!({
        "v": 1,
        "workspaceCwd": cwd,
        "initialized": true,
        "acpChannelLive": true,
        "tools": tools,
    })
}

/// `qwen/status/workspace/preflight`.
pub(crate) fn preflight(models: &[String]) -> Value {
    json!({"cells": [
        {"kind": "mcp_discovery", "locality": "acp", "status": "ok",
            "detail": {"discoveryState": "completed", "total": 0, "connected": 0,
                "connecting": 0, "disconnected": 0, "unknown": 0},
            "hint": "No MCP servers configured."},
        {"kind": "skills", "locality": "acp", "status": "ok", "detail": {"count": 0}},
        {"kind": "providers", "locality": "acp", "status": "ok",
            "detail": {"count": models.len(), "providers": models}},
        {"kind": "tool_registry", "locality": "acp", "status": "ok",
            "detail": {"count": tool::registry().len()}},
    ]})
}
