//! Who decides whether a tool call may run.
//!
//! The mode comes from the person; what a mode lets run without asking is decided here and nowhere
//! else.

use futures_util::future::BoxFuture;
use serde_json::value::RawValue;

use crate::{
    message::ToolCall,
    tool::{Kind, Preview},
};

/// How much runs without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Reads only; everything else is refused.
    Plan,
    /// Reads run, the rest asks.
    #[default]
    Default,
    /// Reads and edits inside the workspace run, the rest asks. Asked calls may be refused for good.
    AutoEdit,
    /// As `AutoEdit`; a word of its own in the formats that we speak.
    Auto,
    /// Everything runs.
    Yolo,
}

impl Mode {
    /// All of them, the strictest first.
    pub const ALL: [Self; 5] = [
        Self::Plan,
        Self::Default,
        Self::AutoEdit,
        Self::Auto,
        Self::Yolo,
    ];

    /// The mode of that word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }

    /// The word as it is on the command line and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Default => "default",
            Self::AutoEdit => "auto-edit",
            Self::Auto => "auto",
            Self::Yolo => "yolo",
        }
    }

    /// What becomes of a call of this kind, before anybody is asked.
    #[must_use]
    pub fn verdict(self, kind: Kind) -> Verdict {
        match (self, kind) {
            (_, Kind::Read)
            | (Self::Yolo, _)
            | (Self::AutoEdit | Self::Auto, Kind::Edit)
            | (Self::Default | Self::AutoEdit | Self::Auto, Kind::Host) => Verdict::Run,
            (Self::Plan, Kind::Edit | Kind::Execute | Kind::Host) => Verdict::Refuse,
            (Self::Default, Kind::Edit | Kind::Execute)
            | (Self::AutoEdit | Self::Auto, Kind::Execute) => Verdict::Ask,
        }
    }
}

/// What a mode says to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Run,
    /// Somebody is asked.
    Ask,
    /// It does not run, whoever asks.
    Refuse,
}

/// One call that somebody has to decide about.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The call, as the model made it.
    pub call: &'a ToolCall,
    /// What it would do.
    pub preview: &'a Preview,
}

/// What was answered.
#[derive(Debug, Clone)]
pub enum Decision {
    /// Run it.
    Allow,
    /// Run it with these arguments in place of the model's.
    AllowChanged(Box<RawValue>),
    /// Do not run it.
    Deny {
        /// Told to the model.
        reason: String,
        /// End the turn as well: the model is not asked again.
        interrupt: bool,
    },
    /// Nobody decided; the call does not run, but nobody refused it. The reason is told to the model.
    Unanswered(String),
    /// There is nobody who can be asked now.
    Nobody,
}

/// Somebody who can be asked.
pub trait Approver: Send + Sync + std::fmt::Debug {
    /// Asks about one call. Dropping the future withdraws the question.
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Decision>;
}

/// Somebody who has a last word on every call, after it was approved and before it runs.
pub trait Guard: Send + Sync + std::fmt::Debug {
    /// Asks about one call with the arguments that it would run with.
    ///
    /// An error keeps it from running; its words are told to the model.
    fn prepare<'a>(
        &'a self,
        call: &'a ToolCall,
        args: &'a RawValue,
    ) -> BoxFuture<'a, Result<(), String>>;
}
