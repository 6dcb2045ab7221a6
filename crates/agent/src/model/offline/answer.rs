//! What is said once the tools have answered.

use serde_json::{Value, value::RawValue};

use super::{Turn, step::Step};
use crate::image::Image;

const INTRODUCTION: &str = "I am `offline`, the model that is built into onrecord. I need no network and no key, and I give the same answer to the same conversation every time. I understand plain requests only; for everything else configure a provider with OPENAI_API_KEY (and OPENAI_BASE_URL, OPENAI_MODEL).";

const HELP: &str = "I am the built-in `offline` model. This is what I understand, for example:
- what is in this directory?
- list files in src
- read README.md
- what does src/main.rs do?
- search for TODO in src
- find *.rs
- create notes.txt with \"some text\"
- replace foo with bar in notes.txt
- run `ls -la`
- create a.txt with one, then read a.txt
- what did I say first?
For more, configure a provider with OPENAI_API_KEY (and OPENAI_BASE_URL, OPENAI_MODEL).";

/// The answer of a turn whose calls are done, or of which one failed.
pub(super) fn of(turn: &Turn<'_>, steps: &[Step]) -> String {
    let mut parts = Vec::new();
    let mut results = turn.results.iter();
    for step in steps {
        if step.call().is_none() {
            parts.push(words(turn, step));
            continue;
        }
        let Some(result) = results.next() else {
            parts.push(format!("Not done, because of that: {}.", what(step)));
            continue;
        };
        if result.is_error {
            parts.push(format!(
                "I could not {}: {}",
                what(step),
                result.text.trim_end()
            ));
        } else {
            parts.push(done(step, result.text.trim_end()));
        }
    }
    parts.join("\n\n")
}

/// The answer to a prompt with images.
pub(super) fn unseen(images: &[Image]) -> String {
    let what = |image: &Image| format!("{}, {} bytes", image.mime_type(), image.bytes().len());
    let which: Vec<_> = images.iter().map(what).collect();
    format!(
        "I am the built-in `offline` model and cannot see images. This message came with {} ({}). Configure a provider with OPENAI_API_KEY (and OPENAI_BASE_URL, OPENAI_MODEL) whose model takes images, or send the words alone.",
        images.len(),
        which.join("; ")
    )
}

/// JSON as it is put into a call.
pub(super) fn raw(value: &Value) -> Box<RawValue> {
    // A value always serializes; were it not so, the tool would refuse the `null`.
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

fn words(turn: &Turn<'_>, step: &Step) -> String {
    match step {
        Step::Introduce => INTRODUCTION.to_owned(),
        Step::Help => HELP.to_owned(),
        Step::Recall { first } => {
            let said = if *first {
                turn.before.first()
            } else {
                turn.before.last()
            };
            match said {
                Some(said) if *first => format!("The first thing you said was: {said}"),
                Some(said) => format!("Before this you said: {said}"),
                None => "This is the first thing you said to me.".to_owned(),
            }
        }
        Step::List { .. }
        | Step::Read { .. }
        | Step::Search { .. }
        | Step::Find { .. }
        | Step::Write { .. }
        | Step::Replace { .. }
        | Step::Run { .. }
        | Step::Unclear => format!("I do not understand this without a real model.\n\n{HELP}"),
    }
}

/// A step as it follows "I could not".
fn what(step: &Step) -> String {
    match step {
        Step::List { path } => format!("list {}", folder(path)),
        Step::Read { path, .. } => format!("read `{path}`"),
        Step::Search { pattern, path, .. } => format!("search for `{pattern}`{}", within(path)),
        Step::Find { pattern, path } => format!("find `{pattern}`{}", within(path)),
        Step::Write { path, .. } => format!("write `{path}`"),
        Step::Replace { path, .. } => format!("change `{path}`"),
        Step::Run { command } => format!("run `{command}`"),
        Step::Introduce | Step::Help | Step::Recall { .. } | Step::Unclear => "answer".to_owned(),
    }
}

fn done(step: &Step, text: &str) -> String {
    match step {
        Step::List { path } => {
            let n = text.lines().filter(|line| !line.starts_with('[')).count();
            let entries = if n == 1 { "entry" } else { "entries" };
            let place = folder(path);
            let place = place[..1].to_uppercase() + &place[1..];
            format!("{place} has {n} {entries}:\n{text}")
        }
        Step::Read { path, .. } => format!("`{path}` says:\n{text}"),
        Step::Search { .. } | Step::Find { .. } if text.starts_with('[') => {
            text.trim_matches(['[', ']']).to_owned()
        }
        Step::Search { pattern, path, .. } => {
            format!("The search for `{pattern}`{} gave:\n{text}", within(path))
        }
        Step::Find { pattern, path } => format!("`{pattern}`{} matches:\n{text}", within(path)),
        Step::Write { .. } | Step::Replace { .. } => text.to_owned(),
        Step::Run { command } => format!("`{command}` ran:\n{text}"),
        Step::Introduce | Step::Help | Step::Recall { .. } | Step::Unclear => String::new(),
    }
}

fn folder(path: &str) -> String {
    if path == "." {
        "this directory".to_owned()
    } else {
        format!("the directory `{path}`")
    }
}

fn within(path: &Option<String>) -> String {
    path.as_ref()
        .map(|path| format!(" in `{path}`"))
        .unwrap_or_default()
}
