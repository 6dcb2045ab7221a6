//! A frame that is accepted, or waits for room.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::oneshot;

use crate::{error::SendError, outgoing::Place, shared::Shared};

/// Resolves once the frame is accepted: from then on it is written unless the writer fails.
///
/// The frame took its place in the order when it was made. Dropping this before takes a notification
/// back; an answer is given in any case.
#[derive(Debug)]
#[must_use = "a frame that waits for room is taken back when this is dropped"]
pub struct Sent(State);

#[derive(Debug)]
enum State {
    Ready(Result<(), SendError>),
    Waiting(Waiting),
    Over,
}

#[derive(Debug)]
struct Waiting {
    shared: Arc<Shared>,
    place: Place,
    told: oneshot::Receiver<()>,
}

impl Sent {
    pub(crate) fn done() -> Self {
        Self(State::Ready(Ok(())))
    }

    pub(crate) fn failed(error: SendError) -> Self {
        Self(State::Ready(Err(error)))
    }

    pub(crate) fn waiting(shared: &Arc<Shared>, place: Place, told: oneshot::Receiver<()>) -> Self {
        Self(State::Waiting(Waiting {
            shared: Arc::clone(shared),
            place,
            told,
        }))
    }
}

impl Future for Sent {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match &mut self.0 {
            State::Waiting(waiting) => {
                let told = ready!(Pin::new(&mut waiting.told).poll(context));
                told.map_err(|_lost| SendError::Closed(waiting.shared.reason()))
            }
            State::Ready(_) | State::Over => match std::mem::replace(&mut self.0, State::Over) {
                State::Ready(result) => return Poll::Ready(result),
                State::Waiting(_) | State::Over => return Poll::Pending,
            },
        };
        self.0 = State::Over;
        Poll::Ready(result)
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let State::Waiting(waiting) = &self.0 {
            waiting.shared.take_back(waiting.place);
        }
    }
}
