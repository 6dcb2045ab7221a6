//! A cursor: what one subscriber is to be told next.
//!
//! Plain data without a lock. A stream begins with what its subscriber missed, says where that ends, may say
//! how the session stands, and goes on with what is published. Wherever the ring has dropped what comes next,
//! the subscriber is told so first.

use bytes::Bytes;
use wire::stream::{
    ClientEvicted, ReplayComplete, ResyncDetail, ResyncReason, SlowClientWarning,
    StateResyncRequired,
};

use crate::{pace::Pace, ring::Ring, subscription::From};

/// Where one subscriber is.
#[derive(Debug)]
pub(crate) struct Reader {
    /// The last event that it was given, or was told of as missing.
    cursor: u64,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Replay(Replay),
    Snapshot,
    Live,
    Ended,
}

#[derive(Debug)]
struct Replay {
    /// What is to be said first.
    resync: Option<StateResyncRequired>,
    /// The last event that was there when it subscribed.
    until: u64,
    /// Bytes that it may still be given.
    bytes_left: u64,
    n_replayed: u64,
    last_replayed: Option<u64>,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Events of the bus, whole.
    Events(Bytes),
    /// A frame for this stream alone.
    Own(Own),
    /// How the session stands, where the subscriber asked for it.
    Snapshot,
    /// Nothing yet.
    Wait,
    /// Nothing more.
    End,
}

/// What is said to one stream alone.
#[derive(Debug)]
pub(crate) enum Own {
    Resync(StateResyncRequired),
    Replayed(ReplayComplete),
    Warning(SlowClientWarning),
    Evicted(ClientEvicted),
}

impl Reader {
    /// A cursor where the subscriber says, or where the ring begins if it cannot be there. `epoch_differs`:
    /// it named another bus.
    pub(crate) fn new(from: From, epoch_differs: bool, replay_bytes: usize, ring: &Ring) -> Self {
        let head = ring.head();
        let From::After(after) = from else {
            return Self {
                cursor: head,
                phase: Phase::Snapshot,
            };
        };
        let reason = if epoch_differs || after > head {
            Some(ResyncReason::EpochReset)
        } else if ring.is_empty() && after < head {
            Some(ResyncReason::SeededReplayNotInRing)
        } else if ring.first() > after + 1 {
            Some(ResyncReason::RingEvicted)
        } else {
            None
        };
        let resync = reason.map(|reason| StateResyncRequired {
            reason,
            detail: epoch_differs.then_some(ResyncDetail::EpochMismatch),
            last_delivered_id: after,
            earliest_available_id: ring.first(),
        });
        Self {
            cursor: if resync.is_some() {
                ring.first() - 1
            } else {
                after
            },
            phase: Phase::Replay(Replay {
                resync,
                until: head,
                bytes_left: replay_bytes.try_into().unwrap_or(u64::MAX),
                n_replayed: 0,
                last_replayed: None,
            }),
        }
    }

    /// What comes next; a warning before anything else.
    pub(crate) fn step(&mut self, ring: &mut Ring, pace: &mut Pace, is_closed: bool) -> Step {
        if let Some(warning) = pace.comes_back(ring, self.cursor) {
            return Step::Own(Own::Warning(warning));
        }
        match &mut self.phase {
            Phase::Replay(replay) => {
                if let Some(step) = replay.step(&mut self.cursor, ring) {
                    return step;
                }
                let complete = replay.complete();
                self.phase = Phase::Snapshot;
                Step::Own(Own::Replayed(complete))
            }
            Phase::Snapshot => {
                self.phase = Phase::Live;
                Step::Snapshot
            }
            Phase::Live => self.live(ring, pace, is_closed),
            Phase::Ended => Step::End,
        }
    }

    fn live(&mut self, ring: &mut Ring, pace: &Pace, is_closed: bool) -> Step {
        let eviction = pace.eviction();
        let last = eviction.map_or(ring.head(), |eviction| eviction.dropped_after);
        let is_gone = self.cursor + 1 < ring.first();
        if let Some(eviction) = eviction
            && (is_gone || self.cursor >= last)
        {
            self.phase = Phase::Ended;
            return Step::Own(Own::Evicted(ClientEvicted {
                dropped_after: self.cursor,
                ..eviction
            }));
        }
        if is_gone {
            return Step::Own(Own::Resync(skip_gap(&mut self.cursor, ring)));
        }
        if let Some(chunk) = ring.take(self.cursor, last) {
            self.cursor = chunk.last_id;
            return Step::Events(chunk.bytes);
        }
        if is_closed {
            self.phase = Phase::Ended;
            return Step::End;
        }
        Step::Wait
    }
}

impl Replay {
    /// What comes next of what was; `None` behind it.
    fn step(&mut self, cursor: &mut u64, ring: &mut Ring) -> Option<Step> {
        if let Some(resync) = self.resync.take() {
            return Some(Step::Own(Own::Resync(resync)));
        }
        if *cursor >= self.until {
            return None;
        }
        if *cursor + 1 < ring.first() {
            return Some(Step::Own(Own::Resync(skip_gap(cursor, ring))));
        }
        let from = ring.end_of(*cursor);
        let last = ring.id_at(from.saturating_add(self.bytes_left));
        let Some(chunk) = ring.take(*cursor, last.min(self.until)) else {
            let resync = StateResyncRequired {
                reason: ResyncReason::ReplayBudgetExceeded,
                detail: None,
                last_delivered_id: *cursor,
                earliest_available_id: *cursor + 1,
            };
            *cursor = self.until;
            return Some(Step::Own(Own::Resync(resync)));
        };
        self.bytes_left = self.bytes_left.saturating_sub(chunk.bytes.len() as u64);
        self.n_replayed += chunk.last_id - *cursor;
        self.last_replayed = Some(chunk.last_id);
        *cursor = chunk.last_id;
        Some(Step::Events(chunk.bytes))
    }

    fn complete(&self) -> ReplayComplete {
        ReplayComplete {
            replayed_count: self.n_replayed,
            last_replayed_event_id: self.last_replayed,
            last_event_id: self.last_replayed,
        }
    }
}

/// Moves the cursor to where the ring begins, and says so.
fn skip_gap(cursor: &mut u64, ring: &Ring) -> StateResyncRequired {
    let resync = StateResyncRequired {
        reason: ResyncReason::RingEvicted,
        detail: None,
        last_delivered_id: *cursor,
        earliest_available_id: ring.first(),
    };
    *cursor = ring.first() - 1;
    resync
}
