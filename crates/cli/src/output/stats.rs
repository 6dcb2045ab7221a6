//! `stats` of the result in `-o json`.

use agent::event::TurnSummary;
use serde_json::{Map, Value, json};

/// The totals of a session that uses `model`.
pub(crate) fn of(summary: &TurnSummary, model: &str) -> Value {
    let stats = &summary.stats;
    let usage = &summary.usage;
    let millis =
        |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut by_name = Map::new();
    let (mut n_calls, mut n_success, mut duration_ms) = (0, 0, 0);
    for tool in &stats.tools {
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
    json!({
        "models": {model: {
            "api": {
                "totalRequests": stats.n_requests,
                "totalErrors": stats.n_request_errors,
                "totalLatencyMs": millis(summary.duration_api),
            },
            "tokens": {
                "prompt": usage.input,
                "candidates": usage.output,
                "total": usage.total,
                "cached": usage.cached,
                "thoughts": usage.thoughts,
            },
        }},
        "tools": {
            "totalCalls": n_calls,
            "totalSuccess": n_success,
            "totalFail": n_calls - n_success,
            "totalDurationMs": duration_ms,
            "byName": by_name,
        },
        "files": {
            "totalLinesAdded": stats.n_lines_added,
            "totalLinesRemoved": stats.n_lines_removed,
        },
    })
}
