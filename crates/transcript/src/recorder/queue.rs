//! What callers and the writer share: accepted bytes, the recorder's phase, and who waits for what.
//!
//! Callers copy a ready line under a short lock; the writer swaps the whole buffer out. The writer
//! naps while records keep coming, so that a caller almost never has to wake it.

use std::{
    fmt, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Notify, oneshot, watch};
use uuid::Uuid;
use wire::{
    limits::{APPEND_WAIT_MAX, RECORDER_QUEUE_BYTES_MAX, RECORDER_WAITING_BYTES_MAX},
    recording::{FaultClass, RecordingReport, RecordingState},
};

use super::{
    Clock,
    failure::{Cause, NotSaved, RecordingFailure, Ticket},
};
use crate::local_log::{Entry, LocalLog};

/// A nap of the writer between two looks at the queue; a wake-up costs its caller more.
const NAP: Duration = Duration::from_millis(1);

/// Empty naps before the writer sleeps until it is woken.
const NAPS_MAX: u32 = 20;

/// Bytes at which even a napping writer is woken.
const WAKE_BYTES: usize = 256 << 10;

/// Bounds of a recorder's queue.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes accepted and not yet written.
    pub queue_bytes_max: usize,
    /// Bytes that wait while the file cannot be created.
    pub waiting_bytes_max: usize,
    /// How long `append` waits for room.
    pub wait_max: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            queue_bytes_max: RECORDER_QUEUE_BYTES_MAX,
            waiting_bytes_max: RECORDER_WAITING_BYTES_MAX,
            wait_max: APPEND_WAIT_MAX,
        }
    }
}

type OnFailure = Box<dyn FnOnce(&RecordingFailure) + Send>;

/// One accepted record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Accepted {
    pub(super) uuid: Uuid,
    pub(super) n_bytes: usize,
}

/// Records that are written together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) records: Vec<Accepted>,
}

/// What the writer has to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Open the file where it is not open yet, and write what is there.
    Write,
    /// Nothing more comes.
    End,
}

#[derive(Debug, Clone)]
enum Phase {
    /// Nothing was accepted yet.
    Untouched,
    /// The file is open, or about to be.
    Active,
    /// The file could not be created yet (R4).
    NeverStarted(FaultClass),
    /// It could not be created, and too much waits for it (B7).
    GivenUp(FaultClass),
    /// A write failed (R1).
    Failed(Arc<RecordingFailure>),
    /// Closed with everything on disk.
    Closed,
}

struct Queue {
    phase: Phase,
    ready: Batch,
    /// Bytes that the writer has taken and not yet put on disk.
    in_flight_bytes: usize,
    n_accepted: u64,
    n_saved: u64,
    last_saved: Option<String>,
    waiters: Vec<Waiter>,
    /// Something has to be done although no record waits: a check, another try to create.
    asked: bool,
    closing: bool,
    writer_sleeps: bool,
    /// Listeners have been told; before that no flush answers with the failure.
    announced: bool,
    on_failure: Option<OnFailure>,
    /// Records that stand before ours, for the report of a resumed session.
    never_started_noted: bool,
}

struct Waiter {
    /// Answered once this many records are saved.
    number: u64,
    /// Also wants the file to be checked first (B2).
    checked: bool,
    answer: oneshot::Sender<Result<(), NotSaved>>,
}

pub(super) struct Shared {
    session_id: String,
    bounds: Bounds,
    queue: Mutex<Queue>,
    /// For the writer.
    arrival: Condvar,
    /// For callers on threads.
    drained: Condvar,
    /// For callers in tasks.
    room: Notify,
    /// Nothing is accepted any more; read without the lock.
    stopped: AtomicBool,
    level: watch::Sender<RecordingState>,
    path: Option<PathBuf>,
    log: LocalLog,
    clock: Clock,
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
        last_saved: Option<String>,
        bounds: Bounds,
        on_failure: OnFailure,
        path: Option<PathBuf>,
        log: LocalLog,
        clock: Clock,
    ) -> Self {
        Self {
            session_id,
            bounds,
            queue: Mutex::new(Queue {
                phase: Phase::Untouched,
                ready: Batch::default(),
                in_flight_bytes: 0,
                n_accepted: 0,
                n_saved: 0,
                last_saved,
                waiters: Vec::new(),
                asked: false,
                closing: false,
                writer_sleeps: false,
                announced: false,
                on_failure: Some(on_failure),
                never_started_noted: false,
            }),
            arrival: Condvar::new(),
            drained: Condvar::new(),
            room: Notify::new(),
            stopped: AtomicBool::new(false),
            level: watch::Sender::new(RecordingState::Saved),
            path,
            log,
            clock,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // For callers.

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(super) fn is_untouched(&self) -> bool {
        matches!(self.lock().phase, Phase::Untouched)
    }

    /// Accepts a line; answers its number, `None` where nothing is accepted any more.
    pub(super) fn push(&self, line: &[u8], uuid: Uuid) -> Option<u64> {
        let mut queue = self.lock();
        let mut deadline = None;
        loop {
            match queue.phase {
                Phase::Failed(_) | Phase::GivenUp(_) | Phase::Closed => return None,
                _ if queue.closing => return None,
                Phase::NeverStarted(class) => {
                    if queue.ready.bytes.len() + line.len() > self.bounds.waiting_bytes_max {
                        self.give_up(&mut queue, class);
                        return None;
                    }
                    queue.asked = true;
                    break;
                }
                Phase::Untouched | Phase::Active => {
                    let n_bytes = queue.ready.bytes.len() + queue.in_flight_bytes;
                    if n_bytes == 0 || n_bytes + line.len() <= self.bounds.queue_bytes_max {
                        queue.phase = Phase::Active;
                        break;
                    }
                }
            }
            let until = *deadline.get_or_insert_with(|| Instant::now() + self.bounds.wait_max);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let cause =
                    Cause::new(FaultClass::Stalled, "the disk did not take records in time");
                let lost = queue
                    .ready
                    .records
                    .first()
                    .map_or(uuid, |record| record.uuid);
                drop(queue);
                self.fail(cause, Some(lost));
                return None;
            }
            (queue, _) = self
                .drained
                .wait_timeout(queue, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
        queue.ready.bytes.extend_from_slice(line);
        queue.ready.records.push(Accepted {
            uuid,
            n_bytes: line.len(),
        });
        queue.n_accepted += 1;
        let number = queue.n_accepted;
        if queue.writer_sleeps || queue.asked || queue.ready.bytes.len() >= WAKE_BYTES {
            queue.writer_sleeps = false;
            self.arrival.notify_one();
        }
        self.show_level(&queue);
        Some(number)
    }

    /// Answers when record `number` is saved.
    pub(super) fn saved(&self, number: u64) -> Ticket {
        self.ticket(self.lock(), number, false)
    }

    /// Answers when everything accepted so far is saved and the file was found in its place.
    pub(super) fn flush(&self) -> Ticket {
        let queue = self.lock();
        let number = queue.n_accepted;
        self.ticket(queue, number, true)
    }

    pub(super) fn close(&self) -> Ticket {
        let mut queue = self.lock();
        queue.closing = true;
        if matches!(queue.phase, Phase::Untouched) {
            queue.phase = Phase::Closed;
            self.stopped.store(true, Ordering::Release);
        }
        let number = queue.n_accepted;
        self.ticket(queue, number, true)
    }

    /// The last handle is gone.
    pub(super) fn let_end(&self) {
        self.lock().closing = true;
        self.arrival.notify_one();
    }

    fn ticket(&self, mut queue: MutexGuard<'_, Queue>, number: u64, checked: bool) -> Ticket {
        match &queue.phase {
            Phase::Untouched | Phase::Closed => return Ticket::ready(Ok(())),
            Phase::GivenUp(class) => return Ticket::ready(Err(NotSaved::NeverStarted(*class))),
            Phase::Failed(failure) if queue.announced => {
                return Ticket::ready(Err(NotSaved::Failed(Arc::clone(failure))));
            }
            Phase::Active if !checked && queue.n_saved >= number => return Ticket::ready(Ok(())),
            Phase::Active | Phase::NeverStarted(_) | Phase::Failed(_) => {}
        }
        let (answer, ticket) = oneshot::channel();
        queue.waiters.push(Waiter {
            number,
            checked,
            answer,
        });
        queue.asked = true;
        queue.writer_sleeps = false;
        self.arrival.notify_one();
        Ticket::waiting(ticket)
    }

    pub(super) async fn room(&self) {
        loop {
            let freed = self.room.notified();
            {
                let queue = self.lock();
                let n_bytes = queue.ready.bytes.len() + queue.in_flight_bytes;
                let is_full =
                    matches!(queue.phase, Phase::Active) && n_bytes >= self.bounds.queue_bytes_max;
                if !is_full {
                    return;
                }
            }
            // Past the time, `append` finds the queue full and fails the recorder.
            if tokio::time::timeout(self.bounds.wait_max, freed)
                .await
                .is_err()
            {
                let lost = self.lock().ready.records.first().map(|record| record.uuid);
                let cause =
                    Cause::new(FaultClass::Stalled, "the disk did not take records in time");
                self.fail(cause, lost);
                return;
            }
        }
    }

    pub(super) fn report(&self) -> RecordingReport {
        let queue = self.lock();
        let class = match &queue.phase {
            Phase::NeverStarted(class) | Phase::GivenUp(class) => Some(*class),
            Phase::Failed(failure) => Some(failure.class),
            Phase::Untouched | Phase::Active | Phase::Closed => None,
        };
        RecordingReport {
            state: level(&queue),
            class,
            last_record_uuid: queue.last_saved.clone(),
        }
    }

    pub(super) fn watch(&self) -> watch::Receiver<RecordingState> {
        self.level.subscribe()
    }

    // For the writer.

    /// Waits until there is something to do.
    pub(super) fn next_work(&self) -> Work {
        let mut queue = self.lock();
        let mut n_naps = 0;
        loop {
            let waits_for_creation = matches!(queue.phase, Phase::NeverStarted(_));
            if queue.asked || (!queue.ready.records.is_empty() && !waits_for_creation) {
                queue.asked = false;
                return Work::Write;
            }
            if matches!(queue.phase, Phase::Failed(_) | Phase::GivenUp(_)) || queue.closing {
                return Work::End;
            }
            if n_naps < NAPS_MAX {
                n_naps += 1;
                (queue, _) = self
                    .arrival
                    .wait_timeout(queue, NAP)
                    .unwrap_or_else(PoisonError::into_inner);
            } else {
                queue.writer_sleeps = true;
                queue = self
                    .arrival
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                queue.writer_sleeps = false;
                n_naps = 0;
            }
        }
    }

    /// The file is open.
    pub(super) fn started(&self) {
        let mut queue = self.lock();
        if let Phase::NeverStarted(_) = queue.phase {
            queue.phase = Phase::Active;
        }
        self.show_level(&queue);
    }

    /// Swaps the accepted records against an empty batch; `false` where nothing is to be written.
    pub(super) fn take(&self, batch: &mut Batch) -> bool {
        batch.bytes.clear();
        batch.records.clear();
        let mut queue = self.lock();
        if !matches!(queue.phase, Phase::Active) {
            return false;
        }
        mem::swap(&mut queue.ready, batch);
        queue.in_flight_bytes = batch.bytes.len();
        true
    }

    /// The batch is on disk. `false` where somebody else has stopped the recorder meanwhile.
    pub(super) fn wrote(&self, batch: &Batch) -> bool {
        let mut queue = self.lock();
        queue.in_flight_bytes = 0;
        self.count_saved(&mut queue, &batch.records);
        if !matches!(queue.phase, Phase::Active) {
            return false;
        }
        let n_saved = queue.n_saved;
        answer(
            &mut queue.waiters,
            |waiter| !waiter.checked && waiter.number <= n_saved,
            &Ok(()),
        );
        self.show_level(&queue);
        drop(queue);
        self.make_room();
        true
    }

    /// The file was found in its place after the last write.
    pub(super) fn checked(&self) {
        let mut queue = self.lock();
        if matches!(queue.phase, Phase::Active) {
            let n_saved = queue.n_saved;
            answer(
                &mut queue.waiters,
                |waiter| waiter.number <= n_saved,
                &Ok(()),
            );
        }
    }

    pub(super) fn wants_check(&self) -> bool {
        self.lock().waiters.iter().any(|waiter| waiter.checked)
    }

    /// Whether everything is done and nothing more can come.
    pub(super) fn finish(&self) -> bool {
        let mut queue = self.lock();
        let is_done = queue.closing && queue.ready.records.is_empty() && !queue.asked;
        if is_done {
            if let Phase::Active = queue.phase {
                queue.phase = Phase::Closed;
            }
            self.stopped.store(true, Ordering::Release);
        }
        is_done
    }

    /// The file could not be created (R4, B1). What was accepted waits for the next try.
    pub(super) fn not_created(&self, cause: &Cause) {
        let mut queue = self.lock();
        if matches!(
            queue.phase,
            Phase::Failed(_) | Phase::GivenUp(_) | Phase::Closed
        ) {
            return;
        }
        queue.phase = Phase::NeverStarted(cause.class);
        answer(
            &mut queue.waiters,
            |_| true,
            &Err(NotSaved::NeverStarted(cause.class)),
        );
        self.show_level(&queue);
        let is_news = !mem::replace(&mut queue.never_started_noted, true);
        let first_lost = queue
            .ready
            .records
            .first()
            .map(|record| record.uuid.to_string());
        drop(queue);
        if is_news {
            self.note(RecordingState::NeverStarted, cause, first_lost, None);
        }
    }

    /// The writer's thread could not be started.
    pub(super) fn never_started(&self, error: &std::io::Error) {
        let cause = Cause::of(error);
        self.not_created(&cause);
        let mut queue = self.lock();
        self.give_up(&mut queue, cause.class);
    }

    /// Records that a broken write put on disk whole.
    pub(super) fn saved_before_failure(&self, records: &[Accepted]) {
        let mut queue = self.lock();
        queue.in_flight_bytes = 0;
        self.count_saved(&mut queue, records);
        let n_saved = queue.n_saved;
        answer(
            &mut queue.waiters,
            |waiter| !waiter.checked && waiter.number <= n_saved,
            &Ok(()),
        );
    }

    /// Stops the recorder for good, once (R1, R3): level, listeners, answers, local log, in this order.
    pub(super) fn fail(&self, cause: Cause, first_lost: Option<Uuid>) {
        let mut queue = self.lock();
        if matches!(
            queue.phase,
            Phase::Failed(_) | Phase::GivenUp(_) | Phase::Closed
        ) {
            return;
        }
        if cause.class == FaultClass::Gone {
            // Nobody knows what is left of a file that is not in its place (R27).
            queue.last_saved = None;
        }
        let failure = Arc::new(RecordingFailure {
            session_id: self.session_id.clone(),
            class: cause.class,
            first_lost_uuid: first_lost.map(|uuid| uuid.to_string()),
            last_record_uuid: queue.last_saved.clone(),
        });
        queue.phase = Phase::Failed(Arc::clone(&failure));
        queue.ready = Batch::default();
        let on_failure = queue.on_failure.take();
        self.stopped.store(true, Ordering::Release);
        self.show_level(&queue);
        drop(queue);
        if let Some(on_failure) = on_failure {
            // Dropped: what a listener does with the news must not reach the writer (R8).
            _ = catch_unwind(AssertUnwindSafe(|| on_failure(&failure)));
        }
        let mut queue = self.lock();
        queue.announced = true;
        let answered = Err(NotSaved::Failed(Arc::clone(&failure)));
        answer(&mut queue.waiters, |_| true, &answered);
        drop(queue);
        self.make_room();
        self.arrival.notify_one();
        self.note(
            RecordingState::Degraded,
            &cause,
            failure.first_lost_uuid.clone(),
            failure.last_record_uuid.clone(),
        );
    }

    /// Keeps what is cut from the file.
    pub(super) fn keep_fragment(&self, fragment: &[u8]) {
        let time = (self.clock)().as_millisecond();
        self.log
            .keep_fragment(&format!("{}-{time}", self.session_id), fragment);
    }

    fn count_saved(&self, queue: &mut Queue, records: &[Accepted]) {
        queue.n_saved += records.len() as u64;
        if let Some(last) = records.last() {
            queue.last_saved = Some(last.uuid.to_string());
        }
    }

    /// B7: a file that would begin in mid-conversation is never created.
    fn give_up(&self, queue: &mut Queue, class: FaultClass) {
        queue.phase = Phase::GivenUp(class);
        queue.ready = Batch::default();
        self.stopped.store(true, Ordering::Release);
        answer(
            &mut queue.waiters,
            |_| true,
            &Err(NotSaved::NeverStarted(class)),
        );
        self.arrival.notify_one();
    }

    fn make_room(&self) {
        self.drained.notify_all();
        self.room.notify_waiters();
    }

    /// Shows the level where it changed.
    fn show_level(&self, queue: &Queue) {
        let now = level(queue);
        if *self.level.borrow() != now {
            self.level.send_replace(now);
        }
    }

    fn note(
        &self,
        state: RecordingState,
        cause: &Cause,
        first_lost_uuid: Option<String>,
        last_record_uuid: Option<String>,
    ) {
        self.log.append(&Entry {
            time: format!("{:.3}", (self.clock)()),
            session_id: self.session_id.clone(),
            state,
            class: cause.class,
            error: cause.error.clone(),
            errno: cause.errno,
            path: self.path.clone(),
            first_lost_uuid,
            last_record_uuid,
        });
    }
}

fn level(queue: &Queue) -> RecordingState {
    match &queue.phase {
        Phase::NeverStarted(_) | Phase::GivenUp(_) => RecordingState::NeverStarted,
        Phase::Failed(_) => RecordingState::Degraded,
        Phase::Active if queue.n_saved < queue.n_accepted => RecordingState::Pending,
        Phase::Untouched | Phase::Active | Phase::Closed => RecordingState::Saved,
    }
}

fn answer(
    waiters: &mut Vec<Waiter>,
    is_due: impl Fn(&Waiter) -> bool,
    answer: &Result<(), NotSaved>,
) {
    for waiter in waiters.extract_if(.., |waiter| is_due(waiter)) {
        // Dropped: whoever asked does not wait any more.
        _ = waiter.answer.send(answer.clone());
    }
}
