//! What was accepted and is not on disk yet, and how far the record has come.
//!
//! Plain data without a lock, a thread or a file: [`super::shared`] guards it.

use std::{mem, sync::Arc, thread::ThreadId};

use tokio::sync::oneshot;
use wire::{
    limits::TITLE_ANCHOR_BYTES,
    recording::{FaultClass, RecordingReport, RecordingState},
};

use super::{
    Bounds,
    failure::{NotSaved, RecordingFailure},
    line::{Context, Draft, Id, Ids, Parent},
    ticket::Answer,
    writer::Writer,
};
use crate::lock::Lock;

/// How it stands with the file.
#[derive(Debug)]
pub(super) enum Phase {
    /// It is written, or will be once there is a record.
    Sound,
    /// It could not be created; what was accepted waits for the next try (R4).
    Waiting(FaultClass),
    /// Too much waited; no file is ever created (B7).
    GivenUp(FaultClass),
    /// A write failed; nothing is ever written again (R1).
    Failed {
        failure: Arc<RecordingFailure>,
        /// Listeners have it; before that, nobody who asks is answered.
        is_told: bool,
        /// The local log has it, or cannot take it.
        is_logged: bool,
    },
}

/// How deep the writer sleeps, so that a caller knows whether it has to wake it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sleep {
    Awake,
    /// It looks again within a millisecond.
    Napping,
    Deep,
}

/// Somebody who waits for an answer.
#[derive(Debug)]
pub(super) struct Waiter {
    /// The number of the record that is waited for; `None` for everything, and the file in its place.
    pub(super) record: Option<u64>,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// Where a record stands in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It is the parent of the next.
    Chain,
    /// The next record is its sibling.
    Side,
}

#[derive(Debug)]
pub(super) struct Queue {
    ids: Arc<Ids>,
    context: Context,
    parent: Parent,
    title: Option<Draft>,
    /// Bytes of other records since the title was written.
    bytes_since_title: u64,
    /// Whether this recorder wrote any other record since.
    title_is_followed: bool,

    /// Whole lines, not yet taken by the writer.
    lines: Vec<u8>,
    /// Bytes that the writer has taken and not yet put on disk.
    n_bytes_in_flight: usize,
    /// The first record among those.
    first_in_flight: Option<Id>,
    n_accepted: u64,
    n_saved: u64,
    last_saved: Option<String>,

    pub(super) phase: Phase,
    pub(super) waiters: Vec<Waiter>,
    /// Who waits for the end of the writer.
    pub(super) closers: Vec<oneshot::Sender<Answer>>,
    /// Nothing more is accepted.
    pub(super) is_closing: bool,
    /// The writer has ended, or never will begin.
    pub(super) has_ended: bool,
    /// The file has to be looked at even though there is nothing to write.
    pub(super) is_check_due: bool,

    /// The writer, until it has a thread.
    pub(super) unborn: Option<Writer>,
    /// Whether the next record has to start that thread.
    pub(super) is_birth_due: bool,
    /// Its thread.
    pub(super) writer: Option<ThreadId>,
    pub(super) sleep: Sleep,
    /// Whether the file is open.
    pub(super) is_open: bool,
    /// It was opened just now, and nothing is written yet.
    pub(super) is_fresh: bool,
    /// Tries to open it, begun and failed.
    pub(super) n_tries: u64,
    pub(super) n_tries_failed: u64,
    /// Records accepted when the last one began.
    n_accepted_at_try: u64,
    /// Those who waited when it began.
    pub(super) n_waiters_at_try: usize,
    /// Somebody waits for another try.
    pub(super) is_try_due: bool,
    /// The file is to be opened although nothing is to be written.
    pub(super) is_mend_due: bool,
    /// Callers that wait for room.
    pub(super) n_waiting_for_room: usize,
    /// Held from the first record to the end.
    pub(super) lock: Option<Lock>,
}

impl Queue {
    pub(super) fn new(
        ids: Arc<Ids>,
        context: Context,
        tail: Option<String>,
        title: Option<Draft>,
    ) -> Self {
        Self {
            ids,
            context,
            parent: Parent::new(tail.as_deref()),
            // A title that is in the file already may be anywhere in it: it is due with the first
            // record, and not before.
            bytes_since_title: if title.is_some() {
                TITLE_ANCHOR_BYTES
            } else {
                0
            },
            title,
            title_is_followed: false,
            lines: Vec::new(),
            n_bytes_in_flight: 0,
            first_in_flight: None,
            n_accepted: 0,
            n_saved: 0,
            last_saved: tail,
            phase: Phase::Sound,
            waiters: Vec::new(),
            closers: Vec::new(),
            is_closing: false,
            has_ended: false,
            is_check_due: false,
            unborn: None,
            is_birth_due: true,
            writer: None,
            sleep: Sleep::Awake,
            is_open: false,
            is_fresh: false,
            n_tries: 0,
            n_tries_failed: 0,
            n_accepted_at_try: 0,
            n_waiters_at_try: 0,
            is_try_due: false,
            is_mend_due: false,
            n_waiting_for_room: 0,
            lock: None,
        }
    }

    pub(super) fn set_branch(&mut self, branch: Option<&str>) {
        self.context.set_branch(branch);
    }

    /// Whether the recorder has come to an end, be it a failure, and nothing is written any more.
    pub(super) fn is_over(&self) -> bool {
        match self.phase {
            Phase::Failed { .. } | Phase::GivenUp(_) => true,
            Phase::Sound | Phase::Waiting(_) => false,
        }
    }

    /// Whether nothing more will happen, be it good or bad.
    pub(super) fn is_settled(&self) -> bool {
        match self.phase {
            Phase::Failed { is_logged, .. } => is_logged,
            Phase::GivenUp(_) => true,
            Phase::Sound | Phase::Waiting(_) => self.has_ended,
        }
    }

    pub(super) fn level(&self) -> RecordingState {
        match self.phase {
            Phase::Failed { .. } => RecordingState::Degraded,
            Phase::Waiting(_) | Phase::GivenUp(_) => RecordingState::NeverStarted,
            Phase::Sound if self.n_saved < self.n_accepted => RecordingState::Pending,
            Phase::Sound => RecordingState::Saved,
        }
    }

    pub(super) fn report(&self) -> RecordingReport {
        let class = match &self.phase {
            Phase::Failed { failure, .. } => Some(failure.class),
            Phase::Waiting(class) | Phase::GivenUp(class) => Some(*class),
            Phase::Sound => None,
        };
        RecordingReport {
            state: self.level(),
            class,
            last_record_uuid: self.last_saved.clone(),
        }
    }

    /// The answer to "is everything on disk?" of one who cannot wait for more.
    pub(super) fn verdict(&self) -> Answer {
        match &self.phase {
            Phase::Failed { failure, .. } => Err(NotSaved::Failed(Arc::clone(failure))),
            Phase::Waiting(class) | Phase::GivenUp(class) => Err(NotSaved::NeverStarted(*class)),
            Phase::Sound if self.n_saved == self.n_accepted => Ok(()),
            Phase::Sound => Err(NotSaved::Closed),
        }
    }

    // Accepting.

    /// Bytes that are accepted and not on disk.
    pub(super) fn n_bytes_unsaved(&self) -> usize {
        self.lines.len() + self.n_bytes_in_flight
    }

    /// Whether this record has room. One that is larger than the whole queue has it when it is alone.
    pub(super) fn has_room_for(&self, draft: &Draft, bounds: &Bounds) -> bool {
        let n_bytes = draft.line_bytes(&self.context, &self.parent);
        let n_bytes_max = match self.phase {
            Phase::Waiting(_) => bounds.waiting_bytes_max,
            Phase::Sound | Phase::GivenUp(_) | Phase::Failed { .. } => bounds.queue_bytes_max,
        };
        self.n_bytes_unsaved() == 0 || self.n_bytes_unsaved() + n_bytes <= n_bytes_max
    }

    /// Accepts a record, and the title again where it is due; answers the record's number.
    pub(super) fn accept(&mut self, draft: &Draft) -> u64 {
        let n_bytes = self.push(draft, Place::Chain);
        let number = self.n_accepted;
        if draft.is_title {
            self.title = Some(draft.clone());
            self.bytes_since_title = 0;
            self.title_is_followed = false;
            return number;
        }
        self.bytes_since_title += n_bytes as u64;
        self.title_is_followed = true;
        if self.bytes_since_title >= TITLE_ANCHOR_BYTES {
            self.repeat_title(draft.time, Place::Side);
        }
        number
    }

    /// Writes the title once more where something followed it, so that whoever reads the end of the
    /// file finds it. It is small, and does not wait for room.
    pub(super) fn accept_last_title(&mut self, time: jiff::Timestamp) {
        if self.title_is_followed {
            self.repeat_title(time, Place::Chain);
        }
    }

    fn repeat_title(&mut self, time: jiff::Timestamp, place: Place) {
        let Some(mut title) = self.title.take() else {
            return;
        };
        title.renew(self.ids.next(), time);
        self.push(&title, place);
        self.title = Some(title);
        self.bytes_since_title = 0;
        self.title_is_followed = false;
    }

    fn push(&mut self, draft: &Draft, place: Place) -> usize {
        let before = self.lines.len();
        draft.push_line(&mut self.lines, &self.context, &self.parent);
        if place == Place::Chain {
            self.parent.set(draft.id);
        }
        self.n_accepted += 1;
        self.lines.len() - before
    }

    /// The number of the last record accepted.
    pub(super) fn n_accepted(&self) -> u64 {
        self.n_accepted
    }

    // Writing.

    pub(super) fn n_bytes_ready(&self) -> usize {
        self.lines.len()
    }

    /// Whether anything was accepted, or is asked, that the last try to open did not see.
    pub(super) fn wants_try(&self) -> bool {
        !self.is_open
            && (self.is_mend_due
                || !self.lines.is_empty()
                    && (self.n_accepted > self.n_accepted_at_try
                        || self.is_try_due
                        || !self.waiters.is_empty()))
    }

    pub(super) fn begin_try(&mut self) {
        self.n_tries += 1;
        self.n_accepted_at_try = self.n_accepted;
        self.n_waiters_at_try = self.waiters.len();
        self.is_try_due = false;
        self.is_mend_due = false;
    }

    /// Swaps the accepted lines against the writer's emptied buffer.
    pub(super) fn take(&mut self, batch: &mut Vec<u8>) {
        batch.clear();
        mem::swap(&mut self.lines, batch);
        self.n_bytes_in_flight = batch.len();
        self.first_in_flight = Id::of_first(batch);
    }

    /// Counts whole lines of the batch that are on disk; `rest` is what is left of it.
    pub(super) fn count_saved(&mut self, saved: &[u8], rest: &[u8]) {
        self.n_saved += memchr::memchr_iter(b'\n', saved).count() as u64;
        if let Some(last) = Id::of_last(saved) {
            self.last_saved = Some(last.text());
        }
        self.n_bytes_in_flight = rest.len();
        self.first_in_flight = Id::of_first(rest);
    }

    /// Whether this one waits for what is known to be on disk.
    pub(super) fn is_saved(&self, waiter: &Waiter) -> bool {
        waiter.record.is_some_and(|number| number <= self.n_saved)
    }

    /// Drops what is not on disk, and answers the first record of it.
    pub(super) fn drop_unsaved(&mut self) -> Option<Id> {
        let first = self.first_in_flight.or_else(|| Id::of_first(&self.lines));
        self.lines = Vec::new();
        first
    }

    /// What was saved is not to be found any more, or nobody knows.
    pub(super) fn forget_saved(&mut self) {
        self.last_saved = None;
        self.n_saved = 0;
    }

    pub(super) fn last_saved(&self) -> Option<String> {
        self.last_saved.clone()
    }
}
