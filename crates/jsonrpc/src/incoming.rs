//! What the other side says.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::{error::RpcError, inbox::Inbox, responder::Responder};

/// Messages of the other side, in the order in which they were read.
///
/// Dropping it refuses all requests as unknown methods, ignores notifications, and lets answers reach
/// their callers at once.
#[derive(Debug)]
pub struct Incoming {
    inbox: Arc<Inbox>,
}

impl Incoming {
    pub(crate) fn new(inbox: Arc<Inbox>) -> Self {
        Self { inbox }
    }

    /// The next message; `None` once nothing more comes. Answers to requests of ours that were read
    /// before it reach their callers within this call. Nothing is lost where its future is dropped.
    pub async fn next(&mut self) -> Option<Message> {
        while let Some(entry) = self.inbox.take().await {
            if let Some(message) = entry.release() {
                return Some(message);
            }
        }
        None
    }

    /// Takes up to `n_max` further messages that are ready, without waiting, as far as no answer to a
    /// request of ours stands before them: what was taken may be handled together, and an answer still
    /// comes after all that was read before it.
    pub fn take_ready(&mut self, messages: &mut impl Extend<Message>, n_max: usize) {
        self.inbox.take_ready(messages, n_max);
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.inbox.desert();
    }
}

/// One message of the other side.
#[derive(Debug)]
pub enum Message {
    /// It waits for an answer.
    Request(Request),
    /// It does not. Unknown ones are to be ignored.
    Notification(Notification),
}

/// A request of the other side.
#[derive(Debug)]
pub struct Request {
    /// At most [`wire::limits::JSONRPC_METHOD_BYTES_MAX`] bytes.
    pub method: String,
    /// As they came, null included; `None` where there were none.
    pub params: Option<Box<RawValue>>,
    /// Where the answer goes.
    pub responder: Responder,
}

impl Request {
    /// The params as a type; absent ones are read as null.
    ///
    /// # Errors
    /// -32602 with the reason, to be sent as it is.
    pub fn parse_params<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        parse(self.params.as_deref())
    }
}

/// A notification of the other side.
#[derive(Debug)]
pub struct Notification {
    /// At most [`wire::limits::JSONRPC_METHOD_BYTES_MAX`] bytes.
    pub method: String,
    /// As they came, null included; `None` where there were none.
    pub params: Option<Box<RawValue>>,
}

impl Notification {
    /// The params as a type; absent ones are read as null.
    ///
    /// # Errors
    /// The reason; there is nobody to send it to.
    pub fn parse_params<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        parse(self.params.as_deref())
    }
}

fn parse<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, RpcError> {
    let json = params.map_or("null", RawValue::get);
    serde_json::from_str(json).map_err(|error| RpcError::invalid_params(&error.to_string()))
}
