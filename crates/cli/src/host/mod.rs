//! The program that drives a long-lived session over standard input and output.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `input` | how bytes become lines |
//! | `serve` | what becomes of each line |
//! | `control` | how a request of the host is answered |
//! | `mcp` | how MCP servers in the host are reached |

mod control;
mod input;
pub(crate) mod mcp;
mod serve;

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agent::feed::Feed;
use serde_json::value::RawValue;
use wire::{
    limits::{HOST_ANSWER_WAIT_MAX, PERMISSION_WAIT_DEFAULT, PERMISSION_WAIT_MAX},
    stream_json::{
        Message,
        control::{ControlCancelRequest, ControlRequest, HostTimeout, OurRequest},
    },
};

pub(crate) use self::{
    control::{Board, Control},
    input::{Line, lines},
    serve::serve,
};
use crate::{
    output::line,
    questions::{Questions, Reply},
};

/// What is known of the host, and the way to it.
#[derive(Debug)]
pub(crate) struct Host {
    /// Standard output.
    pub(crate) feed: Feed,
    questions: Questions,
    /// `initialize` has come: the host answers requests.
    asks: AtomicBool,
    input_closed: AtomicBool,
    permission_wait: Mutex<Duration>,
}

/// Why the host did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error("Input closed")]
    InputClosed,
    #[error("Control request timeout")]
    TimedOut,
    #[error("{0}")]
    Refused(String),
    #[error("too many requests wait for an answer")]
    TooMany,
}

impl Host {
    pub(crate) fn new(feed: Feed, questions: Questions) -> Self {
        Self {
            feed,
            questions,
            asks: AtomicBool::new(false),
            input_closed: AtomicBool::new(false),
            permission_wait: Mutex::new(PERMISSION_WAIT_DEFAULT),
        }
    }

    /// Whether the host can be asked.
    pub(crate) fn asks(&self) -> bool {
        self.asks.load(Ordering::Acquire)
    }

    /// Whether an answer can still come.
    pub(crate) fn input_is_open(&self) -> bool {
        !self.input_closed.load(Ordering::Acquire)
    }

    /// How long it may take to decide about a tool call.
    pub(crate) fn permission_wait(&self) -> Duration {
        *self
            .permission_wait
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the host is asked.
    fn initialize(&self, timeout: Option<HostTimeout>) {
        if let Some(millis) = timeout.and_then(|timeout| timeout.can_use_tool) {
            let wait = Duration::from_millis(millis).min(PERMISSION_WAIT_MAX);
            *self
                .permission_wait
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = wait;
        }
        self.asks.store(true, Ordering::Release);
    }

    /// Nothing more comes from the host.
    fn close_input(&self, others_answer: bool) {
        self.input_closed.store(true, Ordering::Release);
        self.questions.close_input(others_answer);
    }

    /// Asks the host, and waits for its answer.
    pub(crate) async fn request(&self, request: OurRequest) -> Result<Box<RawValue>, HostError> {
        let mut asked = self.questions.ask(false).ok_or(HostError::TooMany)?;
        let request_id = asked.id.clone();
        let request = Message::ControlRequest(ControlRequest {
            request_id: request_id.clone(),
            request,
        });
        self.feed.send_line(line(&request)).await;
        if !self.input_is_open() {
            return Err(HostError::InputClosed);
        }
        match tokio::time::timeout(HOST_ANSWER_WAIT_MAX, asked.reply()).await {
            Ok(Some(Reply::Host(Ok(answer)))) => Ok(answer),
            Ok(Some(Reply::Host(Err(words)))) => Err(HostError::Refused(words)),
            Ok(Some(Reply::InputClosed | Reply::Beside(_)) | None) => Err(HostError::InputClosed),
            Err(_) => {
                let cancel = Message::ControlCancelRequest(ControlCancelRequest { request_id });
                self.feed.send_line(line(&cancel)).await;
                Err(HostError::TimedOut)
            }
        }
    }
}
