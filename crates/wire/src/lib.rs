//! The words spoken between processes.
//!
//! This crate knows no IO, no clock, no runtime and no disk path: it holds what two programs must
//! agree on (message shapes, words of a notice, limits) and pure code over it.

pub mod event;
pub mod halves;
pub mod http;
pub mod limits;
pub mod recording;
#[cfg(feature = "schema")]
pub mod schema;
pub mod sse;
pub mod state;
pub mod stream;
pub mod stream_json;
pub mod words;

/// The version of Qwen Code whose formats are spoken.
pub const QWEN_CODE_VERSION: &str = "0.24.4";
