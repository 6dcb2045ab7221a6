//! What was read and not yet taken, in the order of the wire, answers to us included.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{
    bounds::Bounds,
    error::{Closed, RpcError},
    frame::Outcome,
    incoming::Message,
    shared::{Asker, fail},
};

/// One thing that was read.
#[derive(Debug)]
pub(crate) enum Entry {
    Message(Message),
    /// Goes to whoever asked once all before it was taken.
    Answer(Asker, Outcome),
    /// Those who wait for an answer that will not come.
    Unanswered(Vec<Asker>, Closed),
}

impl Entry {
    /// Tells whoever waits for it; a message stays.
    pub(crate) fn release(self) -> Option<Message> {
        match self {
            Self::Message(message) => return Some(message),
            Self::Answer(asker, outcome) => asker.send(outcome),
            Self::Unanswered(askers, reason) => fail(askers, reason),
        }
        None
    }

    /// The same where nobody takes messages.
    fn release_unserved(self) {
        match self.release() {
            Some(Message::Request(request)) => {
                let error = RpcError::method_not_found(&request.method);
                // It keeps its place without anybody who waits.
                drop(request.responder.refuse(error));
            }
            Some(Message::Notification(_)) | None => {}
        }
    }
}

#[derive(Debug, Default)]
struct State {
    entries: VecDeque<(Entry, usize)>,
    n_bytes: usize,
    /// Nothing more comes.
    is_over: bool,
    /// Nobody takes anything.
    is_deserted: bool,
}

/// A bounded queue from the reader to whoever takes.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    arrival: Notify,
    room: Notify,
    bytes_max: usize,
    messages_max: usize,
}

impl Inbox {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        Self {
            state: Mutex::default(),
            arrival: Notify::new(),
            room: Notify::new(),
            bytes_max: bounds.incoming_bytes_max,
            messages_max: bounds.incoming_messages_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held but for a lack of memory.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an entry at the end; waits while there is no room. For one task only.
    pub(crate) async fn put(&self, entry: Entry, n_bytes: usize) {
        while !self.has_room_for(n_bytes) {
            self.room.notified().await;
        }
        let mut state = self.lock();
        if state.is_deserted {
            drop(state);
            return entry.release_unserved();
        }
        state.n_bytes += n_bytes;
        state.entries.push_back((entry, n_bytes));
        drop(state);
        self.arrival.notify_one();
    }

    fn has_room_for(&self, n_bytes: usize) -> bool {
        let state = self.lock();
        state.entries.is_empty()
            || state.is_deserted
            || (state.n_bytes + n_bytes <= self.bytes_max
                && state.entries.len() < self.messages_max)
    }

    /// Says that nothing more comes, after all that did.
    pub(crate) fn end(&self, askers: Vec<Asker>, reason: Closed) {
        let mut state = self.lock();
        state.is_over = true;
        if state.is_deserted {
            drop(state);
            return fail(askers, reason);
        }
        state
            .entries
            .push_back((Entry::Unanswered(askers, reason), 0));
        drop(state);
        self.arrival.notify_one();
    }

    /// The first entry, or `None` once nothing more comes. For one task only.
    pub(crate) async fn take(&self) -> Option<Entry> {
        loop {
            {
                let mut state = self.lock();
                if let Some((entry, n_bytes)) = state.entries.pop_front() {
                    state.n_bytes -= n_bytes;
                    drop(state);
                    self.room.notify_one();
                    return Some(entry);
                }
                if state.is_over {
                    return None;
                }
            }
            self.arrival.notified().await;
        }
    }

    /// Moves messages that are ready, up to the first that is an answer. For the same task.
    pub(crate) fn take_ready(&self, messages: &mut impl Extend<Message>, n_max: usize) {
        let mut state = self.lock();
        let n_ready = state
            .entries
            .iter()
            .take(n_max)
            .take_while(|(entry, _)| matches!(entry, Entry::Message(_)))
            .count();
        if n_ready == 0 {
            return;
        }
        let mut n_bytes_taken = 0;
        messages.extend(
            state
                .entries
                .drain(..n_ready)
                .filter_map(|(entry, n_bytes)| {
                    n_bytes_taken += n_bytes;
                    entry.release()
                }),
        );
        state.n_bytes -= n_bytes_taken;
        drop(state);
        self.room.notify_one();
    }

    /// Nobody takes anything any more.
    pub(crate) fn desert(&self) {
        let mut state = self.lock();
        state.is_deserted = true;
        state.n_bytes = 0;
        let entries = std::mem::take(&mut state.entries);
        drop(state);
        self.room.notify_one();
        for (entry, _) in entries {
            entry.release_unserved();
        }
    }
}
