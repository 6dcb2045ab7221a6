//! The bounded way of a session's events to one output.
//!
//! The session waits for a slow reader instead of dropping a line; the news that recording failed
//! waits for nobody and overtakes what is queued, so that the thread that found it is never held up
//! and its people hear of it at once.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;
use transcript::recorder::RecordingFailure;
use wire::limits::OUTPUT_QUEUE_EVENTS_MAX;

use crate::event::Event;

/// What an output receives.
#[derive(Debug)]
pub enum Delivery {
    /// A step of the session.
    Event(Event),
    /// Recording failed; comes once per recorder.
    Degraded(RecordingFailure),
}

/// Makes a feed and its reader.
#[must_use]
pub fn feed() -> (Feed, FeedReader) {
    let shared = Arc::new(Shared::default());
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

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    arrival: Condvar,
    room: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    /// At most one per recorder, and recorders are made by people.
    failures: VecDeque<RecordingFailure>,
    /// A client learns of its session (`init`) before it learns anything about it.
    introduced: bool,
    reader_waits: bool,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Feed {
    /// Queues an event; waits while the queue is full and its reader lives.
    pub async fn send(&self, event: Event) {
        let mut event = Some(event);
        loop {
            let room = self.shared.room.notified();
            {
                let mut queue = self.shared.lock();
                if queue.closed {
                    return;
                }
                if queue.events.len() < OUTPUT_QUEUE_EVENTS_MAX {
                    queue.events.extend(event.take());
                    if queue.reader_waits {
                        self.shared.arrival.notify_one();
                    }
                    return;
                }
            }
            room.await;
        }
    }

    /// Queues an event where there is room, else forgets it; for what is said again later.
    pub fn offer(&self, event: Event) {
        let mut queue = self.shared.lock();
        if !queue.closed && queue.events.len() < OUTPUT_QUEUE_EVENTS_MAX {
            queue.events.push_back(event);
            if queue.reader_waits {
                self.shared.arrival.notify_one();
            }
        }
    }

    /// Queues the news that recording failed, ahead of every event; never waits.
    pub fn degraded(&self, failure: RecordingFailure) {
        let mut queue = self.shared.lock();
        queue.failures.push_back(failure);
        self.shared.arrival.notify_one();
    }

    /// Says that nothing more comes. What is queued is still delivered.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.arrival.notify_one();
        self.shared.room.notify_waiters();
    }
}

impl FeedReader {
    /// Moves all that is ready into `batch`, waiting for the first; `false` once the feed is closed
    /// and empty.
    pub fn next_batch(&mut self, batch: &mut Vec<Delivery>) -> bool {
        let mut queue = self.shared.lock();
        loop {
            let failures_ready = !queue.failures.is_empty() && (queue.introduced || queue.closed);
            if failures_ready || !queue.events.is_empty() {
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
        if !queue.introduced {
            queue.introduced = true;
            batch.extend(queue.events.pop_front().map(Delivery::Event));
        }
        batch.extend(queue.failures.drain(..).map(Delivery::Degraded));
        batch.extend(queue.events.drain(..).map(Delivery::Event));
        drop(queue);
        self.shared.room.notify_waiters();
        true
    }
}

impl Drop for FeedReader {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        queue.events.clear();
        drop(queue);
        self.shared.room.notify_waiters();
    }
}
