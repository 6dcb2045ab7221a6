//! Who decides whether a tool call may run.
//!
//! The mode comes from the person; what a mode lets run without asking is decided here and nowhere
//! else.

use futures_util::future::BoxFuture;

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
    /// As `AutoEdit`; the default of ACP and the daemon.
    Auto,
    /// Everything runs.
    Yolo,
}

impl Mode {
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
            (_, Kind::Read) | (Self::Yolo, _) | (Self::AutoEdit | Self::Auto, Kind::Edit) => {
                Verdict::Run
            }
            (Self::Plan, Kind::Edit | Kind::Execute) => Verdict::Refuse,
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

/// What was answered.
#[derive(Debug, Clone)]
pub enum Decision {
    /// Run it.
    Allow,
    /// Do not; the text is told to the model.
    Deny(String),
}

/// Somebody who can be asked.
pub trait Approver: Send + Sync + std::fmt::Debug {
    /// Asks about one call.
    fn ask<'a>(&'a self, call: &'a ToolCall, preview: &'a Preview) -> BoxFuture<'a, Decision>;
}
