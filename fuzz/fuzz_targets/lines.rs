//! Any bytes as the lines of the other side.
#![no_main]

#[path = "../../crates/jsonrpc/tests/it/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_bytes::survives(bytes));
