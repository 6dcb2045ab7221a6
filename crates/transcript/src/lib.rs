//! Writes, reads and checks one session's JSONL file.
//!
//! It knows no turn, no model and no user interface. After its first failed write a recorder stops
//! for good, and what is on disk stays a valid prefix.

mod archive;
mod damage;
mod fork;
mod index;
mod lines;
mod listing;
mod loose;
mod mend;
pub mod record;
mod scan;
mod survey;

pub mod disk;
pub mod export;
pub mod fault;
pub mod layout;
pub mod local_log;
pub mod lock;
pub mod media;
pub mod reader;
pub mod recorder;
pub mod store;
pub mod verify;
