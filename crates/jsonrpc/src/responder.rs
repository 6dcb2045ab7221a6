//! The answer to one request of the other side.

use std::sync::Arc;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    encode,
    error::RpcError,
    id::Id,
    sent::Sent,
    shared::{RequestKey, Shared},
};

/// Answers one request, once. Dropping it answers with an internal error, so that nobody waits for
/// ever.
#[derive(Debug)]
pub struct Responder {
    shared: Arc<Shared>,
    key: RequestKey,
    id: Id,
    token: CancellationToken,
    is_answered: bool,
}

impl Responder {
    pub(crate) fn new(
        shared: Arc<Shared>,
        key: RequestKey,
        id: Id,
        token: CancellationToken,
    ) -> Self {
        Self {
            shared,
            key,
            id,
            token,
            is_answered: false,
        }
    }

    /// The id as the other side wrote it.
    #[must_use]
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Fires on [`Peer::cancel`](crate::Peer::cancel) with this id, and once no answer can be written
    /// any more. It does not fire at the end of input.
    #[must_use]
    pub fn cancellation(&self) -> &CancellationToken {
        &self.token
    }

    /// Answers. The answer takes its place in the order at once, after all that was sent before; what
    /// is returned waits for room in the queue, and may be dropped.
    ///
    /// A result that JSON cannot say, or that is too large for a line, becomes an internal error for
    /// the other side and an error here.
    pub fn respond(mut self, result: Result<impl Serialize, RpcError>) -> Sent {
        let bytes_max = self.shared.bounds.line_bytes_max;
        let frame = match &result {
            Ok(value) => encode::result(&self.id, value, bytes_max),
            Err(error) => encode::error(&self.id, error, bytes_max),
        };
        match frame {
            Ok(bytes) => {
                self.is_answered = true;
                self.shared.answer(Some(self.key), bytes)
            }
            Err(error) => {
                self.answer_unable(&error.to_string());
                Sent::failed(error)
            }
        }
    }

    /// Answers with an error.
    pub fn refuse(self, error: RpcError) -> Sent {
        self.respond(Err::<(), _>(error))
    }

    /// Answers that there is no answer. It is given though nobody waits for its room.
    fn answer_unable(&mut self, details: &str) {
        self.is_answered = true;
        let frame = encode::own_error(&self.id, &RpcError::internal(details));
        drop(self.shared.answer(Some(self.key), frame));
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.is_answered {
            self.answer_unable("the request was dropped");
        }
    }
}
