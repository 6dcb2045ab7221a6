//! The publisher's end.

use std::sync::Arc;

use wire::event::NewEvent;

use crate::{
    limits::Limits,
    pace::{Pace, QueueMax},
    reader::Reader,
    shared::Shared,
    subscription::{Subscribe, SubscribeError, Subscription},
};

/// The fan-out of one session. Cheap to clone; the last one that is dropped closes it.
#[derive(Debug, Clone)]
pub struct Bus {
    owner: Arc<Owner>,
}

/// Whoever waits for news of a bus that nobody can publish on is told the end.
#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// What happened to subscribers since the bus began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Given up because they were too slow.
    pub evictions: u64,
    /// Told that something is missing.
    pub resyncs: u64,
}

/// Events that are published together: subscribers are woken once, when it is dropped. Keep it no longer than
/// it takes to publish what has arrived, and yield between two of them, so that subscribers can run.
#[derive(Debug)]
pub struct Batch<'a> {
    bus: &'a Bus,
    is_empty: bool,
}

impl Bus {
    /// An empty bus.
    #[must_use]
    pub fn new(epoch: String, limits: Limits) -> Self {
        let shared = Arc::new(Shared::new(epoch, limits));
        Self {
            owner: Arc::new(Owner { shared }),
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// Names this bus; a cursor of another means nothing here.
    #[must_use]
    pub fn epoch(&self) -> &str {
        &self.shared().epoch
    }

    /// The id of the last event; 0 before the first.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.shared().lock().ring.head()
    }

    /// Counts `n` ids as used by events that were told elsewhere and are not in the ring (a cold load). The
    /// ring is empty afterwards.
    pub fn seed(&self, n: u64) {
        self.shared().lock().ring.seed(n);
    }

    /// Publishes one event; its id, or `None` where the bus is closed.
    pub fn publish(&self, event: &NewEvent<'_>) -> Option<u64> {
        let mut state = self.shared().lock();
        let id = state.publish(event)?;
        let wakers = state.batch_ended();
        drop(state);
        wakers.wake();
        Some(id)
    }

    /// Publishes several events at once.
    #[must_use]
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            bus: self,
            is_empty: true,
        }
    }

    /// Publishes the last event, and closes in the same step, so that no other publisher comes behind it; its
    /// id, or `None` where the bus is closed already.
    pub fn close_with(&self, event: &NewEvent<'_>) -> Option<u64> {
        let mut state = self.shared().lock();
        let id = state.publish(event)?;
        state.is_closed = true;
        let wakers = state.batch_ended();
        drop(state);
        wakers.wake();
        Some(id)
    }

    /// Ends all subscriptions behind what was published; later events are dropped.
    pub fn close(&self) {
        self.shared().close();
    }

    /// Subscribes: what was and what follows, without a gap between them.
    ///
    /// # Errors
    /// There are too many already.
    pub fn subscribe(&self, subscribe: Subscribe) -> Result<Subscription, SubscribeError> {
        let shared = self.shared();
        let limits = &shared.limits;
        let max = QueueMax {
            frames: subscribe.queue_frames as u64,
            bytes: limits.queue_bytes as u64,
        };
        let epoch_differs = subscribe.epoch.is_some_and(|epoch| epoch != shared.epoch);
        let mut state = shared.lock();
        if state.places.n_taken() >= limits.subscribers {
            return Err(SubscribeError::TooMany {
                limit: limits.subscribers,
            });
        }
        let reader = Reader::new(
            subscribe.from,
            epoch_differs,
            limits.replay_bytes,
            &state.ring,
        );
        let place = state.places.enter(Pace::new(max));
        drop(state);
        Ok(Subscription::new(
            Arc::clone(shared),
            place,
            reader,
            subscribe.snapshot,
            subscribe.now_ms,
        ))
    }

    /// Subscribers of now.
    #[must_use]
    pub fn n_subscribers(&self) -> usize {
        self.shared().lock().places.n_taken()
    }

    /// See [`Counts`].
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared().lock().counts
    }
}

impl Batch<'_> {
    /// As [`Bus::publish`].
    pub fn publish(&mut self, event: &NewEvent<'_>) -> Option<u64> {
        let id = self.bus.shared().lock().publish(event)?;
        self.is_empty = false;
        Some(id)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if !self.is_empty {
            let wakers = self.bus.shared().lock().batch_ended();
            wakers.wake();
        }
    }
}
