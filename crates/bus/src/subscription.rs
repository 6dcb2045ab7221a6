//! The subscriber's end.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use wire::stream::{
    ClientEvicted, ReplayComplete, SESSION_SNAPSHOT, SlowClientWarning, StateResyncRequired,
};

use crate::{
    reader::{Own, Reader, Step},
    render::{own_frame, own_raw_frame},
    shared::Shared,
};

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// With the next event.
    Live,
    /// Behind this id.
    After(u64),
}

/// What a subscriber asks for.
pub struct Subscribe {
    /// Where it begins.
    pub from: From,
    /// The epoch that its cursor belongs to; absent where it did not say.
    pub epoch: Option<String>,
    /// Frames that may wait for it.
    pub queue_frames: usize,
    /// The data of `session_snapshot`, JSON, read once, at the moment when it is written. It may take the lock
    /// under which events are published.
    pub snapshot: Option<Snapshot>,
    /// The time, ms since 1970, for frames of this stream alone.
    pub now_ms: fn() -> u64,
}

/// Reads how a session stands.
pub type Snapshot = Box<dyn Fn() -> String + Send>;

/// Why there is no subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// There are too many already.
    #[error("more than {limit} streams of one session")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}

/// One subscriber. Dropping it ends the subscription and frees its place.
pub struct Subscription {
    shared: Arc<Shared>,
    place: usize,
    reader: Reader,
    snapshot: Option<Snapshot>,
    now_ms: fn() -> u64,
}

impl Subscription {
    pub(crate) fn new(
        shared: Arc<Shared>,
        place: usize,
        reader: Reader,
        snapshot: Option<Snapshot>,
        now_ms: fn() -> u64,
    ) -> Self {
        Self {
            shared,
            place,
            reader,
            snapshot,
            now_ms,
        }
    }

    /// All that is ready, as whole frames; waits where nothing is. `None` once nothing more comes. Nothing
    /// is lost where its future is dropped.
    pub async fn next(&mut self) -> Option<Bytes> {
        let waiting = Waiting {
            subscription: self,
            is_pending: false,
        };
        waiting.await
    }

    /// The same for those who are polled themselves. Whoever was told to wait counts as waiting until it asks
    /// again.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match self.step(cx) {
                Step::Events(bytes) => return Poll::Ready(Some(bytes)),
                Step::Own(own) => return Poll::Ready(Some(own.frame((self.now_ms)()))),
                Step::Snapshot => {
                    if let Some(read) = self.snapshot.take() {
                        let data = read();
                        let frame = own_raw_frame(SESSION_SNAPSHOT, &data, (self.now_ms)());
                        return Poll::Ready(Some(frame));
                    }
                }
                Step::Wait => return Poll::Pending,
                Step::End => return Poll::Ready(None),
            }
        }
    }

    fn step(&mut self, cx: &Context<'_>) -> Step {
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let place = state.places.get(self.place);
        let step = self
            .reader
            .step(&mut state.ring, &mut place.pace, state.is_closed);
        let mut stale = None;
        match &step {
            Step::Wait => {
                place.pace.waits();
                if !place
                    .waker
                    .as_ref()
                    .is_some_and(|at| at.will_wake(cx.waker()))
                {
                    stale = place.waker.replace(cx.waker().clone());
                }
            }
            Step::Events(_) | Step::Own(_) => place.pace.leaves(&state.ring),
            Step::Snapshot if self.snapshot.is_some() => place.pace.leaves(&state.ring),
            Step::Snapshot | Step::End => {}
        }
        if let Step::Own(Own::Resync(_)) = step {
            state.counts.resyncs += 1;
        }
        drop(guard);
        // The waker of another task is foreign code, as far as the lock is concerned.
        drop(stale);
        step
    }

    /// It no longer waits, and was given nothing.
    fn gives_up_waiting(&mut self) {
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let place = state.places.get(self.place);
        place.pace.leaves(&state.ring);
        let waker = place.waker.take();
        drop(guard);
        drop(waker);
    }
}

impl Own {
    fn frame(&self, at_ms: u64) -> Bytes {
        match self {
            Own::Resync(data) => own_frame(StateResyncRequired::KIND, data, at_ms),
            Own::Replayed(data) => own_frame(ReplayComplete::KIND, data, at_ms),
            Own::Warning(data) => own_frame(SlowClientWarning::KIND, data, at_ms),
            Own::Evicted(data) => own_frame(ClientEvicted::KIND, data, at_ms),
        }
    }
}

/// The future of [`Subscription::next`]. One that is dropped while it waits takes its subscriber away.
struct Waiting<'a> {
    subscription: &'a mut Subscription,
    is_pending: bool,
}

impl Future for Waiting<'_> {
    type Output = Option<Bytes>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let poll = self.subscription.poll_next(cx);
        self.is_pending = poll.is_pending();
        poll
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_pending {
            self.subscription.gives_up_waiting();
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let place = self.shared.lock().places.leave(self.place);
        drop(place);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscribe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscribe")
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}
