//! A daemon under test: a process that says its URL on standard output and serves sessions over HTTP.
//! The real `qwen serve` and ours are asked the same way.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    driven::lines_of,
    http::{Events, ask},
};

/// A running daemon; it ends, and its agents with it, when this is dropped.
#[derive(Debug)]
pub struct Served {
    child: Child,
    address: SocketAddr,
    log: mpsc::Receiver<String>,
}

impl Served {
    /// Starts it, and waits until it listens.
    ///
    /// # Panics
    /// Where it does not.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            unreachable!("both are pipes")
        };
        let log = lines_of(errors);
        let mut output = BufReader::new(output);
        let mut said = String::new();
        let address = loop {
            let from = said.len();
            let n_read = output.read_line(&mut said).unwrap_or_default();
            if n_read == 0 {
                let errors: Vec<String> = log.try_iter().collect();
                panic!("it does not listen: {said} {errors:#?}");
            }
            let (_, url) = said[from..].split_once("http://").unwrap_or_default();
            let end = url.find(|c: char| !c.is_ascii_digit() && !".:".contains(c));
            if let Ok(address) = url[..end.unwrap_or(url.len())].parse() {
                break address;
            }
        };
        // What nobody reads must not hold it up.
        thread::spawn(move || output.read_to_end(&mut Vec::new()));
        Self {
            child,
            address,
            log,
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The lines of standard error so far.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.log.try_iter().collect()
    }

    /// Status and body of an answer.
    ///
    /// # Panics
    /// As [`ask`].
    #[must_use]
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        ask(self.address, method, path, body)
    }

    /// The body of an answer that must be a good one.
    ///
    /// # Panics
    /// Where it is not.
    pub fn good(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) = self.ask(method, path, body);
        assert!(
            (200..300).contains(&status),
            "{method} {path}: {status} {answer}"
        );
        answer
    }

    /// The id of a new session.
    ///
    /// # Panics
    /// Where there is none.
    #[must_use]
    pub fn session(&self, approval_mode: &str) -> String {
        let wish = json!({"sessionScope": "thread", "approvalMode": approval_mode});
        let answer = self.good("POST", "/session", Some(&wish));
        match answer["sessionId"].as_str() {
            Some(id) => id.to_owned(),
            None => panic!("a session without an id: {answer}"),
        }
    }

    /// Sends a prompt; answers with its id.
    ///
    /// # Panics
    /// Where it is not taken.
    pub fn prompt(&self, session: &str, text: &str) -> Value {
        let body = json!({"prompt": [{"type": "text", "text": text}]});
        self.good("POST", &format!("/session/{session}/prompt"), Some(&body))["promptId"].clone()
    }

    /// Opens a stream of a session's events; `query` begins with `?`, or is empty.
    ///
    /// # Panics
    /// Where there is none.
    #[must_use]
    pub fn events(&self, session: &str, query: &str) -> Events {
        Events::open(self.address, &format!("/session/{session}/events{query}"))
    }

    /// Opens a stream behind an event.
    ///
    /// # Panics
    /// As [`Served::events`].
    #[must_use]
    pub fn events_after(&self, session: &str, query: &str, id: u64, epoch: &str) -> Events {
        let path = format!("/session/{session}/events{query}");
        let headers = [
            ("last-event-id", &*id.to_string()),
            ("x-qwen-event-epoch", epoch),
        ];
        Events::open_as(self.address, &path, &headers)
    }

    /// Runs a whole turn, seen on a stream that is open; answers with its end.
    ///
    /// # Panics
    /// Where it does not end in time.
    pub fn turn(&self, session: &str, events: &mut Events, text: &str) -> Value {
        let id = self.prompt(session, text);
        ended(events, &id)
    }

    /// Archives a session.
    ///
    /// # Panics
    /// Where the request as a whole is refused.
    #[must_use]
    pub fn archive(&self, session: &str) -> Value {
        let body = json!({"sessionIds": [session]});
        self.good("POST", "/sessions/archive", Some(&body))
    }

    /// Asks it to end, and waits for it.
    ///
    /// # Panics
    /// Where it cannot be waited for.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        match self.child.wait() {
            Ok(status) => status,
            Err(error) => panic!("a child of ours can be waited for: {error}"),
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Dropped: it may have ended, which its wait tells.
            _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        // Dropped: as above.
        _ = self.child.wait();
    }
}

/// Reads up to the end of the turn of a prompt.
///
/// # Panics
/// Where it does not come in [`WAIT_MAX`](crate::driven::WAIT_MAX).
pub fn ended(events: &mut Events, prompt: &Value) -> Value {
    events.until("the end of the turn", |event| {
        let kind = &event["type"];
        (kind == "turn_complete" || kind == "turn_error") && event["data"]["promptId"] == *prompt
    })
}

/// The events of a kind that were seen.
#[must_use]
pub fn of_type<'a>(events: &'a Events, kind: &str) -> Vec<&'a Value> {
    events
        .seen()
        .iter()
        .filter(|event| event["type"] == kind)
        .collect()
}
