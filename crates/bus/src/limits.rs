//! Bounds of one session's fan-out.

use wire::limits::{
    BUS_QUEUE_BYTES_MAX, BUS_REPLAY_BYTES_MAX, BUS_RING_BYTES_MAX, BUS_RING_EVENTS_MAX,
    BUS_SUBSCRIBERS_MAX,
};

/// Bounds of one session's fan-out.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Events in the ring. The newest is there whatever the bounds are.
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

impl Default for Limits {
    fn default() -> Self {
        Self {
            ring_events: BUS_RING_EVENTS_MAX,
            ring_bytes: BUS_RING_BYTES_MAX,
            replay_bytes: BUS_REPLAY_BYTES_MAX,
            subscribers: BUS_SUBSCRIBERS_MAX,
            queue_bytes: BUS_QUEUE_BYTES_MAX,
        }
    }
}
