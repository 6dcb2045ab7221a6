//! The daemon's log: lines of JSON on standard error, with request and session ids.

use std::io;

use tracing_subscriber::{EnvFilter, fmt};

/// Starts the log. `ONRECORD_LOG` is a filter such as `debug` or `daemon=trace`; `info` where it is not set.
pub(super) fn start(filter: Option<&str>) {
    let filter = filter.unwrap_or("info");
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let log = fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .finish();
    // Dropped: it fails only where there is one already.
    _ = tracing::subscriber::set_global_default(log);
}
