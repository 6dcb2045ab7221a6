//! How many requests of a kind one client may make in a minute.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

use axum::http::Method;
use wire::limits::{
    DAEMON_RATE_CLIENTS_MAX, DAEMON_RATE_MUTATIONS_MAX, DAEMON_RATE_PROMPTS_MAX,
    DAEMON_RATE_READS_MAX, DAEMON_RATE_WINDOW,
};

/// Kinds of requests that are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tier {
    Prompt,
    Mutation,
    Read,
}

impl Tier {
    /// The kind of a request; `None` where it is not counted.
    pub(crate) fn of(method: &Method, path: &str) -> Option<Self> {
        if path == "/health" || path.ends_with("/heartbeat") || path.ends_with("/events") {
            return None;
        }
        Some(match *method {
            Method::POST if path.ends_with("/prompt") => Self::Prompt,
            Method::GET | Method::HEAD | Method::OPTIONS => Self::Read,
            _ => Self::Mutation,
        })
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Mutation => "mutation",
            Self::Read => "read",
        }
    }

    fn max(self) -> u32 {
        match self {
            Self::Prompt => DAEMON_RATE_PROMPTS_MAX,
            Self::Mutation => DAEMON_RATE_MUTATIONS_MAX,
            Self::Read => DAEMON_RATE_READS_MAX,
        }
    }
}

/// What is left to a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    /// When the window ends, ms since 1970.
    pub(crate) reset_ms: u64,
    pub(crate) is_over: bool,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    began_ms: u64,
    n: u32,
}

/// The counts of all clients.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    windows: Mutex<HashMap<(IpAddr, Tier), Window>>,
}

impl Rates {
    /// Counts a request.
    pub(crate) fn count(&self, client: IpAddr, tier: Tier, now_ms: u64) -> Allowance {
        let window_ms = u64::try_from(DAEMON_RATE_WINDOW.as_millis()).unwrap_or(u64::MAX);
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() >= DAEMON_RATE_CLIENTS_MAX {
            windows.retain(|_, window| window.began_ms + window_ms > now_ms);
        }
        if windows.len() >= DAEMON_RATE_CLIENTS_MAX {
            windows.clear();
        }
        let fresh = Window {
            began_ms: now_ms,
            n: 0,
        };
        let window = windows.entry((client, tier)).or_insert(fresh);
        if window.began_ms + window_ms <= now_ms {
            *window = fresh;
        }
        window.n = window.n.saturating_add(1);
        let limit = tier.max();
        Allowance {
            limit,
            remaining: limit.saturating_sub(window.n),
            reset_ms: window.began_ms + window_ms,
            is_over: window.n > limit,
        }
    }
}
