//! From a prompt to what is wanted.

use std::time::Duration;

use serde_json::{json, value::RawValue};

use super::{
    answer,
    step::Step,
    words::{Word, sentences, words},
};

/// What a prompt wants.
#[derive(Debug)]
pub(super) enum Wish {
    /// This call and no other.
    Exactly { name: String, args: Box<RawValue> },
    /// A stream of so many chunks.
    Chunks { n: usize, every: Duration },
    /// One step after the other.
    Steps(Vec<Step>),
}

/// Understands a prompt.
pub(super) fn wish(prompt: &str) -> Wish {
    exactly(prompt)
        .or_else(|| chunks(prompt))
        .unwrap_or_else(|| {
            let mut steps: Vec<_> = sentences(prompt).into_iter().map(step).collect();
            if steps.is_empty() {
                steps.push(Step::Unclear);
            }
            Wish::Steps(steps)
        })
}

/// `TOOL:<name> {json}`; what is no JSON becomes `{}`.
fn exactly(prompt: &str) -> Option<Wish> {
    let (_, wanted) = prompt.split_once("TOOL:")?;
    let wanted = wanted.trim_start();
    let (name, rest) = wanted
        .split_once(char::is_whitespace)
        .unwrap_or((wanted, ""));
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Box<RawValue>>();
    let args = match values.next() {
        Some(Ok(args)) => args,
        Some(Err(_)) | None => answer::raw(&json!({})),
    };
    Some(Wish::Exactly {
        name: name.to_owned(),
        args,
    })
}

/// `SAY <n> chunks [every <ms>]`.
fn chunks(prompt: &str) -> Option<Wish> {
    let (_, rest) = prompt.split_once("SAY ")?;
    let mut words = rest.split_whitespace();
    let n = words.next()?.parse().ok()?;
    if !words.next()?.starts_with("chunk") {
        return None;
    }
    let ms = match (words.next(), words.next()) {
        (Some("every"), Some(ms)) => ms.trim_end_matches("ms").parse().unwrap_or(0),
        _ => 0,
    };
    Some(Wish::Chunks {
        n,
        every: Duration::from_millis(ms),
    })
}

const POLITE: [&str; 16] = [
    "please", "can", "could", "would", "will", "you", "now", "first", "and", "also", "finally",
    "ok", "okay", "just", "kindly", "me",
];
const ARTICLES: [&str; 6] = ["the", "a", "an", "all", "my", "of"];
const HERE: [&str; 5] = ["this", "here", "current", "project", "workspace"];
const FOLDERS: [&str; 7] = [
    "directory",
    "folder",
    "dir",
    "files",
    "contents",
    "content",
    "entries",
];

fn step(sentence: &str) -> Step {
    let words = words(sentence);
    let n_polite = words.iter().take_while(|word| word.is_any(&POLITE)).count();
    let (sentence, rest) = (Sentence { text: sentence }, &words[n_polite..]);
    let Some((verb, rest)) = rest.split_first() else {
        return Step::Unclear;
    };
    let verb = if verb.quoted {
        String::new()
    } else {
        verb.text.to_ascii_lowercase()
    };
    let understood = match verb.as_str() {
        "list" | "ls" | "dir" => Some(list(rest)),
        "show"
            if rest
                .iter()
                .take(2)
                .any(|word| word.is_any(&["what", "what's"])) =>
        {
            ask(skip(rest, &["me", "what", "what's"]), "what")
        }
        "summarize" | "summarise" | "explain" | "describe" => ask(rest, "what"),
        "read" | "cat" | "show" | "open" | "print" | "display" | "view" => read(rest),
        "search" | "grep" | "rg" => search(rest, verb != "search"),
        "look" if rest.first().is_some_and(|word| word.is("for")) => search(rest, false),
        "find" | "locate" => find(rest),
        "glob" => glob(rest),
        "write" | "create" | "make" | "save" => write(sentence, rest),
        "replace" | "change" | "substitute" => replace(rest),
        "run" | "execute" | "exec" => run(sentence, rest),
        "what" | "what's" | "which" | "who" | "tell" => ask(rest, &verb),
        "help" | "hello" | "hi" | "hey" => Some(Step::Help),
        _ => None,
    };
    understood.unwrap_or(Step::Unclear)
}

/// A step's text, to take parts of it as they stand.
#[derive(Debug, Clone, Copy)]
struct Sentence<'a> {
    text: &'a str,
}

impl<'a> Sentence<'a> {
    /// What words stand for: a single quoted one for what is in its quotes, more for themselves.
    fn content(self, words: &[Word<'a>]) -> String {
        match words {
            [] => String::new(),
            [word] if word.quoted => word.text.to_owned(),
            [first, ..] => {
                let end = words.last().map_or(first.end, |last| last.end);
                self.text[first.start..end].to_owned()
            }
        }
    }
}

/// `[the files] [in] [PATH]`
fn list(words: &[Word<'_>]) -> Step {
    Step::List {
        path: place(words).unwrap_or_else(|| ".".to_owned()),
    }
}

/// The last word that can be a path; none where the words only speak of here.
fn place(words: &[Word<'_>]) -> Option<String> {
    let path = words.iter().rev().find(|word| {
        word.quoted
            || !(word.is_any(&HERE)
                || word.is_any(&FOLDERS)
                || word.is_any(&ARTICLES)
                || word.is_any(&["in", "under", "there", "is", "are", "file", "me"]))
    });
    path.map(|word| word.text.to_owned())
}

/// `[the file] PATH [lines A-B]`, or a folder after all.
fn read(words: &[Word<'_>]) -> Option<Step> {
    let n_lines = words
        .iter()
        .position(|word| word.is_any(&["lines", "line"]));
    let (names, lines) = words.split_at(n_lines.unwrap_or(words.len()));
    let speaks_of_folder = names
        .iter()
        .any(|word| word.is_any(&["directory", "folder", "dir", "files"]));
    if speaks_of_folder {
        return Some(list(names));
    }
    let path = place(names)?;
    Some(Step::Read {
        path,
        lines: line_range(lines),
    })
}

fn line_range(words: &[Word<'_>]) -> Option<(u64, u64)> {
    let text: String = words
        .iter()
        .skip(1)
        .map(|word| word.text)
        .collect::<Vec<_>>()
        .join(" ");
    let numbers = text.split(|c: char| !c.is_ascii_digit());
    let mut numbers = numbers.filter_map(|number| number.parse().ok());
    let first: u64 = numbers.next()?;
    let last = numbers.next().unwrap_or(first);
    (first >= 1 && last >= first).then_some((first, last))
}

/// `[for] TEXT [in PATH]`
fn search(words: &[Word<'_>], is_regex: bool) -> Option<Step> {
    let words = skip(
        words,
        &[
            "for",
            "the",
            "word",
            "text",
            "string",
            "lines",
            "with",
            "containing",
        ],
    );
    let (what, path) = split_path(words);
    let pattern = joined(what);
    (!pattern.is_empty()).then_some(Step::Search {
        pattern,
        path,
        is_regex,
    })
}

/// `[files] [named] PATTERN [in PATH]`; a quoted text, or `the text …`, is searched for.
fn find(words: &[Word<'_>]) -> Option<Step> {
    let names_text = words
        .iter()
        .take(2)
        .any(|word| word.is_any(&["text", "word", "string"]));
    let is_pattern = |word: &Word<'_>| word.text.contains(['*', '?', '.', '[', '/']);
    if names_text
        || words
            .first()
            .is_some_and(|word| word.quoted && !is_pattern(word))
    {
        return search(words, false);
    }
    glob(words)
}

fn glob(words: &[Word<'_>]) -> Option<Step> {
    let words = skip(
        words,
        &[
            "for", "the", "all", "a", "file", "files", "named", "called", "matching", "like",
        ],
    );
    let (what, path) = split_path(words);
    let pattern = joined(what);
    if pattern.is_empty() {
        return None;
    }
    // A bare name is looked for everywhere, as a person means it.
    let pattern = if pattern.contains('/') {
        pattern
    } else {
        format!("**/{pattern}")
    };
    Some(Step::Find { pattern, path })
}

/// `[file] PATH [with [content] TEXT]`, or `TEXT to PATH`
fn write(sentence: Sentence<'_>, words: &[Word<'_>]) -> Option<Step> {
    let words = skip(
        words,
        &[
            "a", "the", "new", "empty", "file", "called", "named", "text",
        ],
    );
    let with = words
        .iter()
        .position(|word| word.is_any(&["with", "containing", "saying", "holding", "that"]));
    if let Some(n) = with {
        let path = place(&words[..n])?;
        let rest = skip(
            &words[n + 1..],
            &[
                "the", "content", "contents", "text", "says", "contains", "holds",
            ],
        );
        return Some(Step::Write {
            path,
            content: sentence.content(rest),
        });
    }
    if let Some(n) = words
        .iter()
        .rposition(|word| word.is_any(&["to", "into", "in"]))
        && n > 0
    {
        let path = place(&words[n + 1..])?;
        return Some(Step::Write {
            path,
            content: sentence.content(&words[..n]),
        });
    }
    Some(Step::Write {
        path: place(words)?,
        content: String::new(),
    })
}

/// `[all] A with B in FILE`
fn replace(words: &[Word<'_>]) -> Option<Step> {
    let all = words
        .first()
        .is_some_and(|word| word.is_any(&["all", "every", "each"]));
    let words = skip(words, &["all", "every", "each", "the", "word", "text"]);
    let with = words
        .iter()
        .position(|word| word.is_any(&["with", "by", "to"]))?;
    let within = words
        .iter()
        .rposition(|word| word.is_any(&["in", "inside"]))?;
    if within <= with {
        return None;
    }
    let (old, new) = (joined(&words[..with]), joined(&words[with + 1..within]));
    let path = place(&words[within + 1..])?;
    (!old.is_empty()).then_some(Step::Replace {
        path,
        old,
        new,
        all,
    })
}

/// `[the command] COMMAND`
fn run(sentence: Sentence<'_>, words: &[Word<'_>]) -> Option<Step> {
    let named = words.iter().take(3).any(|word| word.is("command"));
    let words = if named {
        skip(words, &["the", "shell", "command"])
    } else {
        words
    };
    let command = match words.iter().find(|word| word.quoted) {
        Some(quoted) if words.first() == Some(quoted) => quoted.text.to_owned(),
        Some(_) | None => sentence
            .content(words)
            .trim_end_matches(['?', '!'])
            .to_owned(),
    };
    (!command.is_empty()).then_some(Step::Run { command })
}

/// Questions: about itself, about the conversation, about a file or a folder.
fn ask(words: &[Word<'_>], verb: &str) -> Option<Step> {
    let has = |names: &[&str]| words.iter().any(|word| word.is_any(names));
    if has(&["i"])
        && has(&[
            "say", "said", "ask", "asked", "tell", "told", "write", "wrote",
        ])
    {
        return Some(Step::Recall {
            first: has(&["first", "beginning"]),
        });
    }
    if has(&["you", "your", "yourself"]) {
        let is_help = has(&["can", "do", "help", "tools", "able"]);
        return Some(if is_help { Step::Help } else { Step::Introduce });
    }
    if verb == "who" || verb == "tell" {
        return None;
    }
    if has(&["model"]) {
        return Some(Step::Introduce);
    }
    let asks_inside = has(&["in", "inside", "under", "does", "contain"]);
    let words = skip(
        words,
        &["is", "are", "does", "do", "in", "the", "inside", "file"],
    );
    let words: Vec<_> = words
        .iter()
        .copied()
        .filter(|word| {
            !word.is_any(&[
                "do", "does", "contain", "say", "hold", "about", "there", "in", "inside",
            ])
        })
        .collect();
    let speaks_of = |names: &[&str]| words.iter().any(|word| word.is_any(names));
    let (is_folder, is_here) = (speaks_of(&FOLDERS), speaks_of(&HERE));
    match place(&words) {
        None if is_folder || is_here => Some(Step::List {
            path: ".".to_owned(),
        }),
        Some(path) if is_folder => Some(Step::List { path }),
        Some(path) if looks_like_file(&path) => Some(Step::Read { path, lines: None }),
        Some(path) if asks_inside && !is_here => Some(Step::List { path }),
        Some(_) | None => None,
    }
}

fn looks_like_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let known = [
        "Makefile",
        "README",
        "LICENSE",
        "Dockerfile",
        "CHANGELOG",
        "NOTICE",
    ];
    known.contains(&name) || (name.len() > 1 && name != ".." && name[1..].contains('.'))
}

fn skip<'w, 'a>(words: &'w [Word<'a>], fillers: &[&str]) -> &'w [Word<'a>] {
    let n = words.iter().take_while(|word| word.is_any(fillers)).count();
    &words[n..]
}

/// Parts `… in PATH`.
fn split_path<'w, 'a>(words: &'w [Word<'a>]) -> (&'w [Word<'a>], Option<String>) {
    match words
        .iter()
        .rposition(|word| word.is_any(&["in", "under", "inside"]))
    {
        Some(n) if n > 0 && n + 1 < words.len() => (&words[..n], place(&words[n + 1..])),
        Some(_) | None => (words, None),
    }
}

fn joined(words: &[Word<'_>]) -> String {
    words
        .iter()
        .map(|word| word.text)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests;
