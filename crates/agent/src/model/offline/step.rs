//! One step of a prompt, and the call that does it.

use serde_json::{Value, json};

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
