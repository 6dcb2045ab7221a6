//! The bounded way of a session's events to one output.
//!
//! For the output that the work is for, the session waits where its reader is slow, and drops no line.
//! An output beside it must not hold up the work: where its reader is too slow it is given up, once
//! and for good. The news that recording failed waits for nobody and overtakes what is queued, so that
//! the thread that found it is never held up and its people hear of it at once.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::Notify;
use transcript::recorder::RecordingFailure;
use wire::limits::{
    OUTPUT_QUEUE_EVENTS_MAX, SIDE_OUTPUT_QUEUE_BYTES_MAX, SIDE_OUTPUT_QUEUE_EVENTS_MAX,
};

use crate::{
    event::{Event, Subscriber},
    message::Block,
};

/// What an output receives.
#[derive(Debug)]
pub enum Delivery {
    /// A step of the session.
    Event(Event),
    /// A ready line of the output's own protocol, such as an answer to the program at its other end.
    Line(Box<str>),
    /// Recording failed; comes once per recorder.
    Degraded(RecordingFailure),
}

/// Makes a feed and its reader for the output that the work is for: the session waits where its
/// queue is full.
#[must_use]
pub fn feed() -> (Feed, FeedReader) {
    make(None)
}

/// Makes a feed and its reader for an output beside that. Where its queue is full, `on_given_up` is
/// called, once, and the output receives what is queued and nothing more.
#[must_use]
pub fn feed_beside(on_given_up: impl FnOnce() + Send + 'static) -> (Feed, FeedReader) {
    make(Some(Box::new(on_given_up)))
}

fn make(on_given_up: Option<Box<dyn FnOnce() + Send>>) -> (Feed, FeedReader) {
    let shared = Arc::new(Shared {
        is_beside: on_given_up.is_some(),
        queue: Mutex::new(Queue {
            on_given_up,
            ..Queue::default()
        }),
        arrival: Condvar::new(),
        room: Notify::new(),
    });
    (
        Feed {
            shared: Arc::clone(&shared),
        },
        FeedReader { shared },
    )
}

/// The session's end.
#[derive(Debug, Clone)]
pub struct Feed {
    shared: Arc<Shared>,
}

/// The output's end. Dropping it makes the session stop waiting for this output.
#[derive(Debug)]
pub struct FeedReader {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    is_beside: bool,
    queue: Mutex<Queue>,
    arrival: Condvar,
    room: Notify,
}

#[derive(Default)]
struct Queue {
    /// Events and lines, in their order.
    steps: VecDeque<Delivery>,
    /// Their text.
    n_bytes: usize,
    /// At most one per recorder, and recorders are made by people.
    failures: VecDeque<RecordingFailure>,
    /// A client learns of its session (`init`) before it learns anything about it.
    introduced: bool,
    reader_waits: bool,
    closed: bool,
    given_up: bool,
    /// Batches that were taken.
    n_taken: u64,
    on_given_up: Option<Box<dyn FnOnce() + Send>>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("n_steps", &self.steps.len())
            .field("closed", &self.closed)
            .field("given_up", &self.given_up)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self, queue: &Queue) -> bool {
        if self.is_beside {
            queue.steps.len() < SIDE_OUTPUT_QUEUE_EVENTS_MAX
                && queue.n_bytes < SIDE_OUTPUT_QUEUE_BYTES_MAX
        } else {
            queue.steps.len() < OUTPUT_QUEUE_EVENTS_MAX
        }
    }

    /// Queues what is in `step` where there is room. Answers whether there is nothing left to wait
    /// for: it is queued, or nobody will read it.
    fn try_queue(&self, step: &mut Option<Delivery>) -> bool {
        let mut queue = self.lock();
        if queue.closed {
            return true;
        }
        if !self.has_room(&queue) {
            if self.is_beside {
                self.give_up(queue);
                return true;
            }
            return false;
        }
        if let Some(step) = step.take() {
            queue.n_bytes += bytes_of(&step);
            queue.steps.push_back(step);
        }
        if queue.reader_waits {
            self.arrival.notify_one();
        }
        true
    }

    fn give_up(&self, mut queue: MutexGuard<'_, Queue>) {
        queue.given_up = true;
        queue.closed = true;
        let on_given_up = queue.on_given_up.take();
        drop(queue);
        self.arrival.notify_one();
        if let Some(tell) = on_given_up {
            tell();
        }
    }

    async fn send(&self, step: Delivery) {
        let mut step = Some(step);
        loop {
            let room = self.room.notified();
            if self.try_queue(&mut step) {
                return;
            }
            room.await;
        }
    }
}

/// Whether the news of a failure that comes after this step has to stay behind it. Another failure is
/// one, so that failures keep their order.
fn is_barrier(step: &Delivery) -> bool {
    matches!(
        step,
        Delivery::Degraded(_)
            | Delivery::Event(
                Event::SessionStarted(_)
                    | Event::SessionChanged(_)
                    | Event::TurnStarted { .. }
                    | Event::TurnEnded(_)
            )
    )
}

/// Bytes of a step's text, for the bound of the queue.
fn bytes_of(step: &Delivery) -> usize {
    let of_blocks = |blocks: &[Block]| -> usize {
        let bytes = blocks.iter().map(|block| match block {
            Block::Text(text) | Block::Thought(text) => text.len(),
            Block::Call(call) => call.args.get().len(),
        });
        bytes.sum()
    };
    match step {
        Delivery::Line(line) => line.len(),
        Delivery::Event(Event::Text(text) | Event::Thought(text) | Event::Warning(text)) => {
            text.len()
        }
        Delivery::Event(Event::ModelEnded { blocks, .. }) => of_blocks(blocks),
        Delivery::Event(Event::ToolEnded { call, text, .. }) => call.args.get().len() + text.len(),
        Delivery::Event(Event::ToolProgress { text, .. }) => text.len(),
        Delivery::Event(Event::TurnStarted { prompt, .. }) => {
            prompt.as_ref().map_or(0, |prompt| prompt.len())
        }
        Delivery::Event(Event::TurnEnded(summary)) => summary.answer.len(),
        Delivery::Event(
            Event::SessionStarted(_)
            | Event::ToolStarted(_)
            | Event::ModelStarted
            | Event::Retrying { .. }
            | Event::PlanChanged(_)
            | Event::SessionChanged(_)
            | Event::SessionEnded(_),
        )
        | Delivery::Degraded(_) => 0,
    }
}

impl Feed {
    /// Queues an event; where the queue is full and its reader lives, waits or gives the output up.
    pub async fn send(&self, event: Event) {
        self.shared.send(Delivery::Event(event)).await;
    }

    /// As [`Feed::send`], a ready line of the output's own protocol, without its line feed. It keeps
    /// its place among the events.
    pub async fn send_line(&self, line: Box<str>) {
        self.shared.send(Delivery::Line(line)).await;
    }

    /// Queues an event where there is room, else forgets it; for what is said again later.
    pub fn offer(&self, event: Event) {
        self.offer_step(Delivery::Event(event));
    }

    /// Queues a ready line without waiting: where there is no room, it is lost, or an output beside the
    /// main one is given up.
    pub fn offer_line(&self, line: Box<str>) {
        if self.shared.is_beside {
            self.shared.try_queue(&mut Some(Delivery::Line(line)));
        } else {
            self.offer_step(Delivery::Line(line));
        }
    }

    fn offer_step(&self, step: Delivery) {
        let mut queue = self.shared.lock();
        if !queue.closed && self.shared.has_room(&queue) {
            queue.n_bytes += bytes_of(&step);
            queue.steps.push_back(step);
            if queue.reader_waits {
                self.shared.arrival.notify_one();
            }
        }
    }

    /// Queues the news that recording failed, ahead of every event of the running turn; never waits.
    ///
    /// It overtakes no result and no change of the session: what was said of a record before it was
    /// true then, and a session is introduced before anything is said of it.
    pub fn degraded(&self, failure: RecordingFailure) {
        let mut queue = self.shared.lock();
        if queue.given_up {
            return;
        }
        match queue.steps.iter().rposition(is_barrier) {
            Some(last) => queue.steps.insert(last + 1, Delivery::Degraded(failure)),
            None => queue.failures.push_back(failure),
        }
        self.shared.arrival.notify_one();
    }

    /// How often the reader has taken something; what does not grow for long is stuck.
    #[must_use]
    pub fn n_taken(&self) -> u64 {
        self.shared.lock().n_taken
    }

    /// Whether what is sent from now on can still be read.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.shared.lock().closed
    }

    /// Says that nothing more comes. What is queued is still delivered.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.arrival.notify_one();
        self.shared.room.notify_waiters();
    }
}

impl Subscriber for Feed {
    fn take(&self, event: &Event) -> Option<BoxFuture<'static, ()>> {
        let mut step = Some(Delivery::Event(event.clone()));
        if self.shared.try_queue(&mut step) {
            return None;
        }
        let shared = Arc::clone(&self.shared);
        let step = step?;
        Some(async move { shared.send(step).await }.boxed())
    }

    fn offer(&self, event: &Event) {
        self.offer_step(Delivery::Event(event.clone()));
    }
}

impl FeedReader {
    /// Moves all that is ready into `batch`, waiting for the first; `false` once the feed is closed
    /// and empty.
    pub fn next_batch(&mut self, batch: &mut Vec<Delivery>) -> bool {
        let mut queue = self.shared.lock();
        loop {
            let failures_ready = !queue.failures.is_empty() && (queue.introduced || queue.closed);
            if failures_ready || !queue.steps.is_empty() {
                break;
            }
            if queue.closed {
                return false;
            }
            queue.reader_waits = true;
            queue = self
                .shared
                .arrival
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            queue.reader_waits = false;
        }
        while !queue.introduced
            && let Some(step) = queue.steps.pop_front()
        {
            queue.introduced = matches!(
                step,
                Delivery::Event(Event::SessionStarted(_) | Event::TurnStarted { .. })
            );
            batch.push(step);
        }
        if queue.introduced || queue.closed {
            batch.extend(queue.failures.drain(..).map(Delivery::Degraded));
        }
        batch.extend(queue.steps.drain(..));
        queue.n_bytes = 0;
        queue.n_taken += 1;
        drop(queue);
        self.shared.room.notify_waiters();
        true
    }
}

impl FeedReader {
    /// Whether the session gave this output up because it was too slow.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.shared.lock().given_up
    }
}

impl Drop for FeedReader {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        queue.steps.clear();
        drop(queue);
        self.shared.room.notify_waiters();
    }
}
