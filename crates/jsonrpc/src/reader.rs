//! The task that reads: lines into messages and answers.

use std::sync::Arc;

use tokio::io::AsyncRead;

use crate::{
    bounds::Garbage,
    encode,
    error::{Closed, RequestError, RpcError},
    frame::{self, Bad, Frame, Outcome},
    id::Id,
    inbox::{Entry, Inbox},
    incoming::{Message, Notification, Request},
    lines::{Line, Lines},
    responder::Responder,
    shared::{Asked, Shared},
};

#[derive(Debug)]
pub(crate) struct Reader<R> {
    lines: Lines<R>,
    intake: Intake,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn new(source: R, shared: Arc<Shared>, inbox: Arc<Inbox>, garbage: Garbage) -> Self {
        Self {
            lines: Lines::new(source, shared.bounds.line_bytes_max),
            intake: Intake {
                shared,
                inbox,
                garbage,
                reason: Closed::Here,
            },
        }
    }

    /// Reads until the end, or until this side is closed.
    pub(crate) async fn run(mut self) {
        let closing = self.intake.shared.closing.clone();
        self.intake.reason = tokio::select! {
            biased;
            () = closing.cancelled() => Closed::Here,
            reason = self.read() => reason,
        };
    }

    async fn read(&mut self) -> Closed {
        loop {
            // Whoever writes without end leaves the other tasks their turn.
            tokio::task::consume_budget().await;
            let line = match self.lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => return Closed::EndOfInput,
                Err(error) => return Closed::ReadFailed(error.kind()),
            };
            let n_bytes = match line {
                Line::Whole(bytes) | Line::TooLong(bytes) => bytes.len(),
            };
            let frame = frame::read(&line, self.intake.shared.bounds.line_bytes_max);
            self.intake.take_in(frame, n_bytes).await;
        }
    }
}

/// What becomes of a frame. However its task ends, those who wait for an answer are told.
#[derive(Debug)]
struct Intake {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    garbage: Garbage,
    reason: Closed,
}

impl Intake {
    async fn take_in(&self, frame: Frame, n_bytes: usize) {
        match frame {
            Frame::Blank => {}
            Frame::Notification { method, params } => {
                self.shared.count_line(false);
                let message = Message::Notification(Notification { method, params });
                self.inbox.put(Entry::Message(message), n_bytes).await;
            }
            Frame::Request { id, method, params } => {
                self.shared.count_line(false);
                let Some((key, token)) = self.shared.accept(&id) else {
                    return self
                        .refuse(&id, &RpcError::internal("too many requests are unanswered"))
                        .await;
                };
                let responder = Responder::new(Arc::clone(&self.shared), key, id, token);
                let message = Message::Request(Request {
                    method,
                    params,
                    responder,
                });
                self.inbox.put(Entry::Message(message), n_bytes).await;
            }
            Frame::Answer { id, outcome } => self.take_answer(id, outcome, n_bytes).await,
            Frame::Bad(bad) => self.take_bad(bad).await,
        }
    }

    async fn take_answer(&self, id: Option<u64>, outcome: Outcome, n_bytes: usize) {
        let is_whole = !matches!(
            outcome,
            Err(RequestError::Malformed | RequestError::AnswerTooLarge { .. })
        );
        match id.map_or(Asked::Never, |id| self.shared.asked(id)) {
            Asked::Waiting(asker) => {
                self.shared.count_line(!is_whole);
                self.inbox.put(Entry::Answer(asker, outcome), n_bytes).await;
            }
            Asked::Late if is_whole => {}
            Asked::Late | Asked::Never => self.shared.count_line(true),
        }
    }

    async fn take_bad(&self, bad: Bad) {
        self.shared.count_line(true);
        if let Some(Asked::Waiting(asker)) = bad.answer_to.map(|id| self.shared.asked(id)) {
            let outcome = Err(RequestError::Malformed);
            return self.inbox.put(Entry::Answer(asker, outcome), 0).await;
        }
        if !bad.id.is_null() {
            return self.refuse(&bad.id, &bad.error).await;
        }
        if self.garbage == Garbage::Answered {
            self.shared.offer(encode::own_error(&bad.id, &bad.error));
        }
    }

    /// Answers a request that was not taken in; waits for room, for the other side may ask without
    /// end.
    async fn refuse(&self, id: &Id, error: &RpcError) {
        let frame = encode::own_error(id, error);
        // Dropped: where nothing can be written, nobody waits for it.
        _ = self.shared.answer(None, frame).await;
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        let askers = self.shared.end_input(self.reason);
        self.inbox.end(askers, self.shared.reason());
    }
}
