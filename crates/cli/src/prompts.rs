//! The prompts of a run, in their order, from wherever they come.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::mpsc;
use wire::limits::{INPUT_PROMPTS_BYTES_MAX, INPUT_PROMPTS_MAX};

/// One turn to be run.
#[derive(Debug)]
pub(crate) enum Work {
    /// What the person or the program said.
    Prompt(String),
    /// Go on with the turn that was left before it was done.
    Continue,
}

impl Work {
    fn n_bytes(&self) -> usize {
        match self {
            Self::Prompt(prompt) => prompt.len(),
            Self::Continue => 0,
        }
    }
}

/// Too many prompts wait.
#[derive(Debug)]
pub(crate) struct Full;

/// Makes the queue. It ends once every sender is gone and it is empty.
pub(crate) fn prompts() -> (Sender, Prompts) {
    let (queue, works) = mpsc::channel(INPUT_PROMPTS_MAX);
    let n_bytes = Arc::new(AtomicUsize::new(0));
    (
        Sender {
            queue,
            n_bytes: Arc::clone(&n_bytes),
        },
        Prompts {
            works,
            n_bytes,
            own: None,
        },
    )
}

/// Adds prompts, and keeps the run alive.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    queue: mpsc::Sender<Work>,
    n_bytes: Arc<AtomicUsize>,
}

/// Adds prompts while somebody else keeps the run alive.
#[derive(Debug, Clone)]
pub(crate) struct WeakSender {
    queue: mpsc::WeakSender<Work>,
    n_bytes: Arc<AtomicUsize>,
}

impl Sender {
    /// Queues a prompt; never waits, because answers to the turn that runs come the same way.
    ///
    /// # Errors
    /// Too many prompts wait.
    pub(crate) fn send(&self, work: Work) -> Result<(), Full> {
        let n_bytes = work.n_bytes();
        let before = self.n_bytes.fetch_add(n_bytes, Ordering::AcqRel);
        let fits = before == 0 || before + n_bytes <= INPUT_PROMPTS_BYTES_MAX;
        if fits && self.queue.try_send(work).is_ok() {
            return Ok(());
        }
        self.n_bytes.fetch_sub(n_bytes, Ordering::AcqRel);
        Err(Full)
    }

    /// Whether a prompt waits.
    pub(crate) fn some_wait(&self) -> bool {
        self.queue.capacity() < self.queue.max_capacity()
    }

    /// A sender that does not keep the run alive.
    pub(crate) fn downgrade(&self) -> WeakSender {
        WeakSender {
            queue: self.queue.downgrade(),
            n_bytes: Arc::clone(&self.n_bytes),
        }
    }
}

impl WeakSender {
    /// The sender, while the run lives.
    pub(crate) fn upgrade(&self) -> Option<Sender> {
        Some(Sender {
            queue: self.queue.upgrade()?,
            n_bytes: Arc::clone(&self.n_bytes),
        })
    }
}

/// Gives the prompts out.
#[derive(Debug)]
pub(crate) struct Prompts {
    works: mpsc::Receiver<Work>,
    n_bytes: Arc<AtomicUsize>,
    /// See [`Prompts::end_when_empty`].
    own: Option<Sender>,
}

impl Prompts {
    /// Ends the queue as soon as nothing waits, instead of once every sender is gone. `sender` is kept
    /// until then, so that others can add to the run while it lives.
    pub(crate) fn end_when_empty(&mut self, sender: Sender) {
        self.own = Some(sender);
    }

    /// The next one; `None` once no more will come.
    pub(crate) async fn next(&mut self) -> Option<Work> {
        let work = if self.own.is_none() {
            self.works.recv().await?
        } else if let Ok(work) = self.works.try_recv() {
            work
        } else {
            // What is sent from now on is refused, and its sender told.
            self.own = None;
            self.works.close();
            return None;
        };
        self.n_bytes.fetch_sub(work.n_bytes(), Ordering::AcqRel);
        Some(work)
    }

    /// Takes no more, and gives out what waits.
    pub(crate) fn close(&mut self) -> Vec<Work> {
        self.works.close();
        let mut rest = Vec::new();
        while let Ok(work) = self.works.try_recv() {
            rest.push(work);
        }
        rest
    }
}
