//! Integration tests of the binary: what a person, a script or another program sees.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may stop where its own set-up fails, and makes the files it needs"
)]

mod acp;
mod driven;
mod faults;
mod peers;
mod record;
mod replay;
mod run;
mod schema;
mod sdk;
mod serve;
mod sessions;
mod side;
mod signals;
mod usage;
mod world;
