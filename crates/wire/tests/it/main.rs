//! Integration tests of what is said between processes.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where its own set-up fails"
)]

mod input;
#[cfg(feature = "schema")]
mod schema;
