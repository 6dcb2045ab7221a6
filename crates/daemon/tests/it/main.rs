//! Facts about the daemon's HTTP, in memory over a bridge whose child is played; over sockets where it is
//! about connections.

#![expect(clippy::unwrap_used, reason = "what a test stands on fails the test")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test makes the files that a daemon finds"
)]

mod bodies;
mod gate;
mod page;
mod rate;
mod rig;
mod sessions;
mod streams;
mod turns;
