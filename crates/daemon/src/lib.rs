//! The daemon's HTTP: routes, streams, who may ask, and what every error looks like.
//!
//! It knows no ACP: what a session is, is the bridge's. Stored sessions are moved and listed as whole files.

mod app;
mod body;
mod error;
mod etag;
mod gate;
mod metrics;
#[cfg(feature = "schema")]
pub mod openapi;
mod page;
mod rate;
mod routes;
mod server;
mod sse;
mod table;

use std::{path::PathBuf, time::Duration};

use transcript::layout::{DataRoot, ProjectDir};

pub use app::Daemon;
pub use server::Refused;

/// How a daemon is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of its sessions, absolute, as the bridge has it.
    pub workspace: PathBuf,
    /// Where everything is kept; `None` where it is not known.
    pub data_root: Option<DataRoot>,
    /// Where the records of those sessions are in it.
    pub project: Option<ProjectDir>,
    /// What clients must send; everything is open where absent.
    pub token: Option<String>,
    /// `/health` needs the token, too.
    pub require_auth: bool,
    /// Origins whose pages may ask; `*` for every one.
    pub allow_origins: Vec<String>,
    /// Whether requests are limited.
    pub rate_limit: bool,
    /// Static files to serve at `/`.
    pub web_dir: Option<PathBuf>,
    /// Whether `/metrics` is served.
    pub metrics: bool,
    /// How long a stream may be silent; for ever where absent.
    pub writer_idle_max: Option<Duration>,
    /// Who decides about tool calls, as `/capabilities` names it.
    pub permission_policy: &'static str,
    /// Prompts of one session, running and waiting.
    pub prompts_max: usize,
    /// Live sessions; no limit where absent.
    pub sessions_max: Option<usize>,
    /// How long a restore may take.
    pub restore_wait: Duration,
    /// Of this program.
    pub version: &'static str,
    /// The time, ms since 1970.
    pub now_ms: fn() -> u64,
}
