//! How one subscriber keeps up, and when it has not.
//!
//! Plain data without a lock. Only what is published while a subscriber is away counts, and of that the first
//! batch is its due: the crate's head says why.

use wire::{
    limits::{BUS_QUEUE_REARM_PER_MILLE, BUS_QUEUE_WARN_PERCENT},
    stream::{ClientEvicted, EvictionReason, SlowClientWarning, Threshold},
};

use crate::ring::Ring;

/// How much may be published while a subscriber is away.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueMax {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
}

/// How one subscriber keeps up.
#[derive(Debug)]
pub(crate) struct Pace {
    max: QueueMax,
    stand: Stand,
    /// Whether it has been warned, and has not come back to little since.
    is_warned: bool,
}

#[derive(Debug, Clone, Copy)]
enum Stand {
    /// It waits for news, or has not begun.
    Here,
    /// It was given something and has not come back.
    Away(Leave),
    /// It was away for too long.
    Evicted(ClientEvicted),
}

#[derive(Debug, Clone, Copy)]
struct Leave {
    /// The last event when it left.
    head: u64,
    /// Where that ended.
    offset: u64,
    /// The last event of the first batch since then.
    due: Option<u64>,
}

/// What waits for a subscriber: what was published while it was away, or all that it has not read.
#[derive(Debug, Clone, Copy)]
struct Queue {
    frames: u64,
    bytes: u64,
}

impl Pace {
    pub(crate) fn new(max: QueueMax) -> Self {
        Self {
            max,
            stand: Stand::Here,
            is_warned: false,
        }
    }

    /// It waits for news.
    pub(crate) fn waits(&mut self) {
        if !self.is_evicted() {
            self.stand = Stand::Here;
        }
    }

    /// It leaves, having been given something or having given up waiting.
    pub(crate) fn leaves(&mut self, ring: &Ring) {
        if !self.is_evicted() {
            self.stand = Stand::Away(Leave {
                head: ring.head(),
                offset: ring.end(),
                due: None,
            });
        }
    }

    /// It asks for more, having been given the events up to `cursor`. The warning that it has earned.
    pub(crate) fn comes_back(&mut self, ring: &Ring, cursor: u64) -> Option<SlowClientWarning> {
        let Stand::Away(leave) = self.stand else {
            return None;
        };
        self.stand = Stand::Here;
        let queue = leave.queue(ring);
        let unread = Queue {
            frames: ring.head() - cursor,
            bytes: ring.end() - ring.end_of(cursor),
        };
        if self.max.is_short(unread) {
            self.is_warned = false;
        }
        let threshold = self.max.threshold(queue)?;
        let is_judged = leave.due.is_some_and(|due| due < ring.head());
        if self.is_warned || !is_judged {
            return None;
        }
        self.is_warned = true;
        Some(SlowClientWarning {
            queue_size: queue.frames,
            max_queued: self.max.frames,
            last_event_id: cursor,
            queued_bytes: queue.bytes,
            max_queued_bytes: self.max.bytes,
            threshold,
        })
    }

    /// A batch has ended. Whether it was one too many.
    pub(crate) fn batch_ended(&mut self, ring: &Ring) -> bool {
        let Stand::Away(leave) = &mut self.stand else {
            return false;
        };
        let Some(due) = leave.due else {
            leave.due = Some(ring.head());
            return false;
        };
        let eviction = self.max.eviction(leave, due, ring);
        if let Some(eviction) = eviction {
            self.stand = Stand::Evicted(eviction);
        }
        eviction.is_some()
    }

    /// What it is told if it was away for too long.
    pub(crate) fn eviction(&self) -> Option<ClientEvicted> {
        match self.stand {
            Stand::Evicted(eviction) => Some(eviction),
            Stand::Here | Stand::Away(_) => None,
        }
    }

    fn is_evicted(&self) -> bool {
        matches!(self.stand, Stand::Evicted(_))
    }
}

impl Leave {
    fn queue(&self, ring: &Ring) -> Queue {
        Queue {
            frames: ring.head() - self.head,
            bytes: ring.end() - self.offset,
        }
    }
}

impl QueueMax {
    fn threshold(&self, queue: Queue) -> Option<Threshold> {
        let is_high = |n: u64, max: u64| n * 100 >= max.saturating_mul(BUS_QUEUE_WARN_PERCENT);
        match (
            is_high(queue.frames, self.frames),
            is_high(queue.bytes, self.bytes),
        ) {
            (true, true) => Some(Threshold::FramesAndBytes),
            (true, false) => Some(Threshold::Frames),
            (false, true) => Some(Threshold::Bytes),
            (false, false) => None,
        }
    }

    /// Whether there is reason to warn again when it grows again.
    fn is_short(&self, queue: Queue) -> bool {
        let is_low = |n: u64, max: u64| n * 1_000 <= max.saturating_mul(BUS_QUEUE_REARM_PER_MILLE);
        is_low(queue.frames, self.frames) && is_low(queue.bytes, self.bytes)
    }

    /// The end of a subscriber whose queue is over a limit, behind the last event that fits, or that was its
    /// due.
    fn eviction(&self, leave: &Leave, due: u64, ring: &Ring) -> Option<ClientEvicted> {
        let queue = leave.queue(ring);
        if queue.frames <= self.frames && queue.bytes <= self.bytes {
            return None;
        }
        let last_by_frames = leave.head.saturating_add(self.frames);
        let last_by_bytes = ring.id_at(leave.offset.saturating_add(self.bytes));
        let reason = if last_by_frames <= last_by_bytes {
            EvictionReason::QueueOverflow
        } else {
            EvictionReason::QueueBytesOverflow
        };
        let last = last_by_frames.min(last_by_bytes).max(due);
        let event_bytes = ring.end_of(last + 1) - ring.end_of(last);
        Some(ClientEvicted {
            reason,
            dropped_after: last,
            queue_size: last - leave.head,
            max_queued: self.frames,
            queued_bytes: ring.end_of(last).saturating_sub(leave.offset),
            max_queued_bytes: self.bytes,
            event_bytes: (reason == EvictionReason::QueueBytesOverflow).then_some(event_bytes),
        })
    }
}
