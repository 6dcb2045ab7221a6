//! The second output and the second input of a run: a program watches it, and may steer it.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `channel` | where the lines go |
//! | `commands` | where they come from, and what they ask |

mod channel;
mod commands;

pub(crate) use self::{
    channel::{Channel, open},
    commands::{Commands, Tail, follow},
};
