//! `-o stream-json`, and every second output: a message a line, as it happens.

use std::io::{self, Write};

use agent::{event::Event, feed::Delivery};

use super::{lines, messages::Messages};

/// State of the format.
pub(crate) struct StreamJson {
    messages: Messages,
    to: Box<dyn Write + Send>,
    pending: Vec<u8>,
    /// One turn is all there is: what is found after its result is said by the process's last line.
    one_shot: bool,
    ended: bool,
}

impl std::fmt::Debug for StreamJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamJson")
            .field("messages", &self.messages)
            .finish_non_exhaustive()
    }
}

impl StreamJson {
    pub(crate) fn new(messages: Messages, to: Box<dyn Write + Send>, one_shot: bool) -> Self {
        Self {
            messages,
            to,
            pending: Vec::new(),
            one_shot,
            ended: false,
        }
    }

    /// Takes a delivery; answers whether it said that recording failed (R12).
    pub(crate) fn take(&mut self, delivery: &Delivery) -> bool {
        let pending = &mut self.pending;
        match delivery {
            Delivery::Event(event) => {
                self.messages
                    .step(event, &mut |message| lines::push(pending, &message));
                self.ended |= self.one_shot && matches!(event, Event::TurnEnded(_));
                false
            }
            Delivery::Line(line) => {
                pending.extend_from_slice(line.as_bytes());
                pending.push(b'\n');
                false
            }
            Delivery::Degraded(failure) => {
                if !self.ended {
                    lines::push(pending, &Messages::degraded(failure));
                }
                !self.ended
            }
        }
    }

    /// The last line of an output that is given up.
    pub(crate) fn give_up(&mut self, message: &str) {
        lines::push(&mut self.pending, &self.messages.given_up(message));
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let written = self
            .to
            .write_all(&self.pending)
            .and_then(|()| self.to.flush());
        self.pending.clear();
        written
    }
}
