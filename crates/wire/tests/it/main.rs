//! Integration tests of what is said between processes.

#[cfg(feature = "schema")]
mod schema;
