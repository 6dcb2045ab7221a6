//! What callers and the writer share: the queue under its lock, and who is woken when.
//!
//! Callers copy a ready line under a short lock. The writer naps while records keep coming, so that a
//! caller almost never pays for waking it.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Instant,
};

use tokio::sync::watch;
use wire::{
    limits::{
        RECORDER_NAP, RECORDER_NAPS_MAX, RECORDER_ROOM_BYTES, RECORDER_WAKE_BYTES, SETTLE_WAIT_MAX,
    },
    recording::{RecordingReport, RecordingState},
};

use super::{
    Bounds, Clock,
    failure::{Cause, RecordingFailure},
    line::Draft,
    notice::answer_all,
    queue::{Phase, Queue, Sleep, Waiter},
    ticket::Ticket,
};
use crate::{local_log::LocalLog, lock::Lock};

pub(super) type OnFailure = Box<dyn FnOnce(&RecordingFailure) + Send>;

/// What the writer does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Make the file ready.
    Open,
    /// Write the batch, if there is one, and look whether the file is in its place.
    Write {
        /// How many of those who wait are answered by it.
        n_waiters: usize,
        /// Whether the file must be in its place afterwards too.
        is_check_due: bool,
    },
    /// End.
    End,
}

/// Everything of a recorder that is not the file.
pub(super) struct Shared {
    pub(super) session_id: String,
    pub(super) path: Option<PathBuf>,
    pub(super) log: LocalLog,
    pub(super) clock: Clock,
    pub(super) bounds: Bounds,
    queue: Mutex<Queue>,
    /// Wakes the writer.
    wake: Condvar,
    /// Tells callers on threads that something left the queue, or that the recorder has ended.
    pub(super) progress: Condvar,
    /// Set with the end of the recorder's life, and read where no lock is held.
    pub(super) is_stopped: AtomicBool,
    level: watch::Sender<RecordingState>,
    pub(super) on_failure: Mutex<Option<OnFailure>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("session_id", &self.session_id)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(
        session_id: String,
        path: Option<PathBuf>,
        log: LocalLog,
        clock: Clock,
        bounds: Bounds,
        queue: Queue,
        on_failure: OnFailure,
    ) -> Self {
        Self {
            session_id,
            path,
            log,
            clock,
            bounds,
            queue: Mutex::new(queue),
            wake: Condvar::new(),
            progress: Condvar::new(),
            is_stopped: AtomicBool::new(false),
            level: watch::Sender::new(RecordingState::Saved),
            on_failure: Mutex::new(Some(on_failure)),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while it is held but for a lack of memory.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is written any more; asked without the lock.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    pub(super) fn report(&self) -> RecordingReport {
        self.lock().report()
    }

    pub(super) fn watch(&self) -> watch::Receiver<RecordingState> {
        self.level.subscribe()
    }

    /// Shows the level to those who follow it. The level is read within, so that of two threads none
    /// can show an older one.
    pub(super) fn show_level(&self) {
        self.level.send_if_modified(|shown| {
            let level = self.lock().level();
            let is_news = *shown != level;
            *shown = level;
            is_news
        });
    }

    // Callers.

    /// Accepts a record and answers its number, with the lock still held; `None` where nothing is accepted any more. Waits
    /// where the queue is full, and where it stays full the recorder fails for good (B7).
    pub(super) fn accept(self: &Arc<Self>, draft: &Draft) -> Option<(u64, MutexGuard<'_, Queue>)> {
        let mut queue = self.lock();
        if !queue.has_room_for(draft, &self.bounds) {
            queue = self.wait_for_room(queue, draft)?;
        }
        if queue.is_over() || queue.is_closing {
            return None;
        }
        Some((queue.accept(draft), queue))
    }

    fn wait_for_room<'q>(
        self: &'q Arc<Self>,
        mut queue: MutexGuard<'q, Queue>,
        draft: &Draft,
    ) -> Option<MutexGuard<'q, Queue>> {
        let deadline = Instant::now() + self.bounds.append_wait_max;
        // Where the file could not be created, what is accepted now deserves a try of its own.
        let own_try = queue.n_tries + 1;
        queue.n_waiting_for_room += 1;
        let has_room = loop {
            if queue.is_over() || queue.is_closing {
                break false;
            }
            if queue.has_room_for(draft, &self.bounds) {
                break true;
            }
            let is_late = Instant::now() >= deadline;
            if let Phase::Waiting(class) = queue.phase {
                if is_late || queue.n_tries_failed >= own_try {
                    self.give_up(&mut queue, class);
                    break false;
                }
                queue.is_try_due = queue.n_tries < own_try;
            } else if is_late {
                queue.n_waiting_for_room -= 1;
                drop(queue);
                self.fail_stalled(Some(draft.id));
                return None;
            }
            self.wake_writer(&mut queue);
            let left = deadline.saturating_duration_since(Instant::now());
            (queue, _) = self
                .progress
                .wait_timeout(queue, left)
                .unwrap_or_else(PoisonError::into_inner);
        };
        queue.n_waiting_for_room -= 1;
        has_room.then_some(queue)
    }

    /// Whether a record of ordinary size is accepted or refused without waiting.
    pub(super) fn has_room(&self) -> bool {
        self.has_room_in(&self.lock())
    }

    fn has_room_in(&self, queue: &Queue) -> bool {
        let n_bytes_max = self.bounds.queue_bytes_max;
        let n_bytes_record = RECORDER_ROOM_BYTES.min(n_bytes_max / 2);
        queue.n_bytes_unsaved() == 0
            || queue.n_bytes_unsaved() + n_bytes_record <= n_bytes_max
            || matches!(queue.phase, Phase::Waiting(_))
            || queue.is_over()
            || queue.is_closing
    }

    /// Waits on this thread until there is room, with the same end as [`Shared::accept`].
    pub(super) fn wait_until_room(self: &Arc<Self>) {
        let deadline = Instant::now() + self.bounds.append_wait_max;
        let mut queue = self.lock();
        while !self.has_room_in(&queue) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(queue);
                return self.fail_stalled(None);
            }
            queue.n_waiting_for_room += 1;
            self.wake_writer(&mut queue);
            (queue, _) = self
                .progress
                .wait_timeout(queue, left)
                .unwrap_or_else(PoisonError::into_inner);
            queue.n_waiting_for_room -= 1;
        }
    }

    /// Wakes the writer where it would not look by itself in time, and gives it a thread where it has
    /// none yet.
    pub(super) fn nudge(self: &Arc<Self>, mut queue: MutexGuard<'_, Queue>) {
        if queue.is_birth_due && (queue.n_accepted() > 0 || queue.is_mend_due) {
            queue.is_birth_due = false;
            drop(queue);
            return self.bear_writer();
        }
        let is_asleep = match queue.sleep {
            Sleep::Deep => true,
            Sleep::Napping => queue.n_bytes_ready() >= RECORDER_WAKE_BYTES,
            Sleep::Awake => false,
        };
        if is_asleep {
            queue.sleep = Sleep::Awake;
            drop(queue);
            self.wake.notify_one();
        }
    }

    /// Starts the thread of the writer, once something was accepted. Where there can be no thread,
    /// there can be no file either, yet (R4).
    pub(super) fn bear_writer(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name("recorder".to_owned());
        let born = thread.spawn(move || {
            // Taken here, so that it is still there where this thread cannot be started.
            let writer = shared.lock().unborn.take();
            if let Some(writer) = writer {
                writer.run();
            }
        });
        let Err(error) = born else { return };
        let mut queue = self.lock();
        queue.is_birth_due = true;
        queue.begin_try();
        drop(queue);
        self.not_created(&Cause::of_creation(&error));
        let mut queue = self.lock();
        if queue.is_closing {
            queue.unborn = None;
            drop(queue);
            self.ended();
        }
    }

    /// Wakes the writer now, for somebody who waits.
    pub(super) fn wake_writer(&self, queue: &mut Queue) {
        queue.sleep = Sleep::Awake;
        self.wake.notify_one();
    }

    /// A ticket for a record that was just accepted, or for everything.
    pub(super) fn ticket(
        self: &Arc<Self>,
        mut queue: MutexGuard<'_, Queue>,
        record: Option<u64>,
    ) -> Ticket {
        let must_wait = match queue.phase {
            Phase::Failed { is_told, .. } => !is_told,
            Phase::GivenUp(_) => false,
            // Without a record there is no file to be looked at.
            Phase::Sound | Phase::Waiting(_) => {
                !queue.has_ended && (queue.n_accepted() > 0 || queue.is_mend_due)
            }
        };
        if !must_wait {
            return Ticket::ready(queue.verdict());
        }
        let (answer, ticket) = Ticket::waiting();
        queue.waiters.push(Waiter { record, answer });
        self.wake_writer(&mut queue);
        self.nudge(queue);
        ticket
    }

    /// Accepts nothing more and answers once the writer has ended.
    pub(super) fn close(self: &Arc<Self>) -> Ticket {
        let mut queue = self.lock();
        if !queue.is_closing {
            queue.is_closing = true;
            queue.is_check_due = true;
            queue.is_try_due = true;
            if queue.n_accepted() == 0 {
                queue.is_birth_due = false;
                queue.has_ended = true;
            }
        }
        if queue.is_settled() {
            queue.unborn = None;
            queue.lock = None;
            return Ticket::ready(queue.verdict());
        }
        let (answer, ticket) = Ticket::waiting();
        queue.closers.push(answer);
        self.wake_writer(&mut queue);
        self.nudge(queue);
        ticket
    }

    /// Lets the writer end by itself once everything is on disk, and gives it a little time for it:
    /// nobody is left who could ask.
    pub(super) fn let_go(self: &Arc<Self>) {
        let was_closed = self.lock().is_closing;
        // Dropped: nobody is left who could ask.
        _ = self.close();
        if was_closed {
            // Whoever closed it has waited as long as that was worth.
            return;
        }
        let deadline = Instant::now() + SETTLE_WAIT_MAX;
        let mut queue = self.lock();
        let is_writer = queue.writer == Some(thread::current().id());
        while !is_writer && !queue.is_settled() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            (queue, _) = self
                .progress
                .wait_timeout(queue, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    // The writer.

    /// Waits until there is something to do; `batch` is emptied and filled with what is to be
    /// written.
    pub(super) fn next_work(&self, batch: &mut Vec<u8>) -> Work {
        let mut queue = self.lock();
        let mut n_naps = 0;
        // The first record, and one after a deep sleep, is not kept waiting for others.
        let mut is_time = std::mem::take(&mut queue.is_fresh);
        loop {
            if queue.is_over() {
                return Work::End;
            }
            if queue.wants_try() {
                queue.begin_try();
                return Work::Open;
            }
            if queue.is_open {
                let has_lines = queue.n_bytes_ready() > 0;
                let is_urgent = !queue.waiters.is_empty()
                    || queue.is_closing
                    || queue.n_waiting_for_room > 0
                    || queue.n_bytes_ready() >= RECORDER_WAKE_BYTES;
                if has_lines && (is_time || is_urgent)
                    || !queue.waiters.is_empty()
                    || queue.is_check_due
                {
                    let n_waiters = queue.waiters.len();
                    let is_check_due = std::mem::take(&mut queue.is_check_due) || n_waiters > 0;
                    queue.take(batch);
                    return Work::Write {
                        n_waiters,
                        is_check_due,
                    };
                }
            }
            if queue.is_closing {
                return Work::End;
            }
            if n_naps < RECORDER_NAPS_MAX {
                queue.sleep = Sleep::Napping;
                (queue, _) = self
                    .wake
                    .wait_timeout(queue, RECORDER_NAP)
                    .unwrap_or_else(PoisonError::into_inner);
                n_naps += 1;
            } else {
                queue.sleep = Sleep::Deep;
                queue = self
                    .wake
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            queue.sleep = Sleep::Awake;
            is_time = true;
        }
    }

    /// The file is open.
    pub(super) fn opened(&self, lock: Option<Lock>) {
        let mut queue = self.lock();
        queue.is_open = true;
        queue.is_fresh = true;
        if lock.is_some() {
            queue.lock = lock;
        }
        if let Phase::Waiting(_) = queue.phase {
            queue.phase = Phase::Sound;
        }
        drop(queue);
        self.progress.notify_all();
    }

    /// Counts what is on disk of the batch.
    pub(super) fn saved(&self, saved: &[u8], rest: &[u8]) {
        let mut queue = self.lock();
        queue.count_saved(saved, rest);
        if queue.n_waiting_for_room > 0 {
            self.progress.notify_all();
        }
    }

    /// Everything of the batch is on disk and the file was in its place; the first `n_waiters` of
    /// those who wait are answered.
    pub(super) fn settled(&self, n_waiters: usize) {
        self.show_level();
        let mut queue = self.lock();
        if queue.is_over() {
            return;
        }
        let answered: Vec<_> = queue.waiters.drain(..n_waiters).collect();
        drop(queue);
        answer_all(answered, &Ok(()));
    }

    /// The writer has ended; whoever waits for that is answered.
    pub(super) fn ended(&self) {
        let mut queue = self.lock();
        queue.has_ended = true;
        if let Phase::Failed {
            is_logged: false, ..
        } = queue.phase
        {
            // Who failed it is still busy with it, and answers.
            return;
        }
        self.answer_closers(queue);
    }

    pub(super) fn answer_closers(&self, mut queue: MutexGuard<'_, Queue>) {
        if queue.is_closing {
            queue.lock = None;
        }
        let verdict = queue.verdict();
        let closers = std::mem::take(&mut queue.closers);
        let waiters = std::mem::take(&mut queue.waiters);
        drop(queue);
        self.progress.notify_all();
        answer_all(waiters, &verdict);
        for closer in closers {
            // Dropped: whoever asked does not wait any more.
            _ = closer.send(verdict.clone());
        }
    }
}
