//! What a child says is at work, where it says so.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;
use tokio::time::Instant;
use wire::limits::CHILD_WORK_STALE_INTERVALS;

/// The notification.
pub(crate) const NOTIFICATION: &str = "qwen/notify/channel/active-work";

/// The last snapshot of a child.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// How often it comes; absent where the child does not tell.
    interval: Option<Duration>,
    seq: u64,
    at: Option<Instant>,
    sessions: BTreeMap<String, Held>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    has_background: Option<bool>,
    is_held: bool,
}

/// Params.
#[derive(Debug, Deserialize)]
pub(crate) struct Snapshot {
    v: u32,
    seq: u64,
    sessions: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    session_id: String,
    has_running_background_tasks: Option<bool>,
    holds: Vec<serde::de::IgnoredAny>,
}

impl Work {
    /// The child tells, this often.
    pub(crate) fn expect(&mut self, interval: Duration) {
        self.interval = Some(interval);
    }

    pub(crate) fn is_told(&self) -> bool {
        self.interval.is_some()
    }

    /// Takes in a snapshot, unless a later one came before.
    pub(crate) fn take(&mut self, snapshot: Snapshot) {
        if snapshot.v != 1 || snapshot.seq <= self.seq {
            return;
        }
        self.seq = snapshot.seq;
        self.at = Some(Instant::now());
        self.sessions = snapshot
            .sessions
            .into_iter()
            .map(|row| {
                let held = Held {
                    has_background: row.has_running_background_tasks,
                    is_held: !row.holds.is_empty(),
                };
                (row.session_id, held)
            })
            .collect();
    }

    /// Ms since the last snapshot.
    pub(crate) fn age_ms(&self) -> u64 {
        let age = self.at.map_or(Duration::ZERO, |at| at.elapsed());
        u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
    }

    /// Absent where it is not known.
    pub(crate) fn has_background(&self, id: &str) -> Option<bool> {
        self.sessions.get(id)?.has_background
    }

    /// The word of `activeWorkState`.
    pub(crate) fn state_of(&self, id: &str, has_prompt: bool) -> &'static str {
        let Some(interval) = self.interval else {
            return "unsupported";
        };
        if has_prompt {
            return "active";
        }
        let is_stale = self
            .at
            .is_none_or(|at| at.elapsed() > interval * CHILD_WORK_STALE_INTERVALS);
        match self.sessions.get(id) {
            Some(held) if !is_stale => {
                if held.is_held || held.has_background == Some(true) {
                    "active"
                } else {
                    "idle"
                }
            }
            Some(_) | None => "unknown",
        }
    }
}
