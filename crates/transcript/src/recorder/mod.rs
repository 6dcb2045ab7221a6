//! Writes one session's records, in order, on a thread of its own.
//!
//! The first write that fails stops the recorder for good (R1): what is queued behind it is dropped,
//! nothing more is written, and what is on disk is a valid prefix. It is told once (R3); the level of
//! the record can be read at any time (B1).
//!
//! It knows no turn and no listener: whoever starts it gives it one function to call.

mod failure;
mod file;
mod line;
mod queue;
mod writer;

use std::{
    fmt,
    future::Future,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use tokio::sync::watch;
use uuid::Uuid;
use wire::{
    limits::TITLE_ANCHOR_BYTES,
    recording::{RecordingReport, RecordingState},
};

pub use self::{
    failure::{NotSaved, RecordingFailure, Ticket},
    queue::Bounds,
};
use self::{line::Head, queue::Shared, writer::Writer};
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
    /// Where failures are noted (B4).
    pub log: LocalLog,
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The time of records.
    pub clock: Clock,
    /// Bounds of the queue; [`Bounds::default`] outside tests.
    pub bounds: Bounds,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("session_id", &self.session_id)
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

/// A recorder. Cheap to clone; the last one to go lets the writer end by itself.
#[derive(Debug, Clone)]
pub struct Recorder {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    producer: Mutex<Producer>,
    /// Of the writer, until it is started.
    idle: Mutex<Option<Writer>>,
}

/// What is needed to make the next line; whoever holds it appends.
struct Producer {
    head: Head,
    clock: Clock,
    /// The parent of the next record.
    tail: Option<String>,
    title: Option<Title>,
    /// Bytes of other records since the title was written.
    bytes_since_title: u64,
    scratch: Vec<u8>,
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("tail", &self.tail)
            .finish_non_exhaustive()
    }
}

/// Whether a record is the parent of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Chain,
    /// The next record is its sibling.
    Side,
}

impl Recorder {
    /// A recorder that has touched nothing yet. `on_failure` is called once, when a write fails, on
    /// the thread that found it and before any flush answers.
    #[must_use]
    pub fn start(
        options: Options,
        on_failure: impl FnOnce(&RecordingFailure) + Send + 'static,
    ) -> Self {
        let (tail, title, lock, is_new) = match options.start {
            Start::New => (None, None, None, true),
            Start::Resume { tail, title, lock } => (tail, title, lock, false),
        };
        let shared = Arc::new(Shared::new(
            options.session_id.clone(),
            tail.clone(),
            options.bounds,
            Box::new(on_failure),
            options.path.clone(),
            options.log.clone(),
            Arc::clone(&options.clock),
        ));
        let writer = Writer::new(
            Arc::clone(&shared),
            file::Transcript::new(options.disk, options.path, is_new, lock),
        );
        // A title that is there is somewhere in the file; its next anchor is due.
        let bytes_since_title = if title.is_some() {
            TITLE_ANCHOR_BYTES
        } else {
            0
        };
        let producer = Producer {
            head: Head {
                session_id: options.session_id,
                cwd: options.cwd,
                version: options.version,
                git_branch: None,
            },
            clock: options.clock,
            tail,
            title,
            bytes_since_title,
            scratch: Vec::new(),
        };
        let inner = Inner {
            shared,
            producer: Mutex::new(producer),
            idle: Mutex::new(Some(writer)),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Accepts a record and answers its id. Waits only where the queue is full, at most
    /// [`Bounds::wait_max`] (B7). After a failure it does nothing.
    pub fn append(&self, body: Body) -> String {
        let mut producer = self.producer();
        let (uuid, _) = self.push(&mut producer, &body, Place::Chain);
        self.anchor_title(&mut producer, line::is_title(&body));
        uuid
    }

    /// As [`Recorder::append`]; the ticket answers when that record is on disk.
    pub fn append_strict(&self, body: Body) -> Ticket {
        let mut producer = self.producer();
        let (_, number) = self.push(&mut producer, &body, Place::Chain);
        self.anchor_title(&mut producer, line::is_title(&body));
        drop(producer);
        match number {
            Some(number) => self.inner.shared.saved(number),
            // Not accepted: the answer is that of a flush.
            None => self.flush(),
        }
    }

    /// Names the session; the ticket answers when the name is on disk (R27).
    pub fn rename(&self, title: Title) -> Ticket {
        let ticket = self.append_strict(line::title(&title));
        let mut producer = self.producer();
        producer.title = Some(title);
        producer.bytes_since_title = 0;
        ticket
    }

    /// The branch that records name from now on.
    pub fn set_git_branch(&self, branch: Option<String>) {
        self.producer().head.git_branch = branch;
    }

    /// Ready once `append` would not wait for room.
    pub fn room(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared = Arc::clone(&self.inner.shared);
        async move { shared.room().await }
    }

    /// Answers when everything that was accepted is on disk, or with the first failure, always the
    /// same (R3).
    #[must_use]
    pub fn flush(&self) -> Ticket {
        let ticket = self.inner.shared.flush();
        self.wake();
        ticket
    }

    /// Writes the title once more where something followed it, so that readers of the file's end
    /// find it.
    pub fn finalize(&self) {
        let mut producer = self.producer();
        if producer.bytes_since_title > 0
            && !self.inner.shared.is_untouched()
            && let Some(title) = producer.title.clone()
        {
            self.push(&mut producer, &line::title(&title), Place::Chain);
            producer.bytes_since_title = 0;
        }
    }

    /// Finalizes, flushes and ends the writer; what is appended later is not accepted.
    #[must_use]
    pub fn close(&self) -> Ticket {
        self.finalize();
        let ticket = self.inner.shared.close();
        self.wake();
        ticket
    }

    /// The level of the record now.
    #[must_use]
    pub fn report(&self) -> RecordingReport {
        self.inner.shared.report()
    }

    /// Follows the level.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<RecordingState> {
        self.inner.shared.watch()
    }

    fn producer(&self) -> MutexGuard<'_, Producer> {
        self.inner
            .producer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a line and hands it over; answers its id, and its number where it was accepted.
    fn push(&self, producer: &mut Producer, body: &Body, place: Place) -> (String, Option<u64>) {
        let uuid = Uuid::new_v4();
        let mut id = Uuid::encode_buffer();
        let id = &*uuid.hyphenated().encode_lower(&mut id);
        if self.inner.shared.is_stopped() {
            return (id.to_owned(), None);
        }
        let mut scratch = std::mem::take(&mut producer.scratch);
        scratch.clear();
        let time = (producer.clock)();
        let whole = line::push(
            &mut scratch,
            &producer.head,
            id,
            producer.tail.as_deref(),
            time,
            body,
        );
        let number = whole
            .then(|| self.inner.shared.push(&scratch, uuid))
            .flatten();
        if number.is_some() {
            producer.bytes_since_title += scratch.len() as u64;
            if place == Place::Chain {
                match &mut producer.tail {
                    Some(tail) => {
                        tail.clear();
                        tail.push_str(id);
                    }
                    tail @ None => *tail = Some(id.to_owned()),
                }
            }
            self.wake();
        }
        producer.scratch = scratch;
        (id.to_owned(), number)
    }

    /// Repeats the title beside the chain where much was written since (transcript format).
    fn anchor_title(&self, producer: &mut Producer, was_title: bool) {
        if was_title {
            producer.bytes_since_title = 0;
        } else if producer.bytes_since_title >= TITLE_ANCHOR_BYTES
            && let Some(title) = producer.title.clone()
        {
            self.push(producer, &line::title(&title), Place::Side);
            producer.bytes_since_title = 0;
        }
    }

    /// Starts the writer at the first record; later its own condition wakes it.
    fn wake(&self) {
        if self.inner.shared.is_untouched() {
            return;
        }
        let mut idle = self
            .inner
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = idle.take() {
            let spawned = thread::Builder::new()
                .name("recorder".to_owned())
                .spawn(move || writer.run());
            if let Err(error) = spawned {
                self.inner.shared.never_started(&error);
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The writer drains what it has and ends; nobody waits for it.
        self.shared.let_end();
    }
}
