//! Facts about the transcript, one module for each part.

#![expect(clippy::unwrap_used, reason = "what a test stands on fails the test")]

mod export;
mod reader;
mod samples;
mod store;
