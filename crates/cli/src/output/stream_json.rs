//! `-o stream-json`: a message a line, as it happens.

use std::io;

use agent::event::Event;
use transcript::recorder::RecordingFailure;

use super::{lines, messages::Messages};
use crate::stdio;

/// State of the format.
#[derive(Debug)]
pub(crate) struct StreamJson {
    messages: Messages,
    pending: Vec<u8>,
    ended: bool,
}

impl StreamJson {
    pub(crate) fn new(session_id: &str, partial: bool) -> Self {
        Self {
            messages: Messages::streamed(session_id, partial),
            pending: Vec::new(),
            ended: false,
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        let pending = &mut self.pending;
        self.messages
            .step(event, &mut |message| lines::push(pending, &message));
        self.ended |= matches!(event, Event::TurnEnded(_));
    }

    /// R12. After the result of a one-shot run the process's last line says it instead.
    pub(crate) fn degraded(&mut self, failure: &RecordingFailure) -> bool {
        if !self.ended {
            lines::push(&mut self.pending, &Messages::degraded(failure));
        }
        !self.ended
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let written = stdio::print(&self.pending);
        self.pending.clear();
        written
    }
}
