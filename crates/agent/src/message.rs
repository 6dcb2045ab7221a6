//! What a conversation is made of while it runs. Disk and wire have types of their own.

use serde_json::value::RawValue;

use crate::image::{self, Image};

/// One entry of the model's history.
#[derive(Debug, Clone)]
pub enum Message {
    /// What the person said.
    User(Prompt),
    /// One model response.
    Assistant(Vec<Block>),
    /// Results of the calls of the response before it, in the order of the calls.
    ToolResults(Vec<ToolResult>),
}

/// What the person said: a text, and the pictures that it names.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// The text. It names every picture where it stands, for whoever cannot see them.
    pub text: String,
    /// The pictures, in the order in which the text names them.
    pub images: Vec<Image>,
}

impl Prompt {
    /// Bytes of memory that it takes.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        let images = self.images.iter().map(|image| image.bytes().len());
        self.text.len() + images.sum::<usize>()
    }

    /// Adds a text, on a line of its own.
    pub fn push_text(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }

    /// Adds a picture, and names it in the text; `name` is where it came from.
    pub fn push_image(&mut self, image: Image, name: Option<&str>) {
        let number = self.images.len() + 1;
        let name = name.map_or_else(String::new, |name| format!(" ({name})"));
        self.push_text(&format!(
            "[image {number}{name}: {}, {} bytes]",
            image.mime_type(),
            image.bytes().len()
        ));
        self.images.push(image);
    }

    /// Takes the pictures out and says so.
    pub(crate) fn forget_images(&mut self) {
        let n_images = std::mem::take(&mut self.images).len();
        if n_images > 0 {
            self.push_text(&image::absent(n_images));
        }
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self {
            text,
            images: Vec::new(),
        }
    }
}

/// A block of a model response.
#[derive(Debug, Clone)]
pub enum Block {
    /// Reasoning.
    Thought(String),
    /// Answer text.
    Text(String),
    /// A tool call.
    Call(ToolCall),
}

/// A tool call.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Never empty, unique in its response: made up where the model gave none.
    pub id: String,
    /// The tool's name as the model gave it.
    pub name: String,
    /// JSON text; an object, unless the model erred (the tool layer answers that).
    pub args: Box<RawValue>,
}

/// What the model is told of a call.
#[derive(Debug, Clone)]
pub struct ToolResult {
    /// The call's id.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The text for the model.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
}

/// Tokens of one model call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the prompt.
    pub input: u64,
    /// Of the answer, thoughts included.
    pub output: u64,
    /// Of the prompt, taken from a cache.
    pub cached: u64,
    /// Of the answer, spent on thoughts.
    pub thoughts: u64,
    /// As the provider sums it.
    pub total: u64,
}
