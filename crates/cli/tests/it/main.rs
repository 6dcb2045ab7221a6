//! Integration tests of the binary: what a person, a script or another program sees.

mod faults;
mod peers;
mod record;
mod run;
mod sessions;
mod signals;
mod usage;
mod world;
