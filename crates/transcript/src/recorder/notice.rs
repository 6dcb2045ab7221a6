//! What becomes of a fault: a level, one notice, the answers of those who wait, a line in the local
//! log, in this order.
//!
//! Invariant 2: who hears from a flush that the record is lost comes after those who are told of it.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, atomic::Ordering},
    thread,
};

use wire::recording::{FaultClass, RecordingState};

use super::{
    failure::{Cause, NotSaved, RecordingFailure},
    line::{Id, time_text},
    queue::{Phase, Queue, Waiter},
    shared::Shared,
    ticket::Answer,
};
use crate::local_log::Entry;

impl Shared {
    /// The file could not be created (R4, B1). What was accepted waits for the next try.
    pub(super) fn not_created(&self, cause: &Cause) {
        let mut queue = self.lock();
        queue.n_tries_failed = queue.n_tries;
        if queue.is_over() {
            return;
        }
        let is_news = matches!(queue.phase, Phase::Sound);
        queue.phase = Phase::Waiting(cause.class);
        // Who came during the try gets one more.
        let n_waiters = queue.n_waiters_at_try.min(queue.waiters.len());
        let waiters = queue.waiters.drain(..n_waiters).collect();
        drop(queue);
        self.show_level();
        self.progress.notify_all();
        answer_all(waiters, &Err(NotSaved::NeverStarted(cause.class)));
        if is_news {
            self.note(RecordingState::NeverStarted, cause, None, None);
        }
    }

    /// Too much waits for a file that cannot be created (B7).
    pub(super) fn give_up(&self, queue: &mut Queue, class: FaultClass) {
        queue.phase = Phase::GivenUp(class);
        queue.drop_unsaved();
        self.is_stopped.store(true, Ordering::Release);
        answer_all(
            mem::take(&mut queue.waiters),
            &Err(NotSaved::NeverStarted(class)),
        );
        self.wake_writer(queue);
        self.progress.notify_all();
    }

    /// The queue stayed full (B7). The writer may be stuck for long, so that nothing here may wait for
    /// the disk it is stuck on.
    pub(super) fn fail_stalled(self: &Arc<Self>, refused: Option<Id>) {
        let cause = Cause::new(FaultClass::Stalled, "the disk took no record in time");
        let Some(failure) = self.fail(&cause, None, refused) else {
            return;
        };
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name("recorder-log".to_owned());
        let logs = thread.spawn(move || shared.log_failure(&cause, &failure));
        if logs.is_err() {
            self.is_logged();
        }
    }

    /// A write failed, and with it the recorder, for good (R1). Only the first failure does anything,
    /// and is answered: level, listener, then everybody who waits (R3).
    ///
    /// `first_lost` is the first record that is known not to be on disk; `refused` is one that was
    /// not accepted.
    pub(super) fn fail(
        &self,
        cause: &Cause,
        first_lost: Option<Id>,
        refused: Option<Id>,
    ) -> Option<Arc<RecordingFailure>> {
        let mut queue = self.lock();
        if queue.is_over() {
            return None;
        }
        if cause.file_lost {
            queue.forget_saved();
        }
        let unsaved = queue.drop_unsaved();
        let failure = Arc::new(RecordingFailure {
            session_id: self.session_id.clone(),
            class: cause.class,
            first_lost_uuid: first_lost.or(unsaved).or(refused).map(Id::text),
            last_record_uuid: queue.last_saved(),
        });
        queue.phase = Phase::Failed {
            failure: Arc::clone(&failure),
            is_told: false,
            is_logged: false,
        };
        self.is_stopped.store(true, Ordering::Release);
        drop(queue);
        self.show_level();
        self.tell(&failure);
        Some(failure)
    }

    fn tell(&self, failure: &Arc<RecordingFailure>) {
        let on_failure = self
            .on_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(on_failure) = on_failure {
            // Dropped: what a listener makes of the news must not reach the writer (R8).
            _ = catch_unwind(AssertUnwindSafe(|| on_failure(failure)));
        }
        let mut queue = self.lock();
        if let Phase::Failed { is_told, .. } = &mut queue.phase {
            *is_told = true;
        }
        let waiters = mem::take(&mut queue.waiters);
        let (saved, lost): (Vec<_>, Vec<_>) = waiters
            .into_iter()
            .partition(|waiter| queue.is_saved(waiter));
        self.wake_writer(&mut queue);
        drop(queue);
        self.progress.notify_all();
        answer_all(saved, &Ok(()));
        answer_all(lost, &Err(NotSaved::Failed(Arc::clone(failure))));
    }

    /// Notes the failure in the local log, after everybody was told (B4).
    pub(super) fn log_failure(&self, cause: &Cause, failure: &RecordingFailure) {
        let first_lost = failure.first_lost_uuid.clone();
        let last_record = failure.last_record_uuid.clone();
        self.note(RecordingState::Degraded, cause, first_lost, last_record);
        self.is_logged();
    }

    fn is_logged(&self) {
        let mut queue = self.lock();
        if let Phase::Failed { is_logged, .. } = &mut queue.phase {
            *is_logged = true;
        }
        self.answer_closers(queue);
    }

    fn note(
        &self,
        state: RecordingState,
        cause: &Cause,
        first_lost_uuid: Option<String>,
        last_record_uuid: Option<String>,
    ) {
        self.log.append(&Entry {
            time: time_text((self.clock)()),
            session_id: self.session_id.clone(),
            state,
            class: cause.class,
            error: cause.error.clone(),
            errno: cause.errno,
            path: self.path.as_deref().map(lossy),
            first_lost_uuid,
            last_record_uuid,
        });
    }
}

/// Answers those who still wait.
pub(super) fn answer_all(waiters: Vec<Waiter>, answer: &Answer) {
    for waiter in waiters {
        // Dropped: whoever asked does not wait any more.
        _ = waiter.answer.send(answer.clone());
    }
}

/// A path as JSON takes it.
fn lossy(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().into_owned())
}
