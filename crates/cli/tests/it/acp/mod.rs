//! The binary as the agent of an editor or a daemon (`onrecord acp`).

pub(crate) mod child;
mod peers;
mod rust;
mod samples;
