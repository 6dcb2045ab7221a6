//! A program that is driven line by line: what is sent to its standard input depends on what it said
//! before.
//!
//! Whatever is waited for has a deadline, and whatever is missed is shown with all that was seen.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStderr, ChildStdin, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::run::{Outcome, exit_code};

/// How long a message, or the end of the program, is waited for: longer than any wait of a healthy
/// program, on a machine that does something else as well.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// Messages that are read ahead.
const MESSAGES_AHEAD_MAX: usize = 1 << 20;

/// A running program whose standard output holds a JSON message a line.
#[derive(Debug)]
pub struct Driven {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Lines of standard output, until it ends.
    lines: mpsc::Receiver<String>,
    seen: Vec<Value>,
    /// The same, as they were written.
    stdout: String,
    stderr: Option<JoinHandle<String>>,
    ended: bool,
}

impl Driven {
    /// Starts the program and reads what it says from now on.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => panic!("failed to start {command:?}: {error}"),
        };
        let stdout = child.stdout.take().expect("stdout was piped above");
        let stderr = child.stderr.take().expect("stderr was piped above");
        Self {
            stdin: child.stdin.take(),
            child,
            lines: lines_of(stdout),
            seen: Vec::new(),
            stdout: String::new(),
            stderr: Some(read_all(stderr)),
            ended: false,
        }
    }

    /// The process; that of a program which runs it, where there is one.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All messages so far.
    #[must_use]
    pub fn seen(&self) -> &[Value] {
        &self.seen
    }

    /// Sends a message as one line.
    ///
    /// # Panics
    /// Where the program does not read any more.
    pub fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    /// Sends bytes as they are.
    ///
    /// # Panics
    /// As [`Driven::send`].
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("standard input is still open");
        if let Err(error) = stdin.write_all(bytes).and_then(|()| stdin.flush()) {
            panic!("not sent: {error}; seen: {:#?}", self.seen);
        }
    }

    /// Ends its standard input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Closes its standard output at our end, as soon as it says something more.
    pub fn close_output(&mut self) {
        let (_, nothing) = mpsc::sync_channel(0);
        self.lines = nothing;
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// Where it has ended.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a child has an id"), signal).expect("it runs");
    }

    /// Reads up to and with the first message that `is` what is waited for.
    ///
    /// # Panics
    /// Where it does not come in time, or the output ends before it.
    pub fn until(&mut self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let message = self.next_before(deadline, what);
            if is(&message) {
                return message;
            }
        }
    }

    /// Whether it says anything in this time.
    ///
    /// # Panics
    /// Where it is no JSON.
    #[must_use]
    pub fn says_something_in(&mut self, wait: Duration) -> bool {
        let Ok(line) = self.lines.recv_timeout(wait) else {
            return false;
        };
        self.take(&line);
        true
    }

    fn next_before(&mut self, deadline: Instant, what: &str) -> Value {
        let wait = deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(wait) {
            Ok(line) => self.take(&line),
            Err(RecvTimeoutError::Timeout) => {
                panic!("{what} did not come in time; seen: {:#?}", self.seen)
            }
            Err(RecvTimeoutError::Disconnected) => {
                let stderr = self.stderr.take().map(text_of);
                panic!(
                    "the output ended before {what}; seen: {:#?}; on standard error: {stderr:?}",
                    self.seen
                )
            }
        }
    }

    fn take(&mut self, line: &str) -> Value {
        let message: Value = match serde_json::from_str(line) {
            Ok(message) => message,
            Err(error) => panic!("no JSON ({error}): {line}"),
        };
        self.seen.push(message.clone());
        self.stdout.push_str(line);
        self.stdout.push('\n');
        message
    }

    /// Ends its input, reads the rest and waits for its end.
    ///
    /// # Panics
    /// Where it does not end in time.
    #[must_use]
    pub fn end(mut self) -> Outcome {
        self.close_input();
        self.wait()
    }

    /// Reads the rest and waits for its end, with its input still open.
    ///
    /// # Panics
    /// Where it does not end in time.
    #[must_use]
    pub fn wait(mut self) -> Outcome {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let wait = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(wait) {
                Ok(line) => {
                    self.take(&line);
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("it did not end in time; seen: {:#?}", self.seen)
                }
            }
        }
        let status = loop {
            let status = self.child.try_wait();
            if let Some(status) = status.expect("a child of ours can be waited for") {
                break status;
            }
            assert!(Instant::now() < deadline, "it did not end in time");
            thread::yield_now();
        };
        self.ended = true;
        Outcome {
            code: exit_code(status),
            stdout: std::mem::take(&mut self.stdout),
            stderr: self.stderr.take().map(text_of).unwrap_or_default(),
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        if !self.ended {
            // Dropped: a test that failed leaves no program behind, and one that ended needs no end.
            _ = self.child.kill();
            // Dropped: as above.
            _ = self.child.wait();
        }
    }
}

/// Reads lines on a thread of its own, so that waiting for one can have an end.
pub fn lines_of(from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (to, lines) = mpsc::sync_channel(MESSAGES_AHEAD_MAX);
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn read_all(mut stderr: ChildStderr) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // Dropped: what came before a broken pipe is what there is.
        _ = stderr.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn text_of(reading: JoinHandle<String>) -> String {
    reading.join().unwrap_or_default()
}
