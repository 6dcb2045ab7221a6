//! The daemon's log: lines of JSON on standard error, with request and session ids. A reader that does not
//! read loses lines, and holds up nothing.

use std::{env, io};

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::{EnvFilter, fmt};

/// Starts the log, which ends when what is returned is dropped. `ONRECORD_LOG` is a filter such as `debug` or
/// `daemon=trace`; it is `info` where it is not set, or is none.
pub(super) fn start() -> WorkerGuard {
    let filter = env::var("ONRECORD_LOG").ok();
    let filter = filter.and_then(|filter| EnvFilter::try_new(filter).ok());
    let (writer, guard) = tracing_appender::non_blocking(io::stderr());
    let log = fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new("info")))
        .with_writer(writer)
        .finish();
    // Dropped: it fails only where there is one already.
    _ = tracing::subscriber::set_global_default(log);
    guard
}
