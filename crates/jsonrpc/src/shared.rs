//! What the tasks of a connection and its users share: the queue, the requests under way both ways,
//! and how far the connection has come to its end.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::Serialize;
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;
use wire::limits::JSONRPC_NOTICE_BYTES_MAX;

use crate::{
    bounds::{AtEndOfInput, Bounds, Options},
    encode::{self, Encoded},
    error::{Closed, RequestError, SendError},
    frame::Outcome,
    id::Id,
    outgoing::{Kind, Outgoing, Place},
    peer::{Backlog, BadLines, Reply},
    sent::Sent,
};

/// Where the answer to a request of ours goes.
pub(crate) enum Asker {
    /// Someone waits for it.
    Waiting(oneshot::Sender<Outcome>),
    /// It is handled where it is released.
    Then(Box<dyn FnOnce(Outcome) + Send>),
}

impl Asker {
    /// Never to be called with a lock held: what is to be done then may ask again.
    pub(crate) fn send(self, outcome: Outcome) {
        match self {
            Self::Waiting(waiting) => {
                // Dropped: whoever asked does not wait any more.
                _ = waiting.send(outcome);
            }
            Self::Then(then) => then(outcome),
        }
    }
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting(_) => "Waiting",
            Self::Then(_) => "Then",
        })
    }
}

/// Names a request of the other side here, where ids may come twice.
pub(crate) type RequestKey = u64;

/// A request of ours that the other side named.
#[derive(Debug)]
pub(crate) enum Asked {
    Waiting(Asker),
    /// Its caller waits no more, or was answered before.
    Late,
    /// There never was such a request.
    Never,
}

/// What the writer does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Write,
    /// Nothing is ready.
    Rest,
    /// Nothing more will come.
    End,
}

#[derive(Debug)]
struct State {
    outgoing: Outgoing,
    /// Requests of ours without an answer.
    pending: BTreeMap<u64, Asker>,
    /// Requests of the other side without an answer.
    unanswered: BTreeMap<RequestKey, (Id, CancellationToken)>,
    next_key: RequestKey,
    /// No more answers come, so that no request is made.
    is_input_over: bool,
    /// No more frames are accepted.
    is_output_over: bool,
    /// Writes that came to their end.
    n_writes: u64,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bounds: Bounds,
    at_end_of_input: AtEndOfInput,
    state: Mutex<State>,
    next_id: AtomicU64,
    /// Wakes the writer.
    pub(crate) work: Notify,
    /// Set once this side wants nothing more to be read.
    pub(crate) closing: CancellationToken,
    /// Set once no answer can be written; those of the requests are its children.
    unanswerable: CancellationToken,
    closed: watch::Sender<Option<Closed>>,
    bad_lines: watch::Sender<BadLines>,
}

impl Shared {
    pub(crate) fn new(options: &Options) -> Self {
        let bounds = options.bounds;
        Self {
            bounds,
            at_end_of_input: options.at_end_of_input,
            state: Mutex::new(State {
                outgoing: Outgoing::new(&bounds),
                pending: BTreeMap::new(),
                unanswered: BTreeMap::new(),
                next_key: 0,
                is_input_over: false,
                is_output_over: false,
                n_writes: 0,
            }),
            next_id: AtomicU64::new(0),
            work: Notify::new(),
            closing: CancellationToken::new(),
            unanswerable: CancellationToken::new(),
            closed: watch::Sender::new(None),
            bad_lines: watch::Sender::new(BadLines::default()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held but for a lack of memory.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Sending.

    /// Queues a notification, which waits for room.
    pub(crate) fn send(self: &Arc<Self>, frame: Encoded) -> Sent {
        match frame {
            Ok(bytes) => self.push(self.lock(), Kind::Notification, bytes),
            Err(error) => Sent::failed(error),
        }
    }

    /// Queues a notification without waiting for room.
    pub(crate) fn send_now(&self, bytes: Vec<u8>) -> Result<(), SendError> {
        self.send_below(self.bounds.notices_max, bytes)
    }

    /// As [`Shared::send_now`], and leaves the other half of the room to what is said only once.
    pub(crate) fn send_level(&self, bytes: Vec<u8>) -> Result<(), SendError> {
        self.send_below(self.bounds.notices_max / 2, bytes)
    }

    fn send_below(&self, notices_max: usize, bytes: Vec<u8>) -> Result<(), SendError> {
        let mut state = self.lock();
        if state.is_output_over {
            return Err(SendError::Closed(self.reason()));
        }
        if state.outgoing.n_notices() >= notices_max {
            return Err(SendError::TooMany { notices_max });
        }
        state.outgoing.push(Kind::Notice, bytes);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// How long a notice may be.
    pub(crate) fn notice_bytes_max(&self) -> usize {
        self.bounds.line_bytes_max.min(JSONRPC_NOTICE_BYTES_MAX)
    }

    /// Queues what nobody waits for, and only where there is room.
    pub(crate) fn offer(&self, bytes: Vec<u8>) {
        let mut state = self.lock();
        if !state.is_output_over && state.outgoing.has_room_for(bytes.len()) {
            state.outgoing.push(Kind::Notification, bytes);
            drop(state);
            self.work.notify_one();
        }
    }

    fn push(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        kind: Kind,
        bytes: Vec<u8>,
    ) -> Sent {
        if state.is_output_over {
            drop(state);
            return Sent::failed(SendError::Closed(self.reason()));
        }
        let (place, told) = state.outgoing.push(kind, bytes);
        drop(state);
        self.work.notify_one();
        told.map_or_else(Sent::done, |told| Sent::waiting(self, place, told))
    }

    /// Takes back a frame that still waits for room.
    pub(crate) fn take_back(&self, place: Place) {
        self.lock().outgoing.take_back(place);
        self.work.notify_one();
    }

    // Requests of ours.

    pub(crate) fn request(
        self: &Arc<Self>,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Reply {
        let (asker, answer) = oneshot::channel();
        match self.ask(method, params, Asker::Waiting(asker)) {
            Ok((id, place)) => Reply::waiting(self, id, place, answer),
            Err(error) => Reply::failed(error),
        }
    }

    /// Sends a request whose answer goes to `asker`; where it is not sent, `asker` hears nothing.
    pub(crate) fn ask(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
        asker: Asker,
    ) -> Result<(u64, Place), RequestError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let bytes = encode::request(id, method, params, self.bounds.line_bytes_max)
            .map_err(|error| self.refusal(error))?;
        let mut state = self.lock();
        if state.is_input_over || state.is_output_over {
            drop(state);
            return Err(RequestError::Closed(self.reason()));
        }
        let requests_max = self.bounds.requests_max;
        if state.pending.len() >= requests_max {
            return Err(RequestError::TooMany { requests_max });
        }
        state.pending.insert(id, asker);
        // Whoever waits for the answer has no need to be told of the room.
        let (place, _told) = state.outgoing.push(Kind::Request(id), bytes);
        drop(state);
        self.work.notify_one();
        Ok((id, place))
    }

    fn refusal(&self, error: SendError) -> RequestError {
        match error {
            SendError::Closed(closed) => RequestError::Closed(closed),
            SendError::TooLarge { bytes_max } => RequestError::TooLarge { bytes_max },
            SendError::TooMany { .. } => RequestError::TooMany {
                requests_max: self.bounds.requests_max,
            },
            SendError::Encode(error) => RequestError::Encode(error),
        }
    }

    /// Nobody waits for this answer any more.
    pub(crate) fn forget(&self, id: u64, place: Place) {
        let mut state = self.lock();
        state.pending.remove(&id);
        state.outgoing.take_back(place);
        drop(state);
        self.work.notify_one();
    }

    /// The request of ours with this id, which is done with it.
    pub(crate) fn asked(&self, id: u64) -> Asked {
        match self.lock().pending.remove(&id) {
            Some(asker) => Asked::Waiting(asker),
            None if id < self.next_id.load(Ordering::Relaxed) => Asked::Late,
            None => Asked::Never,
        }
    }

    // Requests of the other side.

    /// Takes a request in, unless there are too many.
    pub(crate) fn accept(&self, id: &Id) -> Option<(RequestKey, CancellationToken)> {
        let mut state = self.lock();
        if state.unanswered.len() + state.outgoing.n_answers() >= self.bounds.unanswered_max {
            return None;
        }
        let key = state.next_key;
        state.next_key += 1;
        let token = self.unanswerable.child_token();
        state.unanswered.insert(key, (id.clone(), token.clone()));
        Some((key, token))
    }

    /// Queues an answer; `key` names the request that was taken in, if it was.
    pub(crate) fn answer(self: &Arc<Self>, key: Option<RequestKey>, bytes: Vec<u8>) -> Sent {
        let mut state = self.lock();
        if let Some(key) = key {
            state.unanswered.remove(&key);
        }
        self.push(state, Kind::Answer, bytes)
    }

    /// Fires the tokens of all requests with this id.
    pub(crate) fn cancel(&self, id: &Id) -> bool {
        let state = self.lock();
        let same = state.unanswered.values().filter(|(other, _)| other == id);
        let tokens: Vec<_> = same.map(|(_, token)| token.clone()).collect();
        drop(state);
        tokens.iter().for_each(CancellationToken::cancel);
        !tokens.is_empty()
    }

    // Bad lines.

    pub(crate) fn count_line(&self, is_bad: bool) {
        self.bad_lines.send_if_modified(|lines| lines.count(is_bad));
    }

    pub(crate) fn bad_lines(&self) -> watch::Receiver<BadLines> {
        self.bad_lines.subscribe()
    }

    // The writer.

    pub(crate) fn next_work(&self, batch: &mut Vec<Vec<u8>>) -> Work {
        let mut state = self.lock();
        state.outgoing.take(batch);
        if !batch.is_empty() {
            return Work::Write;
        }
        // What the other side asked before it ended its output is still answered.
        let ends = self.at_end_of_input == AtEndOfInput::Ends;
        if ends && state.is_input_over && state.unanswered.is_empty() {
            state.is_output_over = true;
        }
        if state.is_output_over {
            return Work::End;
        }
        Work::Rest
    }

    pub(crate) fn written(&self) {
        let mut state = self.lock();
        state.outgoing.written();
        state.n_writes += 1;
    }

    pub(crate) fn backlog(&self) -> Backlog {
        let state = self.lock();
        Backlog {
            n_writes: state.n_writes,
            is_empty: state.outgoing.is_empty(),
        }
    }

    // The end.

    /// Why the connection ended; of several reasons the first.
    pub(crate) fn reason(&self) -> Closed {
        self.closed.borrow().unwrap_or(Closed::Here)
    }

    pub(crate) fn closed(&self) -> watch::Receiver<Option<Closed>> {
        self.closed.subscribe()
    }

    fn note(&self, reason: Closed) {
        self.closed.send_if_modified(|closed| {
            let is_first = closed.is_none();
            closed.get_or_insert(reason);
            is_first
        });
    }

    /// This side is done: what is queued is written, nothing more is accepted or read.
    pub(crate) fn close(&self) {
        self.note(Closed::Here);
        let mut state = self.lock();
        state.is_output_over = true;
        drop(state);
        fail(self.end_input(Closed::Here), self.reason());
        self.unanswerable.cancel();
        self.closing.cancel();
    }

    /// Nothing more is read. Answers with those who wait for an answer.
    pub(crate) fn end_input(&self, reason: Closed) -> Vec<Asker> {
        self.note(reason);
        let mut state = self.lock();
        state.is_input_over = true;
        let pending = std::mem::take(&mut state.pending);
        drop(state);
        self.work.notify_one();
        pending.into_values().collect()
    }

    /// Nothing more is written. Requests that were written may still be answered.
    pub(crate) fn end_output(&self, reason: Closed) {
        self.note(reason);
        let mut state = self.lock();
        state.is_output_over = true;
        let unsent = state.outgoing.clear();
        let askers = unsent
            .into_iter()
            .filter_map(|id| state.pending.remove(&id))
            .collect();
        drop(state);
        fail(askers, self.reason());
        self.unanswerable.cancel();
    }
}

/// Tells those who asked that there will be no answer.
pub(crate) fn fail(askers: Vec<Asker>, reason: Closed) {
    for asker in askers {
        asker.send(Err(RequestError::Closed(reason)));
    }
}
