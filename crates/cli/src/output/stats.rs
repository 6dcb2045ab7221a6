//! `stats` of the result in `-o json`.

use std::{collections::BTreeMap, time::Duration};

use agent::event::TurnSummary;
use wire::stream_json::stats::{
    ApiStats, FilesStats, ModelStats, Stats, TokenStats, ToolStats, ToolsStats,
};

/// The totals of a session that uses `model`.
pub(crate) fn of(summary: &TurnSummary, model: &str) -> Stats {
    let stats = &summary.stats;
    let usage = &summary.usage;
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut by_name = BTreeMap::new();
    let (mut n_calls, mut n_success, mut duration_ms) = (0, 0, 0);
    for tool in &stats.tools {
        n_calls += tool.n_calls;
        n_success += tool.n_success;
        duration_ms += tool.duration_ms;
        by_name.insert(
            tool.name.clone(),
            ToolStats {
                count: tool.n_calls,
                success: tool.n_success,
                fail: tool.n_calls - tool.n_success,
                duration_ms: tool.duration_ms,
            },
        );
    }
    let model_stats = ModelStats {
        api: ApiStats {
            total_requests: stats.n_requests,
            total_errors: stats.n_request_errors,
            total_latency_ms: millis(summary.duration_api),
        },
        tokens: TokenStats {
            prompt: usage.input,
            candidates: usage.output,
            total: usage.total,
            cached: usage.cached,
            thoughts: usage.thoughts,
        },
    };
    Stats {
        models: BTreeMap::from([(model.to_owned(), model_stats)]),
        tools: ToolsStats {
            total_calls: n_calls,
            total_success: n_success,
            total_fail: n_calls - n_success,
            total_duration_ms: duration_ms,
            by_name,
        },
        files: FilesStats {
            total_lines_added: stats.n_lines_added,
            total_lines_removed: stats.n_lines_removed,
        },
    }
}
