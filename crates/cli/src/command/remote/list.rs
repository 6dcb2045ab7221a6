//! `onrecord remote list`: the sessions of a daemon.

use serde_json::Value;

use super::{Remote, print, print_json, told};
use crate::{exit::Exit, resolve::Refusal};

/// Characters of a name in a list.
const NAME_SHOWN_MAX: usize = 80;

pub(super) async fn run(remote: &Remote, limit: usize) -> Result<Exit, Refusal> {
    let listed = async {
        let capabilities = remote.client.capabilities().await?;
        let workspace = capabilities["workspaceCwd"].as_str().unwrap_or_default();
        let mut rows: Vec<Value> = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut page = remote.client.list(workspace, cursor.as_deref()).await?;
            if let Some(Value::Array(more)) = page.get_mut("sessions").map(Value::take) {
                rows.extend(more);
            }
            let next = page["nextCursor"].as_str().map(str::to_owned);
            let has_enough = limit > 0 && rows.len() >= limit;
            // A cursor that stands still would be asked for ever.
            if has_enough || next.is_none() || next == cursor {
                return Ok(rows);
            }
            cursor = next;
        }
    };
    let mut rows = tokio::select! {
        listed = listed => listed.map_err(|error| told(&error))?,
        () = remote.end.cancelled() => return Ok(remote.ended()),
    };
    if limit > 0 {
        rows.truncate(limit);
    }
    for row in &rows {
        if remote.json {
            print_json(row)?;
        } else {
            print(&line(row))?;
        }
    }
    Ok(Exit::Success)
}

/// A session on a line.
fn line(row: &Value) -> String {
    let text = |name: &str| row[name].as_str().unwrap_or("-");
    let flag = |name: &str| row[name] == true;
    let state = if flag("isWaitingForPermission") || flag("isWaitingForUserQuestion") {
        "waiting"
    } else if flag("hasActivePrompt") {
        "running"
    } else if row["activeWorkState"].is_string() {
        "idle"
    } else {
        "stored"
    };
    let is_lost = flag("recordingDegraded") || row["recordingState"] == "never_started";
    let record = if is_lost { "  NOT SAVED" } else { "" };
    let name: String = text("displayName")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(NAME_SHOWN_MAX)
        .collect();
    let at = row["updatedAt"]
        .as_str()
        .unwrap_or_else(|| text("createdAt"));
    format!("{}  {at}  {state:<7}{record}  {name}\n", text("sessionId"))
}
