//! Model providers behind one trait.

mod http;
pub mod offline;
pub mod openai;
mod retry;

use std::{borrow::Cow, pin::Pin, sync::Arc, time::Duration};

use futures_util::Stream;
use serde_json::Value;

use crate::message::{Message, ToolCall, Usage};

/// Something that answers a conversation.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// The model's name, as the record and every output carry it.
    fn model(&self) -> &str;

    /// Whether it takes [`Request::effort`].
    fn takes_effort(&self) -> bool {
        false
    }

    /// Streams one response. Dropping the stream cancels the call.
    ///
    /// The stream ends after its first error or after [`ModelEvent::Done`]; an end without either
    /// does not happen.
    fn stream(&self, request: Request) -> ModelStream;
}

/// The events of one response.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct Request {
    /// Instructions that come before the conversation.
    pub system: Arc<str>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools on offer.
    pub tools: Arc<[ToolSpec]>,
    /// How hard to think; `None` leaves it to the model.
    pub effort: Option<Effort>,
}

impl Request {
    /// Whether the conversation holds images.
    #[must_use]
    pub fn has_images(&self) -> bool {
        self.messages.iter().any(|message| match message {
            Message::User(prompt) => !prompt.images.is_empty(),
            Message::Assistant(_) | Message::ToolResults(_) => false,
        })
    }
}

/// How hard a model is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Quick answers.
    Low,
    /// Between the two.
    Medium,
    /// Long thoughts.
    High,
}

impl Effort {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// The effort of that word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.as_str() == word)
    }
}

/// A tool as the model sees it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What it does and when to use it.
    pub description: Cow<'static, str>,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// A step of a response.
#[derive(Debug, Clone)]
pub enum ModelEvent {
    /// The answer grew.
    Text(String),
    /// The reasoning grew.
    Thought(String),
    /// A call is complete.
    Call(ToolCall),
    /// Nothing came yet and the call is tried again.
    Retrying {
        /// The try that failed, from 1.
        attempt: u32,
        /// The wait before the next.
        wait: Duration,
        /// What went wrong.
        error: ModelError,
    },
    /// The response is complete.
    Done(Completion),
}

/// The end of a response.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// Why it ended.
    pub finish: Finish,
    /// Tokens; `None` where the provider did not say.
    pub usage: Option<Usage>,
}

/// Why a response ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Finish {
    /// The model was done.
    #[default]
    Stop,
    /// It wants its calls answered.
    ToolCalls,
    /// It ran into its limit of tokens.
    Length,
    /// The provider cut it.
    Filtered,
}

/// Why a call failed. `Display` is safe to show: it never holds a key.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// Its kind.
    pub kind: ModelErrorKind,
    /// HTTP status, where there was one.
    pub status: Option<u16>,
    /// What a person reads; names the mend where there is one.
    pub message: String,
}

/// Kinds of [`ModelError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The key is missing or refused (401, 403).
    Auth,
    /// The endpoint or the model does not exist (404).
    NotFound,
    /// Too many requests, or no credit (429).
    RateLimited,
    /// The request is wrong (other 4xx).
    Rejected,
    /// The model takes no images, or not these.
    ImageRefused,
    /// The provider failed (5xx, or an error in the stream).
    Provider,
    /// No connection.
    Unreachable,
    /// The stream ended in the middle.
    Cut,
    /// The answer was none of the protocol, or over a limit.
    Protocol,
}
