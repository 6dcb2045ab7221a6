//! What this side says.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};

use crate::{
    encode,
    error::{Closed, RequestError, SendError},
    frame::Outcome,
    id::Id,
    outgoing::Place,
    sent::Sent,
    shared::{Asker, Shared},
};

/// The other side, spoken to. Cheap to clone; all clones share one order.
///
/// Each call takes its place in the order at once, whenever its future is awaited. Params are any
/// value that JSON holds; where they are null, as `()` is, they are left out.
#[derive(Debug, Clone)]
pub struct Peer {
    shared: Arc<Shared>,
}

impl Peer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Sends a notification; waits while the queue is full.
    pub fn notify(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Sent {
        let bytes_max = self.shared.bounds.line_bytes_max;
        self.shared
            .send(encode::notification(method, params, bytes_max))
    }

    /// Sends a notification without waiting, from any thread. It is written after all that was sent
    /// before and before all that is sent later, so that an answer made after it comes after it.
    ///
    /// # Errors
    /// It is larger than [`wire::limits::JSONRPC_NOTICE_BYTES_MAX`], too many of its kind are not yet
    /// written, or the connection is closed.
    pub fn notify_now(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<(), SendError> {
        let frame = encode::notification(method, params, self.shared.notice_bytes_max())?;
        self.shared.send_now(frame)
    }

    /// As [`Peer::notify_now`], for a level: what is lost is said again with its next change. It takes
    /// half of the room at the most, so that it never costs what is said only once.
    ///
    /// # Errors
    /// As [`Peer::notify_now`].
    pub fn notify_level(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<(), SendError> {
        let frame = encode::notification(method, params, self.shared.notice_bytes_max())?;
        self.shared.send_level(frame)
    }

    /// Sends a request. What it is answered with reaches the caller after all messages that were read
    /// before were taken from [`Incoming`](crate::Incoming).
    pub fn request(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Reply {
        self.shared.request(method, params)
    }

    /// Sends a request whose answer is handled in its place: after all messages that were read before it
    /// were taken, and before any that was read later. `then` runs within
    /// [`Incoming::next`](crate::Incoming::next), or wherever the connection ends, and must not wait.
    ///
    /// # Errors
    /// The request was not sent; `then` is not called.
    pub fn request_then(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
        then: impl FnOnce(Result<Box<RawValue>, RequestError>) + Send + 'static,
    ) -> Result<(), RequestError> {
        let asker = Asker::Then(Box::new(then));
        self.shared.ask(method, params, asker).map(drop)
    }

    /// Fires the token of the requests with this id that are not answered; whether there were any.
    pub fn cancel(&self, id: &Id) -> bool {
        self.shared.cancel(id)
    }

    /// Ends the connection from this side: what was sent is still written, nothing more is accepted
    /// or read, and requests fail as closed here. Requests of the other side are no longer answered.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Ends the output at once: what is not written is dropped, and whoever waits for room is told. For an other
    /// side that does not read.
    pub fn abandon(&self) {
        self.shared.end_output(Closed::Here);
    }

    /// How it stands with what is to be written.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.shared.backlog()
    }

    /// Waits for the first reason to end. At the end of input what the other side asked before is
    /// still answered; after a failed write, what it said before is still read.
    pub async fn closed(&self) -> Closed {
        let mut closed = self.shared.closed();
        let reason = closed.wait_for(Option::is_some).await.map(|reason| *reason);
        reason.ok().flatten().unwrap_or(Closed::Here)
    }

    /// Whether there is a reason to end, without waiting.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed().borrow().is_some()
    }

    /// How many lines were bad, as a level to look at or to wait on.
    #[must_use]
    pub fn bad_lines(&self) -> watch::Receiver<BadLines> {
        self.shared.bad_lines()
    }
}

/// How it stands with what is to be written. Where it is not empty and the number stands still, the other side
/// does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Writes that came to their end, since the start.
    pub n_writes: u64,
    /// Nothing is to be written.
    pub is_empty: bool,
}

/// Lines of the other side that were no message, were too long, or answered nothing that was ever
/// asked. Blank lines and late answers count for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BadLines {
    /// Since the start.
    pub n_total: u64,
    /// Since the last message.
    pub n_consecutive: u64,
    /// The most that there were between two messages; a level that never falls, for whoever gives up
    /// on a program at some number.
    pub n_consecutive_max: u64,
}

impl BadLines {
    /// Whether anything changed.
    pub(crate) fn count(&mut self, is_bad: bool) -> bool {
        if !is_bad {
            return std::mem::take(&mut self.n_consecutive) > 0;
        }
        self.n_total += 1;
        self.n_consecutive += 1;
        self.n_consecutive_max = self.n_consecutive_max.max(self.n_consecutive);
        true
    }
}

/// The answer to a request, awaited: the raw result, or why there is none.
///
/// Dropping it forgets the request: a late answer is dropped, and where the request still waits for
/// room it is not sent.
#[derive(Debug)]
#[must_use = "a request that is dropped is forgotten"]
pub struct Reply(State);

#[derive(Debug)]
enum State {
    Failed(RequestError),
    Waiting(Waiting),
    Over,
}

#[derive(Debug)]
struct Waiting {
    shared: Arc<Shared>,
    id: u64,
    place: Place,
    answer: oneshot::Receiver<Outcome>,
}

impl Reply {
    pub(crate) fn failed(error: RequestError) -> Self {
        Self(State::Failed(error))
    }

    pub(crate) fn waiting(
        shared: &Arc<Shared>,
        id: u64,
        place: Place,
        answer: oneshot::Receiver<Outcome>,
    ) -> Self {
        Self(State::Waiting(Waiting {
            shared: Arc::clone(shared),
            id,
            place,
            answer,
        }))
    }

    /// The same answer within a time, waiting for room included; the time runs from the first poll.
    ///
    /// # Errors
    /// As without a limit, and [`RequestError::TimedOut`].
    pub async fn within(self, limit: Duration) -> Result<Box<RawValue>, RequestError> {
        let answer = tokio::time::timeout(limit, self).await;
        answer.unwrap_or(Err(RequestError::TimedOut))
    }
}

impl Future for Reply {
    type Output = Result<Box<RawValue>, RequestError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = match &mut self.0 {
            State::Waiting(waiting) => {
                let answer = ready!(Pin::new(&mut waiting.answer).poll(context));
                answer.unwrap_or_else(|_lost| Err(RequestError::Closed(waiting.shared.reason())))
            }
            State::Failed(_) | State::Over => match std::mem::replace(&mut self.0, State::Over) {
                State::Failed(error) => return Poll::Ready(Err(error)),
                State::Waiting(_) | State::Over => return Poll::Pending,
            },
        };
        self.0 = State::Over;
        Poll::Ready(outcome)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let State::Waiting(waiting) = &self.0 {
            waiting.shared.forget(waiting.id, waiting.place);
        }
    }
}
