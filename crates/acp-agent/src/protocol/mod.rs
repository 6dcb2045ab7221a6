//! What is said over ACP, as far as this agent speaks it, with the extensions of Qwen Code 0.24.4.
//!
//! Incoming shapes are lenient, as clients of other versions add fields. Outgoing ones are strict: a
//! client that checks them against an older schema drops the whole connection at a kind, or a `null`,
//! that it does not know. What is private goes into `_meta`.

pub(crate) mod initialize;
pub(crate) mod session;
pub(crate) mod update;
