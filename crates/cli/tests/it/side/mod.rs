//! The second output of a run (`--json-fd`, `--json-file`) and its commands (`--input-file`).

mod ask;
mod channel;
mod commands;
mod output;

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

use serde_json::Value;
use testkit::{driven::WAIT_MAX, home::Home, run::Outcome};

/// The three formats of standard output.
const FORMATS: [&str; 3] = ["text", "json", "stream-json"];

/// The messages in a file.
fn read(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    // What is still being written has no end yet.
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Type and subtype of messages.
fn kinds(messages: &[Value]) -> Vec<String> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    messages
        .iter()
        .map(|m| match m["type"].as_str() {
            Some("system") => word(&m["subtype"]),
            Some("stream_event") => word(&m["event"]["type"]),
            _ => word(&m["type"]),
        })
        .collect()
}

/// A second program: it watches one file and adds commands to another.
#[derive(Debug)]
struct Watcher {
    output: PathBuf,
    commands: PathBuf,
}

impl Watcher {
    fn new(home: &Home) -> Self {
        let commands = home.path().join("commands");
        fs::write(&commands, "").unwrap();
        Self {
            output: home.path().join("output"),
            commands,
        }
    }

    /// The flags of a run that it watches and steers.
    fn flags(&self) -> [&str; 4] {
        [
            "--json-file",
            self.output.to_str().unwrap(),
            "--input-file",
            self.commands.to_str().unwrap(),
        ]
    }

    /// Adds bytes to its commands.
    fn add(&self, bytes: &str) {
        let mut file = OpenOptions::new()
            .append(true)
            .open(&self.commands)
            .unwrap();
        file.write_all(bytes.as_bytes()).unwrap();
    }

    /// Adds a command.
    fn say(&self, command: &Value) {
        self.add(&format!("{command}\n"));
    }

    /// What it has seen.
    fn seen(&self) -> Vec<Value> {
        read(&self.output)
    }

    /// Waits until it sees what `is` waited for, the `nth` time.
    fn until(&self, what: &str, nth: usize, is: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let seen = self.seen();
            if let Some(found) = seen.iter().filter(|m| is(m)).nth(nth - 1) {
                return found.clone();
            }
            assert!(Instant::now() < deadline, "{what} did not come: {seen:#?}");
            std::thread::yield_now();
        }
    }

    /// Waits for a message of this type, or of this subtype.
    fn kind(&self, kind: &str) -> Value {
        self.until(kind, 1, |m| m["type"] == kind || m["subtype"] == kind)
    }
}

/// A run with nothing on standard input, in the background.
fn begin(command: &mut Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn end(child: Child) -> Outcome {
    Outcome::from(child.wait_with_output().unwrap())
}
