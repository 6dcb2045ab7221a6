//! Integration tests of the agent.

mod approval;
mod feed;
mod shell;
mod subscriptions;
mod tools;
mod turn;
