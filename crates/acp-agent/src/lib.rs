//! The agent spoken over ACP, for editors and for a daemon: many sessions in one process.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `server` | what becomes of each message |
//! | `backend` | what a process must offer: where sessions come from |
//! | `live` | the sessions that are open, each with a task of its own |
//! | `editor` | how files are read and written through a client |
//! | `ask` | how a client is asked about a tool call |
//! | `to_acp` | how a session's events look to a client |
//! | `replay` | how a stored session looks to a client |
//! | `record` | what a client is told of the record |
//! | `status` | what a daemon may read |
//! | `protocol` | the shapes of it all |

mod ask;
pub mod backend;
mod editor;
mod live;
mod protocol;
mod record;
mod replay;
mod server;
mod status;
mod to_acp;
mod work;

pub use server::{Parent, serve};
