//! From a prompt to what is wanted.

use std::time::Duration;

use serde_json::{Value, json, value::RawValue};

use super::words::{Word, sentences, words};

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

/// One step of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    List {
        path: String,
    },
    Read {
        path: String,
        lines: Option<(u64, u64)>,
    },
    Search {
        pattern: String,
        path: Option<String>,
        is_regex: bool,
    },
    Find {
        pattern: String,
        path: Option<String>,
    },
    Write {
        path: String,
        content: String,
    },
    Replace {
        path: String,
        old: String,
        new: String,
        all: bool,
    },
    Run {
        command: String,
    },
    Introduce,
    Help,
    Recall {
        first: bool,
    },
    Unclear,
}

impl Step {
    /// The tool that does it, and its arguments; `None` where words are enough.
    pub(super) fn call(&self) -> Option<(&'static str, Value)> {
        let call = match self {
            Self::List { path } => ("list_directory", json!({"path": path})),
            Self::Read { path, lines: None } => ("read_file", json!({"file_path": path})),
            Self::Read {
                path,
                lines: Some((first, last)),
            } => {
                let (offset, limit) = (first - 1, last - first + 1);
                (
                    "read_file",
                    json!({"file_path": path, "offset": offset, "limit": limit}),
                )
            }
            Self::Search {
                pattern,
                path,
                is_regex,
            } => {
                let pattern = if *is_regex {
                    pattern.clone()
                } else {
                    escaped(pattern)
                };
                (
                    "grep_search",
                    with_path(json!({"pattern": pattern}), path.as_deref()),
                )
            }
            Self::Find { pattern, path } => (
                "glob",
                with_path(json!({"pattern": pattern}), path.as_deref()),
            ),
            Self::Write { path, content } => {
                ("write_file", json!({"file_path": path, "content": content}))
            }
            Self::Replace {
                path,
                old,
                new,
                all,
            } => {
                let mut args = json!({"file_path": path, "old_string": old, "new_string": new});
                if *all {
                    args["replace_all"] = true.into();
                }
                ("edit", args)
            }
            Self::Run { command } => ("run_shell_command", json!({"command": command})),
            Self::Introduce | Self::Help | Self::Recall { .. } | Self::Unclear => return None,
        };
        Some(call)
    }
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
        Some(Err(_)) | None => super::answer::raw(&json!({})),
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

fn with_path(mut args: Value, path: Option<&str>) -> Value {
    if let Some(path) = path {
        args["path"] = path.into();
    }
    args
}

/// A regular expression that matches this text.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(prompt: &str, expected: Expect) {
        let lines = match wish(prompt) {
            Wish::Exactly { name, args } => format!("exactly {name} {args}"),
            Wish::Chunks { n, every } => format!("{n} chunks every {every:?}"),
            Wish::Steps(steps) => {
                let line = |step: &Step| match step.call() {
                    Some((name, args)) => format!("{name} {args}"),
                    None => format!("{step:?}"),
                };
                steps.iter().map(line).collect::<Vec<_>>().join("\n")
            }
        };
        expected.assert_eq(&lines);
    }

    #[test]
    fn folders_are_listed() {
        let here = || expect![[r#"list_directory {"path":"."}"#]];
        check("what is in this directory?", here());
        check("What's in here?", here());
        check("list files", here());
        check("ls", here());
        check("please list the files in the current directory.", here());
        check("show me the files", here());
        check("what files are here?", here());
        check("what does this project contain?", here());
        check("list .", here());
        check(
            "list files in src",
            expect![[r#"list_directory {"path":"src"}"#]],
        );
        check(
            "what is in the folder `my src`?",
            expect![[r#"list_directory {"path":"my src"}"#]],
        );
        check("ls ..", expect![[r#"list_directory {"path":".."}"#]]);
    }

    #[test]
    fn files_are_read() {
        check(
            "read a.txt",
            expect![[r#"read_file {"file_path":"a.txt"}"#]],
        );
        check(
            "Can you show me the file 'a b.txt'?",
            expect![[r#"read_file {"file_path":"a b.txt"}"#]],
        );
        check(
            "what does src/main.rs do?",
            expect![[r#"read_file {"file_path":"src/main.rs"}"#]],
        );
        check(
            "what is in notes.txt?",
            expect![[r#"read_file {"file_path":"notes.txt"}"#]],
        );
        check(
            "what does README contain?",
            expect![[r#"read_file {"file_path":"README"}"#]],
        );
        check(
            "read a.txt lines 2-4",
            expect![[r#"read_file {"file_path":"a.txt","offset":1,"limit":3}"#]],
        );
    }

    #[test]
    fn files_are_searched_and_found() {
        check(
            "search for fn main in src",
            expect![[r#"grep_search {"pattern":"fn main","path":"src"}"#]],
        );
        check(
            "search 'a.b(' in x",
            expect![[r#"grep_search {"pattern":"a\\.b\\(","path":"x"}"#]],
        );
        check(
            "grep to.*o",
            expect![[r#"grep_search {"pattern":"to.*o"}"#]],
        );
        check(
            "find \"hello there\"",
            expect![[r#"grep_search {"pattern":"hello there"}"#]],
        );
        check(
            "find the word hello",
            expect![[r#"grep_search {"pattern":"hello"}"#]],
        );
        check(
            "find *.rs in src",
            expect![[r#"glob {"pattern":"**/*.rs","path":"src"}"#]],
        );
        check(
            "find files named a.txt",
            expect![[r#"glob {"pattern":"**/a.txt"}"#]],
        );
        check(
            "glob src/**/*.rs",
            expect![[r#"glob {"pattern":"src/**/*.rs"}"#]],
        );
    }

    #[test]
    fn files_are_written_and_changed() {
        check(
            "create a.txt with hello world.",
            expect![[r#"write_file {"file_path":"a.txt","content":"hello world."}"#]],
        );
        check(
            "write a file called 'b c.txt' with the text \"two  blanks\"",
            expect![[r#"write_file {"file_path":"b c.txt","content":"two  blanks"}"#]],
        );
        check(
            "write `x = 1` to a.py",
            expect![[r#"write_file {"file_path":"a.py","content":"x = 1"}"#]],
        );
        check(
            "create empty.txt",
            expect![[r#"write_file {"file_path":"empty.txt","content":""}"#]],
        );
        check(
            "replace foo with bar in a.txt",
            expect![[r#"edit {"file_path":"a.txt","old_string":"foo","new_string":"bar"}"#]],
        );
        check(
            "replace all 'a b' by 'c d' in a.txt",
            expect![[
                r#"edit {"file_path":"a.txt","old_string":"a b","new_string":"c d","replace_all":true}"#
            ]],
        );
    }

    #[test]
    fn commands_are_run_as_they_stand() {
        check(
            "run `ls -la`",
            expect![[r#"run_shell_command {"command":"ls -la"}"#]],
        );
        check(
            "run the command echo 'a  b' | wc",
            expect![[r#"run_shell_command {"command":"echo 'a  b' | wc"}"#]],
        );
        check(
            "execute cargo test --workspace",
            expect![[r#"run_shell_command {"command":"cargo test --workspace"}"#]],
        );
    }

    #[test]
    fn steps_follow_each_other() {
        check(
            "create a.txt with one, then read a.txt and then run `cat a.txt`",
            expect![[r#"
                write_file {"file_path":"a.txt","content":"one"}
                read_file {"file_path":"a.txt"}
                run_shell_command {"command":"cat a.txt"}"#]],
        );
    }

    #[test]
    fn questions_are_told_apart() {
        check("who are you?", expect!["Introduce"]);
        check("What can you do?", expect!["Help"]);
        check("help", expect!["Help"]);
        check("what did I say before?", expect!["Recall { first: false }"]);
        check("What did I say first?", expect!["Recall { first: true }"]);
        check("", expect!["Unclear"]);
        check("explain monads", expect!["Unclear"]);
        check("what time is it?", expect!["Unclear"]);
        check("what is in this error?", expect!["Unclear"]);
        check("tell me about yourself", expect!["Introduce"]);
        check("tell me what you can do", expect!["Help"]);
        check("what is the meaning?", expect!["Unclear"]);
        check(
            "show me what is in src",
            expect![[r#"list_directory {"path":"src"}"#]],
        );
        check(
            "explain src/main.rs",
            expect![[r#"read_file {"file_path":"src/main.rs"}"#]],
        );
    }

    #[test]
    fn tests_say_exactly_what_they_want() {
        check(
            r#"TOOL:read_file {"a": "}"} rest"#,
            expect![[r#"exactly read_file {"a": "}"}"#]],
        );
        check("TOOL:x", expect!["exactly x {}"]);
        check("SAY 3 chunks", expect!["3 chunks every 0ns"]);
        check("SAY 3 chunks every 5 ms", expect!["3 chunks every 5ms"]);
    }
}
