//! What a session is, as a fold over the events of its stream. Pure: a daemon makes its snapshot with it,
//! clients keep what they show with it, and all of them come to the same.

mod current;
mod session;

pub use current::SessionState;
pub use session::{
    EndedTurn, Ending, Event, Item, Message, Permission, Queued, Session, ToolCall, TurnFailure,
};
