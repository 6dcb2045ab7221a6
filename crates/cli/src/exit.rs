//! Exit codes; decided here and nowhere else. `docs/exit-codes.md` is the table for people.

use std::process::ExitCode;

use agent::event::Outcome;
use wire::recording::{RecordingReport, RecordingState};

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The work is done; the record may be lost (R26).
    Success,
    /// Usage, an unknown session, a failed model call.
    Failure,
    /// The configuration cannot be read.
    Config,
    /// `--max-session-turns`.
    TurnLimit,
    /// `--max-tool-calls`, `--max-wall-time`.
    Budget,
    /// `sessions verify` found damage or a gap.
    Damaged,
    /// `--require-recording` and part of the record was lost (B6).
    RecordingLost,
    /// SIGHUP.
    Hangup,
    /// SIGINT or SIGTERM.
    Cancelled,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Config => 52,
            Self::TurnLimit => 53,
            Self::Budget => 55,
            Self::Damaged => 65,
            Self::RecordingLost => 74,
            Self::Hangup => 129,
            Self::Cancelled => 130,
        }
    }

    /// The exit of the work, whatever became of its record.
    pub(crate) fn of_work(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Success => Self::Success,
            Outcome::ModelFailed(_) => Self::Failure,
            Outcome::TurnLimit(_) => Self::TurnLimit,
            Outcome::ToolCallLimit(_) | Outcome::WallTimeLimit(_) => Self::Budget,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::RecordingRequired => Self::RecordingLost,
        }
    }

    /// In a strict run a lost record replaces success, and nothing else (B6).
    // Invariant 4: nowhere else does a record decide how the process ends.
    pub(crate) fn with_lost_record(self) -> Self {
        if self == Self::Success {
            Self::RecordingLost
        } else {
            self
        }
    }
}

/// Whether part of a record counts as lost once nothing more can change it (B6).
pub(crate) fn is_lost(record: &RecordingReport) -> bool {
    matches!(
        record.state,
        RecordingState::Degraded | RecordingState::NeverStarted | RecordingState::Pending
    )
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
