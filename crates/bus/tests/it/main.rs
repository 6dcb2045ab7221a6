//! Integration tests of a session's fan-out.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where its own set-up fails"
)]

mod beginning;
mod end;
mod frames;
mod laws;
mod pace;
mod rig;
