//! The built-in model: no network, no weights, always the same answer to the same conversation.
//!
//! It is for the first run on a machine without a provider, and for tests. It understands plain
//! requests, drives real tools for them and says plainly what came of it; it never pretends to more.
//! All it knows is the conversation: it looks at no file and no clock itself.
//!
//! | prompt | what it does |
//! | --- | --- |
//! | `who are you`, `what can you do`, `help` | answers |
//! | `what is in this directory?`, `list files [in DIR]` | `list_directory` |
//! | `read FILE [lines A-B]`, `what does FILE do?` | `read_file` |
//! | `search for TEXT [in PATH]`, `grep REGEX [in PATH]` | `grep_search` |
//! | `find PATTERN [in DIR]`, `glob PATTERN` | `glob` |
//! | `create FILE with TEXT`, `write TEXT to FILE` | `write_file` |
//! | `replace [all] A with B in FILE` | `edit` |
//! | `` run `COMMAND` `` | `run_shell_command` |
//! | `… then …` | one step after the other, as long as they succeed |
//! | `what did I say [before \| first]?` | answers from the conversation |
//! | anything with an image | says that it sees none |
//!
//! Names and texts with blanks stand in quotes or back quotes. Two forms are for tests alone:
//!
//! | prompt | what it does |
//! | --- | --- |
//! | `TOOL:<name> {json}` | exactly that call; once answered, `done.` |
//! | `SAY <n> chunks [every <ms>]` | streams `hello world ` `n` times, with that time before each |
//!
//! It counts four bytes as a token.

mod answer;
mod step;
mod understand;
mod words;

use std::{collections::VecDeque, time::Duration};

use futures_util::stream;
use serde_json::value::RawValue;

use self::{step::Step, understand::Wish};
use super::{Completion, Finish, ModelError, ModelEvent, ModelStream, Provider, Request};
use crate::{
    image::Image,
    message::{Block, Message, Prompt, ToolCall, ToolResult, Usage},
};

/// Bytes of one piece of a streamed answer.
const PIECE_BYTES: usize = 48;

/// The built-in model, see the head of this module.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Offline;

impl Provider for Offline {
    fn model(&self) -> &'static str {
        "offline"
    }

    fn stream(&self, request: Request) -> ModelStream {
        let reply = reply(&request.messages);
        let n_output = reply.n_bytes();
        let usage = usage(n_input(&request), n_output);
        let Reply {
            pieces,
            call,
            every,
        } = reply;
        let finish = if call.is_some() {
            Finish::ToolCalls
        } else {
            Finish::Stop
        };
        let mut events: VecDeque<_> = pieces.into_iter().map(ModelEvent::Text).collect();
        events.extend(call.map(ModelEvent::Call));
        events.push_back(ModelEvent::Done(Completion {
            finish,
            usage: Some(usage),
        }));
        Box::pin(stream::unfold(events, move |mut events| async move {
            let event = events.pop_front()?;
            if !every.is_zero() && matches!(event, ModelEvent::Text(_)) {
                tokio::time::sleep(every).await;
            }
            Some((Ok::<_, ModelError>(event), events))
        }))
    }
}

/// One response.
#[derive(Debug, Default)]
struct Reply {
    pieces: Vec<String>,
    call: Option<ToolCall>,
    /// The time before each piece.
    every: Duration,
}

impl Reply {
    fn says(text: &str) -> Self {
        Self {
            pieces: pieces(text),
            ..Self::default()
        }
    }

    fn n_bytes(&self) -> usize {
        let call = self
            .call
            .as_ref()
            .map_or(0, |call| call.name.len() + call.args.get().len());
        self.pieces.iter().map(String::len).sum::<usize>() + call
    }
}

/// The turn that a conversation is in.
#[derive(Debug)]
struct Turn<'a> {
    prompt: &'a str,
    images: &'a [Image],
    /// Earlier prompts, oldest first.
    before: Vec<&'a str>,
    /// What the calls of this turn gave, in their order.
    results: Vec<&'a ToolResult>,
    /// Calls of the conversation so far, to give the next one an id of its own.
    n_calls: usize,
}

impl<'a> Turn<'a> {
    fn of(messages: &'a [Message]) -> Self {
        let mut turn = Self {
            prompt: "",
            images: &[],
            before: Vec::new(),
            results: Vec::new(),
            n_calls: 0,
        };
        for message in messages {
            match message {
                Message::User(Prompt { text, images }) => {
                    if turn.n_calls > 0 || !turn.prompt.is_empty() {
                        turn.before.push(turn.prompt);
                    }
                    turn.prompt = text;
                    turn.images = images;
                    turn.results.clear();
                }
                Message::Assistant(blocks) => {
                    let is_call = |block: &&Block| matches!(block, Block::Call(_));
                    turn.n_calls += blocks.iter().filter(is_call).count();
                }
                Message::ToolResults(results) => turn.results.extend(results),
            }
        }
        turn
    }
}

fn reply(messages: &[Message]) -> Reply {
    let turn = Turn::of(messages);
    if !turn.images.is_empty() {
        return Reply::says(&answer::unseen(turn.images));
    }
    let steps = match understand::wish(turn.prompt) {
        Wish::Exactly { name, args } => {
            return if turn.results.is_empty() {
                Reply {
                    call: Some(call(&turn, &name, args)),
                    ..Reply::default()
                }
            } else {
                Reply::says("done.")
            };
        }
        Wish::Chunks { n, every } => {
            return Reply {
                pieces: vec!["hello world ".to_owned(); n],
                call: None,
                every,
            };
        }
        Wish::Steps(steps) => steps,
    };
    let failed = turn.results.last().is_some_and(|result| result.is_error);
    let mut calls = steps.iter().filter_map(Step::call);
    match calls.nth(turn.results.len()) {
        Some((name, args)) if !failed => {
            let call = call(&turn, name, answer::raw(&args));
            Reply {
                call: Some(call),
                ..Reply::default()
            }
        }
        Some(_) | None => Reply::says(&answer::of(&turn, &steps)),
    }
}

fn call(turn: &Turn<'_>, name: &str, args: Box<RawValue>) -> ToolCall {
    ToolCall {
        id: format!("call_offline_{}", turn.n_calls + 1),
        name: name.to_owned(),
        args,
    }
}

/// Cuts a text into pieces as a model's tokens would come: at blanks, and never within a character.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for word in text.split_inclusive([' ', '\n']) {
        if !piece.is_empty() && piece.len() + word.len() > PIECE_BYTES {
            pieces.push(std::mem::take(&mut piece));
        }
        piece.push_str(word);
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

fn n_input(request: &Request) -> usize {
    let of_block = |block: &Block| match block {
        Block::Thought(text) | Block::Text(text) => text.len(),
        Block::Call(call) => call.name.len() + call.args.get().len(),
    };
    let of_message = |message: &Message| match message {
        Message::User(prompt) => prompt.text.len(),
        Message::Assistant(blocks) => blocks.iter().map(of_block).sum(),
        Message::ToolResults(results) => results.iter().map(|result| result.text.len()).sum(),
    };
    request.system.len() + request.messages.iter().map(of_message).sum::<usize>()
}

fn usage(n_input: usize, n_output: usize) -> Usage {
    let tokens = |n_bytes: usize| n_bytes.div_ceil(4) as u64;
    let (input, output) = (tokens(n_input), tokens(n_output));
    Usage {
        input,
        output,
        cached: 0,
        thoughts: 0,
        total: input + output,
    }
}
