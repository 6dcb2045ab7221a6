//! Facts about a bridge, one module for each part.

#![expect(clippy::unwrap_used, reason = "what a test stands on fails the test")]

mod child;
mod crowd;
mod foreign;
mod permissions;
mod prompts;
mod record;
mod restore;
mod rig;
mod sessions;
