//! Integration tests of the SDK.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where its own set-up fails"
)]

mod fixtures;
mod typescript;
