//! The agent: configuration and subscriptions, model providers, tools, and the turn loop that owns a
//! session.
//!
//! It knows no terminal, no ACP and no HTTP serving. Environment, home, clock and current directory
//! come in as values.

pub mod approval;
pub mod config;
pub mod controls;
pub mod event;
pub mod feed;
mod from_record;
mod git;
pub mod image;
pub mod interrupt;
pub mod mcp;
pub mod mention;
pub mod message;
pub mod model;
pub mod prompt;
pub mod replay;
pub mod session;
mod to_record;
pub mod tool;
mod turn;
