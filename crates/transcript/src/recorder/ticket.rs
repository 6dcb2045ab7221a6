//! The answer to "is it on disk?", awaited in a task or on a thread.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::failure::NotSaved;

pub(super) type Answer = Result<(), NotSaved>;

/// Answers once something is on disk, or is known not to be. It needs no runtime, and dropping it
/// changes nothing for the record.
#[derive(Debug)]
#[must_use = "a ticket does nothing but answer"]
pub struct Ticket(State);

#[derive(Debug)]
enum State {
    Ready(Answer),
    Waiting(oneshot::Receiver<Answer>),
}

impl Ticket {
    pub(super) fn ready(answer: Answer) -> Self {
        Self(State::Ready(answer))
    }

    pub(super) fn waiting() -> (oneshot::Sender<Answer>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(State::Waiting(receiver)))
    }

    /// Waits on this thread; `None` where there is no answer within the time.
    #[must_use]
    pub fn wait_blocking(mut self, wait_max: Duration) -> Option<Result<(), NotSaved>> {
        let deadline = Instant::now() + wait_max;
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(answer) = Pin::new(&mut self).poll(&mut context) {
                return Some(answer);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            thread::park_timeout(left);
        }
    }
}

impl Future for Ticket {
    type Output = Result<(), NotSaved>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Ready(answer) => Poll::Ready(answer.clone()),
            // The sender goes without an answer only with the recorder itself.
            State::Waiting(receiver) => Pin::new(receiver)
                .poll(context)
                .map(|answer| answer.unwrap_or(Err(NotSaved::Closed))),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
