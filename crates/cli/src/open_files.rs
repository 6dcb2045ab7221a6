//! The limit of open files: raised for a process that holds many sessions, and told to the agent, so
//! that it can give it back to what tools start.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Tells the agent the soft limit of before.
pub(crate) const SOFT_LIMIT_VARIABLE: &str = "ONRECORD_OPEN_FILES";

/// Raises our own soft limit to the hard one; answers what it was, where there was one.
pub(crate) fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Dropped: a host that forbids it has room for fewer sessions, and each one that has none is told.
    _ = setrlimit(Resource::Nofile, raised);
    limit.current
}
