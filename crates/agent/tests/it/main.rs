//! Integration tests of the agent.

mod approval;
mod shell;
mod tools;
