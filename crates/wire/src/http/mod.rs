//! Bodies of the daemon's requests and answers.
//!
//! Field names are those of Qwen Code's daemon; what is ours is additive and says so. Times are ISO 8601 with
//! milliseconds in UTC where they are strings, ms since 1970 where they are numbers.

mod answer;
mod request;

pub use answer::{
    Accepted, CatalogVersion, Choice, Closed, Health, Heartbeat, Interaction, InteractionAction,
    LiveRow, LiveState, Loaded, ModeSet, Opened, PendingPrompt, PendingPrompts, SessionRow,
    TitleSet, Turn, TurnFault,
};
pub use request::{NewSession, Prompt, Restore, Scope, Vote};
