//! Standard output in its three formats, and a second output. Each is a subscriber of the same session
//! events.

mod json;
mod lines;
pub(crate) mod messages;
mod stats;
mod stream_json;
mod text;

use std::{
    io::{self, Write},
    thread,
};

use agent::feed::{Delivery, FeedReader};
use tokio::sync::oneshot;
use wire::words;

pub(crate) use self::lines::line;
use self::{json::Json, messages::Messages, stream_json::StreamJson, text::Text};
use crate::{args::OutputFormat, stdio};

/// One output.
#[derive(Debug)]
pub(crate) enum Output {
    /// `-o text`.
    Text(Text),
    /// `-o json`.
    Json(Json),
    /// `-o stream-json`, and a second output.
    StreamJson(Box<StreamJson>),
}

/// What an output did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Told {
    /// It told its people that recording failed.
    pub(crate) degraded: bool,
    /// Its reader went away.
    pub(crate) reader_gone: bool,
    /// It could not be written otherwise; what was to be read is lost.
    pub(crate) unwritable: bool,
    /// Nobody read it any more when the run had to end.
    pub(crate) stuck: bool,
}

impl Told {
    /// Whether nobody knows what of it was read.
    pub(crate) fn is_uncertain(self) -> bool {
        self.unwritable || self.stuck
    }
}

impl Output {
    /// Standard output. In a one-shot run nothing follows its first result.
    pub(crate) fn main(
        format: OutputFormat,
        partial: bool,
        one_shot: bool,
        session_id: &str,
    ) -> Self {
        match format {
            OutputFormat::Text => Self::Text(Text::new(one_shot)),
            OutputFormat::Json => Self::Json(Json::new(session_id, one_shot)),
            OutputFormat::StreamJson => Self::StreamJson(Box::new(StreamJson::new(
                Messages::streamed(session_id, partial),
                Box::new(stdio::Patient(io::stdout())),
                one_shot,
            ))),
        }
    }

    /// A second output.
    pub(crate) fn beside(session_id: &str, to: Box<dyn Write + Send>) -> Self {
        Self::StreamJson(Box::new(StreamJson::new(
            Messages::beside(session_id),
            to,
            false,
        )))
    }

    /// Starts the thread that writes; it ends with the feed and answers what it did. Where it cannot
    /// write any more, `on_lost` is called with why.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(
        self,
        feed: FeedReader,
        on_lost: impl FnOnce(Told) + Send + 'static,
    ) -> io::Result<oneshot::Receiver<Told>> {
        let (answer, told) = oneshot::channel();
        thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || {
                let told = self.write_all(feed);
                if told.reader_gone || told.unwritable {
                    on_lost(told);
                }
                // Dropped: nobody waits for an output that nobody reads.
                _ = answer.send(told);
            })?;
        Ok(told)
    }

    /// Writes what comes until nothing more does.
    fn write_all(mut self, mut feed: FeedReader) -> Told {
        let mut told = Told::default();
        let mut batch = Vec::new();
        let mut more = true;
        while more {
            more = feed.next_batch(&mut batch);
            for delivery in batch.drain(..) {
                told.degraded |= self.take(delivery);
            }
            let written = if more {
                self.flush()
            } else {
                self.end(feed.is_given_up())
            };
            match written {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    told.reader_gone = true;
                    break;
                }
                // A half-written line is followed by nothing; the work goes on without output.
                Err(_) => {
                    told = Told {
                        unwritable: true,
                        ..Told::default()
                    };
                    break;
                }
            }
        }
        told
    }

    /// Takes a delivery; answers whether it said that recording failed.
    fn take(&mut self, delivery: Delivery) -> bool {
        match (self, delivery) {
            (Self::Text(text), Delivery::Event(event)) => text.event(event),
            (Self::Text(text), Delivery::Degraded(_)) => return text.degraded(),
            (Self::Json(json), Delivery::Event(event)) => json.event(&event),
            (Self::Json(json), Delivery::Degraded(failure)) => return json.degraded(&failure),
            (Self::StreamJson(lines), delivery) => return lines.take(&delivery),
            // Only stream-json has a protocol of its own.
            (Self::Text(_) | Self::Json(_), Delivery::Line(_)) => {}
        }
        false
    }

    /// Writes what is ready.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Text(text) => text.flush(),
            Self::Json(_) => Ok(()),
            Self::StreamJson(lines) => lines.flush(),
        }
    }

    /// Writes what is left.
    fn end(&mut self, given_up: bool) -> io::Result<()> {
        match self {
            Self::Text(text) => text.flush(),
            Self::Json(json) => json.end(),
            Self::StreamJson(lines) => {
                if given_up {
                    lines.give_up(words::SIDE_OUTPUT_SLOW_LINE);
                }
                lines.flush()
            }
        }
    }
}
