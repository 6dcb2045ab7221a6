//! `-o json`: one array of all messages, at the end, however the run ends.

use std::{io, mem};

use agent::event::{Event, Outcome};
use serde_json::json;
use transcript::recorder::RecordingFailure;

use super::{lines, messages::Messages, text::complaint};
use crate::{exit::Exit, stdio};

/// State of the format.
#[derive(Debug)]
pub(crate) struct Json {
    messages: Messages,
    /// The array so far, without its end.
    array: Vec<u8>,
    one_shot: bool,
    ended: bool,
}

impl Json {
    pub(crate) fn new(session_id: &str, one_shot: bool) -> Self {
        Self {
            messages: Messages::collected(session_id),
            array: Vec::new(),
            one_shot,
            ended: false,
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        let array = &mut self.array;
        self.messages
            .step(event, &mut |message| push(array, &message));
        if let Event::TurnEnded(summary) = event {
            self.ended |= self.one_shot;
            report_error(&summary.outcome);
        }
    }

    /// R12. After the result of a one-shot run the process's last line says it instead.
    pub(crate) fn degraded(&mut self, failure: &RecordingFailure) -> bool {
        if !self.ended {
            push(&mut self.array, &Messages::degraded(failure));
        }
        !self.ended
    }

    /// Prints the array.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        if self.array.is_empty() {
            return Ok(());
        }
        let mut array = mem::take(&mut self.array);
        array.extend_from_slice(b"]\n");
        stdio::print(&array)
    }
}

fn push(array: &mut Vec<u8>, message: &impl serde::Serialize) {
    array.push(if array.is_empty() { b'[' } else { b',' });
    lines::push_value(array, message);
}

/// The error of a failed run on standard error, as programs that read only that expect it.
fn report_error(outcome: &Outcome) {
    let kind = match outcome {
        Outcome::Success => return,
        Outcome::ModelFailed(_) => "AlreadyReportedError",
        Outcome::TurnLimit(_) => "FatalTurnLimitedError",
        Outcome::ToolCallLimit(_) | Outcome::WallTimeLimit(_) => "FatalBudgetExceededError",
        Outcome::Cancelled => "FatalCancellationError",
        Outcome::RecordingRequired => "RecordingRequiredError",
    };
    let error = json!({"error": {
        "type": kind,
        "message": complaint(outcome),
        "code": Exit::of_work(outcome).code(),
    }});
    stdio::say(&format!("{error:#}"));
}
