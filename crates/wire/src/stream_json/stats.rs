//! `stats` of the result in `--output-format json`: totals of the session.

use std::collections::BTreeMap;

use serde::Serialize;

/// The totals.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stats {
    /// By the model's name.
    pub models: BTreeMap<String, ModelStats>,
    /// Of tool calls.
    pub tools: ToolsStats,
    /// Of edits.
    pub files: FilesStats,
}

/// Totals of one model.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelStats {
    /// Its calls.
    pub api: ApiStats,
    /// What it read and wrote.
    pub tokens: TokenStats,
}

/// Model calls.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApiStats {
    /// How many.
    pub total_requests: u64,
    /// How many of them failed.
    pub total_errors: u64,
    /// Milliseconds spent in them.
    pub total_latency_ms: u64,
}

/// Tokens.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenStats {
    /// Of prompts.
    pub prompt: u64,
    /// Of answers.
    pub candidates: u64,
    /// Sum as the provider gave it.
    pub total: u64,
    /// Of prompts, cached.
    pub cached: u64,
    /// Of answers, thoughts.
    pub thoughts: u64,
}

/// Tool calls.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolsStats {
    /// How many.
    pub total_calls: u64,
    /// How many went well.
    pub total_success: u64,
    /// How many failed.
    pub total_fail: u64,
    /// Milliseconds spent in them.
    pub total_duration_ms: u64,
    /// By the tool's name.
    pub by_name: BTreeMap<String, ToolStats>,
}

/// Calls of one tool.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolStats {
    /// How many.
    pub count: u64,
    /// How many went well.
    pub success: u64,
    /// How many failed.
    pub fail: u64,
    /// Milliseconds spent in them.
    pub duration_ms: u64,
}

/// Edits.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FilesStats {
    /// Lines that were added.
    pub total_lines_added: u64,
    /// Lines that were removed.
    pub total_lines_removed: u64,
}
