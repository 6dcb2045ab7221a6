//! Writes one session's records, in order, on a thread of its own.
//!
//! Invariant 1: the first write that fails stops the recorder for good (R1). What is queued behind it
//! is dropped, nothing more is written, and what is on disk is a valid prefix. It is told once (R3);
//! how it stands with the record can be read at any time (B1).
//!
//! It knows no turn and no listener: whoever starts it gives it one function to call.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `line` | what a record looks like |
//! | `queue` | what is accepted, in which order, and how far it has come |
//! | `shared` | who waits for whom |
//! | `notice` | who is told of a fault, and when |
//! | `writer` | what is done next with the file |
//! | `file`, `repair` | what happens to its bytes |

mod failure;
mod file;
mod line;
mod notice;
mod queue;
mod repair;
mod shared;
mod ticket;
mod writer;

use std::{fmt, future::Future, path::PathBuf, sync::Arc, thread, time::Duration};

use tokio::sync::{oneshot, watch};
use wire::{
    limits::{APPEND_WAIT_MAX, RECORDER_QUEUE_BYTES_MAX, RECORDER_WAITING_BYTES_MAX},
    recording::{RecordingReport, RecordingState},
};

pub use self::{
    failure::{NotSaved, RecordingFailure},
    ticket::Ticket,
};
use self::{
    line::{Context, Draft, Ids, title_body, with_draft},
    queue::Queue,
    shared::Shared,
    writer::Writer,
};
use crate::{
    disk::Disk,
    local_log::LocalLog,
    lock::Lock,
    record::{Body, Title},
};

/// Gives the time of a record.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// What a recorder is made of.
pub struct Options {
    /// The transcript; `None` where no data root is known, which is never started.
    pub path: Option<PathBuf>,
    /// The session's id.
    pub session_id: String,
    /// The project root, as every record names it.
    pub cwd: String,
    /// The program that writes, as every record names it.
    pub version: String,
    /// Whether the session begins or goes on.
    pub start: Start,
    /// Where faults are noted (B4).
    pub log: LocalLog,
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The time of records.
    pub clock: Clock,
    /// What may wait, and for how long; [`Bounds::default`] outside tests.
    pub bounds: Bounds,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("session_id", &self.session_id)
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}

/// Where a record begins.
#[derive(Debug)]
pub enum Start {
    /// With a file that is not there yet.
    New,
    /// Behind what is in the file.
    Resume {
        /// The parent of the next record.
        tail: Option<String>,
        /// The session's title, so that it is found at the end of the file again.
        title: Option<Title>,
        /// The lock on the file, where one could be had.
        lock: Option<Lock>,
    },
}

/// What a recorder may keep waiting, and for how long (B7).
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes accepted and not yet written.
    pub queue_bytes_max: usize,
    /// Bytes that wait while the file cannot be created.
    pub waiting_bytes_max: usize,
    /// How long `append` waits for room.
    pub append_wait_max: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            queue_bytes_max: RECORDER_QUEUE_BYTES_MAX,
            waiting_bytes_max: RECORDER_WAITING_BYTES_MAX,
            append_wait_max: APPEND_WAIT_MAX,
        }
    }
}

/// A recorder. Cheap to clone. When the last one goes without [`Recorder::close`], what was accepted
/// is written all the same, and waited for no longer than a flush before a result is.
#[derive(Debug, Clone)]
pub struct Recorder {
    handle: Arc<Handle>,
}

/// What the last recorder to go takes with it; the writer holds only what is within.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    ids: Arc<Ids>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.let_go();
    }
}

impl Recorder {
    /// A recorder that has touched no disk yet. `on_failure` is called once, when a write has failed,
    /// on the thread that found it and before any flush answers.
    #[must_use]
    pub fn start(
        options: Options,
        on_failure: impl FnOnce(&RecordingFailure) + Send + 'static,
    ) -> Self {
        let context = Context::new(&options.session_id, &options.cwd, &options.version);
        let (is_new, tail, title, lock) = match options.start {
            Start::New => (true, None, None, None),
            Start::Resume { tail, title, lock } => (false, tail, title, lock),
        };
        let ids = Arc::new(Ids::new());
        let title =
            title.map(|title| Draft::new(ids.next(), (options.clock)(), &title_body(&title)));
        let shared = Arc::new(Shared::new(
            options.session_id,
            options.path,
            options.log,
            options.clock,
            options.bounds,
            Queue::new(Arc::clone(&ids), context, tail, title),
            Box::new(on_failure),
        ));
        let writer = Writer::new(Arc::clone(&shared), options.disk, is_new);
        let mut queue = shared.lock();
        queue.unborn = Some(writer);
        queue.lock = lock;
        drop(queue);
        Self {
            handle: Arc::new(Handle { shared, ids }),
        }
    }

    /// Accepts a record and answers its id. Waits only where the queue is full, and not for long (B7).
    /// After a failure, and after [`Recorder::close`], it does nothing.
    pub fn append(&self, body: Body) -> String {
        let id = self.handle.ids.next();
        if !self.shared().is_stopped() {
            with_draft(id, self.now(), &body, |draft| {
                if let Some((_number, queue)) = self.shared().accept(draft) {
                    self.shared().nudge(queue);
                }
            });
        }
        id.text()
    }

    /// As [`Recorder::append`]; the ticket answers when that record is on disk.
    pub fn append_strict(&self, body: Body) -> Ticket {
        with_draft(
            self.handle.ids.next(),
            self.now(),
            &body,
            |draft| match self.shared().accept(draft) {
                Some((number, queue)) => self.shared().ticket(queue, Some(number)),
                None => self.refuse(),
            },
        )
    }

    /// Ready once `append` would not wait for a record of ordinary size. It is ready in bounded time:
    /// where the queue stays full, the recorder fails for good (B7).
    pub fn room(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared = Arc::clone(self.shared());
        async move {
            if shared.has_room() {
                return;
            }
            // A full queue is rare, and this needs no runtime.
            let (there_is_room, room) = oneshot::channel::<()>();
            let waiting = thread::Builder::new()
                .name("recorder-room".to_owned())
                .spawn(move || {
                    shared.wait_until_room();
                    drop(there_is_room);
                });
            if waiting.is_ok() {
                // Dropped: the end of the thread is the answer.
                _ = room.await;
            }
        }
    }

    /// The branch that records name from now on.
    pub fn set_git_branch(&self, branch: Option<String>) {
        self.shared().lock().set_branch(branch.as_deref());
    }

    /// Names the session; the ticket answers when the name is on disk (R27). From then on the name is
    /// repeated where readers look for it.
    pub fn rename(&self, title: Title) -> Ticket {
        self.append_strict(title_body(&title))
    }

    /// Answers when everything accepted so far is on disk and the file in its place (B2), or with the
    /// first failure, always the same (R3).
    pub fn flush(&self) -> Ticket {
        self.shared().ticket(self.shared().lock(), None)
    }

    /// Mends the end of a file that is taken up again (B3) before anything is appended; answers when that is done,
    /// or has failed as a write does. A recorder of a new file has nothing to mend.
    pub fn mend(&self) -> Ticket {
        let shared = self.shared();
        let mut queue = shared.lock();
        queue.is_mend_due = !queue.is_open && !queue.is_over() && !queue.is_closing;
        shared.ticket(queue, None)
    }

    /// Names the session once more, where it has a name that something followed.
    pub fn finalize(&self) {
        let time = self.now();
        let mut queue = self.shared().lock();
        if !queue.is_over() && !queue.is_closing {
            queue.accept_last_title(time);
            self.shared().nudge(queue);
        }
    }

    /// Finalizes, flushes and ends the writer; answers when that is done, and may be called again.
    /// What is appended later is not accepted.
    pub fn close(&self) -> Ticket {
        self.finalize();
        self.shared().close()
    }

    /// How it stands with the record now.
    #[must_use]
    pub fn report(&self) -> RecordingReport {
        self.shared().report()
    }

    /// Follows the state. A short `pending` may be passed over; `degraded` and `never_started` never
    /// are, nor is the last state.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<RecordingState> {
        self.shared().watch()
    }

    /// The answer to a record that was not accepted.
    fn refuse(&self) -> Ticket {
        let queue = self.shared().lock();
        if queue.is_over() {
            self.shared().ticket(queue, None)
        } else {
            Ticket::ready(Err(NotSaved::Closed))
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    fn now(&self) -> jiff::Timestamp {
        (self.shared().clock)()
    }
}
