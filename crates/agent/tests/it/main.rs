//! Integration tests of the agent.

mod approval;
mod feed;
mod offline;
mod provider;
mod shell;
mod subscriptions;
mod tools;
mod turn;
