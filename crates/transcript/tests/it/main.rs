//! Facts about the transcript, one module for each part.

#![expect(clippy::unwrap_used, reason = "what a test stands on fails the test")]

mod export;
mod failing;
mod faults;
mod media;
mod model;
mod reader;
mod recorder;
mod rig;
mod right_file;
mod samples;
mod store;
