//! What a child says of sessions that are not open yet (R17), and what it may still say of closed ones.
//!
//! It is of one child: another begins with nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::value::RawValue;
use tokio::time::Instant;
use wire::{
    limits::{
        ACP_REPLAY_BYTES_MAX, ACP_REPLAY_UPDATES_MAX, EARLY_FRAMES_MAX, EARLY_SESSIONS_MAX,
        EARLY_WAIT_MAX, TOMBSTONE_WAIT_MAX, TOMBSTONES_MAX,
    },
    recording::{FaultClass, RecordingState},
};

/// A word about a session's record that came before the session was open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EarlyEvent {
    /// Its record failed.
    Degraded,
    /// The level of its record, and why it is that.
    State(RecordingState, Option<FaultClass>),
}

/// Why nothing is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The session was closed a moment ago, or its restore was given up.
    Tombstone,
    /// Too many sessions are waited for.
    Sessions,
    /// Too much was kept of this one.
    Frames,
}

/// A stored session's updates that came before the answer.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) updates: VecDeque<Box<RawValue>>,
    n_bytes: usize,
    /// The oldest made room.
    pub(crate) is_partial: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Early {
    sessions: BTreeMap<String, Vec<(Instant, EarlyEvent)>>,
    restoring: BTreeMap<String, Replay>,
    /// Restores that were given up and are not answered.
    fenced: BTreeSet<String>,
    /// Closed sessions, the oldest first.
    tombstones: VecDeque<(Instant, String)>,
}

impl Early {
    /// Keeps an event. What stood too long makes room, and only then: a late drain finds it as well.
    pub(crate) fn keep(&mut self, id: &str, event: EarlyEvent) -> Result<(), Refused> {
        let now = Instant::now();
        self.sessions.retain(|_, events| {
            events.retain(|(at, _)| now.duration_since(*at) <= EARLY_WAIT_MAX);
            !events.is_empty()
        });
        if self.is_refused(id) {
            return Err(Refused::Tombstone);
        }
        if !self.sessions.contains_key(id) && self.sessions.len() >= EARLY_SESSIONS_MAX {
            return Err(Refused::Sessions);
        }
        let events = self.sessions.entry(id.to_owned()).or_default();
        if events.len() >= EARLY_FRAMES_MAX {
            return Err(Refused::Frames);
        }
        events.push((now, event));
        Ok(())
    }

    fn is_refused(&mut self, id: &str) -> bool {
        let now = Instant::now();
        while let Some((at, _)) = self.tombstones.front()
            && now.duration_since(*at) > TOMBSTONE_WAIT_MAX
        {
            self.tombstones.pop_front();
        }
        self.fenced.contains(id) || self.tombstones.iter().any(|(_, closed)| closed == id)
    }

    /// Keeps an update of a session that is being restored; whether it is.
    pub(crate) fn keep_update(&mut self, id: &str, update: &RawValue) -> bool {
        let Some(replay) = self.restoring.get_mut(id) else {
            return false;
        };
        replay.n_bytes += update.get().len();
        replay.updates.push_back(update.to_owned());
        while replay.updates.len() > ACP_REPLAY_UPDATES_MAX || replay.n_bytes > ACP_REPLAY_BYTES_MAX
        {
            let Some(oldest) = replay.updates.pop_front() else {
                break;
            };
            replay.n_bytes -= oldest.get().len();
            replay.is_partial = true;
        }
        true
    }

    /// A session of this id was asked for: what is said of it is not of its past.
    pub(crate) fn expect(&mut self, id: &str) {
        self.tombstones.retain(|(_, closed)| closed != id);
    }

    /// A stored session was asked for.
    pub(crate) fn expect_restore(&mut self, id: &str) {
        self.expect(id);
        self.restoring.insert(id.to_owned(), Replay::default());
    }

    /// A restore was given up: nothing of it counts until it is answered.
    pub(crate) fn fence(&mut self, id: &str) {
        self.restoring.remove(id);
        self.sessions.remove(id);
        self.fenced.insert(id.to_owned());
    }

    /// A restore was answered, or its request lost.
    pub(crate) fn settle(&mut self, id: &str) -> Replay {
        self.fenced.remove(id);
        self.restoring.remove(id).unwrap_or_default()
    }

    /// The session is open: what was kept of it, in its order.
    pub(crate) fn drain(&mut self, id: &str) -> Vec<EarlyEvent> {
        self.expect(id);
        let events = self.sessions.remove(id).unwrap_or_default();
        events.into_iter().map(|(_, event)| event).collect()
    }

    /// The session is closed.
    pub(crate) fn bury(&mut self, id: &str) {
        self.expect(id);
        self.sessions.remove(id);
        if self.tombstones.len() >= TOMBSTONES_MAX {
            self.tombstones.pop_front();
        }
        self.tombstones.push_back((Instant::now(), id.to_owned()));
    }
}
