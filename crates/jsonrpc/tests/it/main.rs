//! Facts about a connection, one module for each part.

#![expect(clippy::unwrap_used, reason = "what a test stands on fails the test")]

mod any_bytes;
mod bad_lines;
mod bounds;
mod end;
mod order;
mod requests;
mod rig;
mod streams;
