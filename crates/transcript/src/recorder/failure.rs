//! What is known of a failure, and how it is answered.

use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rustix::io::Errno;
use tokio::sync::oneshot;
use wire::recording::FaultClass;

use crate::fault::class_of;

/// The first failed write of a recorder. What it shows holds no path, no errno and none of the
/// system's words (R28); those go to the local log alone.
#[derive(Clone)]
pub struct RecordingFailure {
    /// The session of the record that failed (R2).
    pub session_id: String,
    /// The cause.
    pub class: FaultClass,
    /// The first record that is not on disk in full; `None` where the file itself is lost.
    pub first_lost_uuid: Option<String>,
    /// The last record that is; `None` where there is none, or where the file itself is lost.
    pub last_record_uuid: Option<String>,
}

impl fmt::Debug for RecordingFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingFailure")
            .field("session_id", &self.session_id)
            .field("class", &self.class)
            .finish_non_exhaustive()
    }
}

/// Why a record is not on disk.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotSaved {
    /// A write failed (R1).
    #[error("recording stopped: {}", .0.class.as_str())]
    Failed(Arc<RecordingFailure>),
    /// The file could not be created (R4).
    #[error("the transcript could not be created: {}", .0.as_str())]
    NeverStarted(FaultClass),
    /// The recorder was closed before.
    #[error("the recorder is closed")]
    Closed,
}

/// Answers when something is on disk, or never will be. It can be dropped.
#[derive(Debug)]
pub struct Ticket(Answer);

#[derive(Debug)]
enum Answer {
    Ready(Option<Result<(), NotSaved>>),
    Waiting(oneshot::Receiver<Result<(), NotSaved>>),
}

impl Ticket {
    pub(super) fn ready(answer: Result<(), NotSaved>) -> Self {
        Self(Answer::Ready(Some(answer)))
    }

    pub(super) fn waiting(answer: oneshot::Receiver<Result<(), NotSaved>>) -> Self {
        Self(Answer::Waiting(answer))
    }

    /// Waits on this thread; `None` at the end of the time.
    #[must_use]
    pub fn wait_blocking(self, wait_max: Duration) -> Option<Result<(), NotSaved>> {
        match self.0 {
            Answer::Ready(answer) => answer,
            Answer::Waiting(receiver) => {
                let (sender, answer) = std::sync::mpsc::sync_channel(1);
                std::thread::spawn(move || {
                    let answer = receiver.blocking_recv().unwrap_or(Err(NotSaved::Closed));
                    // Dropped: nobody waits any more.
                    _ = sender.send(answer);
                });
                answer.recv_timeout(wait_max).ok()
            }
        }
    }
}

impl Future for Ticket {
    type Output = Result<(), NotSaved>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Answer::Ready(answer) => Poll::Ready(answer.take().unwrap_or(Err(NotSaved::Closed))),
            Answer::Waiting(receiver) => Pin::new(receiver)
                .poll(context)
                .map(|answer| answer.unwrap_or(Err(NotSaved::Closed))),
        }
    }
}

/// A failed step of the writer, as the local log takes it.
#[derive(Debug)]
pub(super) struct Cause {
    pub(super) class: FaultClass,
    pub(super) error: String,
    pub(super) errno: Option<i32>,
}

impl Cause {
    pub(super) fn of(error: &io::Error) -> Self {
        Self {
            class: class_of(error),
            error: error.to_string(),
            errno: Errno::from_io_error(error).map(Errno::raw_os_error),
        }
    }

    pub(super) fn new(class: FaultClass, error: &str) -> Self {
        Self {
            class,
            error: error.to_owned(),
            errno: None,
        }
    }
}
