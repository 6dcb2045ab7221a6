//! What is said over ACP, as far as this agent speaks it, with the extensions of Qwen Code 0.24.4.
//!
//! Incoming shapes are lenient, as clients of other versions add fields. Outgoing ones are strict: a
//! client that checks them against an older schema drops the whole connection at a kind, or a `null`,
//! that it does not know. What is private goes into `_meta`.

use serde::{Deserialize, Deserializer};

pub(crate) mod initialize;
pub(crate) mod session;
pub(crate) mod update;

/// A field that may be absent, and that some clients say to be `null` where others leave it out.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
