//! The fan-out of one session: a bounded replay ring and bounded subscribers.
//!
//! Events are rendered once, as server-sent events, into a shared log; a subscriber is a cursor into it.
//! What a subscriber is given is whole frames, in the order of their ids, with nothing left out in silence:
//! where something is missing it is told so by `state_resync_required`, where it was too slow by
//! `client_evicted`, and a terminal event is the last that it sees.
//!
//! This crate knows neither who publishes nor who listens.

use bytes::Bytes;
use wire::event::NewEvent;

/// Bounds of one session's fan-out.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Events in the ring.
    pub ring_events: usize,
    /// Bytes of rendered frames in the ring.
    pub ring_bytes: usize,
    /// Bytes that one subscription replays.
    pub replay_bytes: usize,
    /// Subscribers at a time.
    pub subscribers: usize,
    /// Bytes that wait for one subscriber.
    pub queue_bytes: usize,
}

/// The fan-out of one session. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bus {}

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
    /// The data of `session_snapshot`, read at the moment when it is written.
    pub snapshot: Option<Box<dyn Fn() -> String + Send>>,
    /// The time, ms since 1970, for frames of this stream alone.
    pub now_ms: fn() -> u64,
}

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

/// One subscriber. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {}

/// What happened to subscribers since the bus began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Given up because they were too slow.
    pub evictions: u64,
    /// Told that something is missing.
    pub resyncs: u64,
}

/// Events that are published together: subscribers are woken once, when it is dropped.
#[derive(Debug)]
pub struct Batch<'a> {
    _bus: &'a Bus,
}

impl Bus {
    /// An empty bus.
    #[must_use]
    pub fn new(_epoch: String, _limits: Limits) -> Self {
        Self {}
    }

    /// Names this bus; a cursor of another means nothing here.
    #[must_use]
    pub fn epoch(&self) -> &str {
        unimplemented!()
    }

    /// The id of the last event; 0 before the first.
    #[must_use]
    pub fn head(&self) -> u64 {
        unimplemented!()
    }

    /// Counts `n` ids as used by events that were told elsewhere and are not in the ring (a cold load).
    pub fn seed(&self, _n: u64) {
        unimplemented!()
    }

    /// Publishes one event; its id, or `None` where the bus is closed.
    pub fn publish(&self, _event: &NewEvent<'_>) -> Option<u64> {
        unimplemented!()
    }

    /// Publishes several events at once.
    #[must_use]
    pub fn batch(&self) -> Batch<'_> {
        Batch { _bus: self }
    }

    /// Ends all subscriptions behind what was published; later events are dropped.
    pub fn close(&self) {
        unimplemented!()
    }

    /// Subscribes: what was and what follows, without a gap between them.
    ///
    /// # Errors
    /// There are too many already.
    pub fn subscribe(&self, _subscribe: Subscribe) -> Result<Subscription, SubscribeError> {
        unimplemented!()
    }

    /// Subscribers of now.
    #[must_use]
    pub fn n_subscribers(&self) -> usize {
        unimplemented!()
    }

    /// See [`Counts`].
    #[must_use]
    pub fn counts(&self) -> Counts {
        unimplemented!()
    }
}

impl Batch<'_> {
    /// As [`Bus::publish`].
    pub fn publish(&mut self, _event: &NewEvent<'_>) -> Option<u64> {
        unimplemented!()
    }
}

impl Subscription {
    /// All that is ready, as whole frames; waits where nothing is. `None` once nothing more comes. Nothing
    /// is lost where its future is dropped.
    pub async fn next(&mut self) -> Option<Bytes> {
        unimplemented!()
    }
}

impl std::fmt::Debug for Subscribe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscribe")
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}
