//! Standard output in its three formats. Each is a subscriber of the same session events.

mod json;
mod lines;
mod messages;
mod stats;
mod stream_json;
mod text;

use std::{io, thread};

use agent::feed::{Delivery, FeedReader};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use self::{json::Json, stream_json::StreamJson, text::Text};
use crate::args::OutputFormat;

/// One format.
#[derive(Debug)]
pub(crate) enum Output {
    /// `-o text`.
    Text(Text),
    /// `-o json`.
    Json(Json),
    /// `-o stream-json`.
    StreamJson(StreamJson),
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
}

impl Output {
    pub(crate) fn new(format: OutputFormat, partial: bool, session_id: &str) -> Self {
        match format {
            OutputFormat::Text => Self::Text(Text::default()),
            OutputFormat::Json => Self::Json(Json::new(session_id)),
            OutputFormat::StreamJson => Self::StreamJson(StreamJson::new(session_id, partial)),
        }
    }

    /// Starts the thread that writes; it ends with the feed and answers what it did.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(
        self,
        feed: FeedReader,
        cancel: CancellationToken,
    ) -> io::Result<oneshot::Receiver<Told>> {
        let (answer, told) = oneshot::channel();
        thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || {
                // Dropped: nobody waits for an output that nobody reads.
                _ = answer.send(self.write_all(feed, &cancel));
            })?;
        Ok(told)
    }

    /// Writes what comes until nothing more does. A reader that goes away cancels the run, as a
    /// closed pipe ends any program.
    fn write_all(mut self, mut feed: FeedReader, cancel: &CancellationToken) -> Told {
        let mut told = Told::default();
        let mut batch = Vec::new();
        while feed.next_batch(&mut batch) {
            for delivery in batch.drain(..) {
                told.degraded |= self.take(delivery);
            }
            match self.flush() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    told.reader_gone = true;
                    cancel.cancel();
                    break;
                }
                // A half-written line is followed by nothing; the work goes on without output.
                Err(_) => {
                    return Told {
                        unwritable: true,
                        ..Told::default()
                    };
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
            (Self::StreamJson(lines), Delivery::Event(event)) => lines.event(&event),
            (Self::StreamJson(lines), Delivery::Degraded(failure)) => {
                return lines.degraded(&failure);
            }
        }
        false
    }

    /// Writes what is ready.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Text(text) => text.flush(),
            Self::Json(json) => json.flush(),
            Self::StreamJson(lines) => lines.flush(),
        }
    }
}
