//! `-o text`: standard output holds the answer alone; everything else goes to standard error.

use std::{io, mem};

use agent::event::{Event, Outcome};
use wire::words;

use crate::stdio;

/// State of the format.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pending: Vec<u8>,
    one_shot: bool,
    ended: bool,
}

impl Text {
    pub(crate) fn new(one_shot: bool) -> Self {
        Self {
            one_shot,
            ..Self::default()
        }
    }

    pub(crate) fn event(&mut self, event: Event) {
        match event {
            Event::Warning(line) => stdio::say(&line),
            Event::Retrying {
                attempt,
                wait,
                error,
            } => stdio::say(&format!(
                "Try {attempt} of the model call failed ({error}); trying again in {:.1} s.",
                wait.as_secs_f64()
            )),
            Event::TurnEnded(summary) => {
                self.ended |= self.one_shot;
                if let Some(line) = complaint(&summary.outcome) {
                    stdio::say(&line);
                }
                if !summary.answer.is_empty() {
                    self.pending.extend_from_slice(summary.answer.as_bytes());
                    self.pending.push(b'\n');
                }
            }
            Event::SessionStarted(_)
            | Event::TurnStarted { .. }
            | Event::SessionChanged(_)
            | Event::SessionEnded(_)
            | Event::ModelStarted
            | Event::Text(_)
            | Event::Thought(_)
            | Event::ModelEnded { .. }
            | Event::ToolStarted(_)
            | Event::ToolProgress { .. }
            | Event::ToolEnded { .. }
            | Event::PlanChanged(_) => {}
        }
    }

    /// R11. After the answer the process's last line says it instead.
    pub(crate) fn degraded(&self) -> bool {
        if !self.ended {
            stdio::say(words::DEGRADED_LINE);
        }
        !self.ended
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        stdio::print(&mem::take(&mut self.pending))
    }
}

/// What is said of a turn that did not end well; `None` where it did.
pub(crate) fn complaint(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Success => None,
        Outcome::ModelFailed(error) => Some(format!("[API Error: {error}]")),
        Outcome::TurnLimit(max) => Some(format!(
            "The run reached its limit of {max} model calls; --max-session-turns sets another."
        )),
        Outcome::ToolCallLimit(max) => Some(format!(
            "The run reached its limit of {max} tool calls; --max-tool-calls sets another."
        )),
        Outcome::WallTimeLimit(max) => Some(format!(
            "The run reached its limit of {} s; --max-wall-time sets another.",
            max.as_secs_f64()
        )),
        Outcome::Cancelled => Some("Operation cancelled.".to_owned()),
        Outcome::RecordingRequired => Some(words::REQUIRED_NOT_BEGUN_LINE.to_owned()),
    }
}
