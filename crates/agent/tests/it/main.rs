//! Integration tests of the agent.

mod approval;
mod feed;
mod provider;
mod shell;
mod subscriptions;
mod tools;
mod turn;
