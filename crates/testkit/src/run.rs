//! Running a program to its end and reading what it said.

use std::{
    io::{Read, Write},
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus, Output, Stdio},
    thread,
};

/// What a program left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its exit code; `128 + n` where signal `n` ended it, as a shell says it.
    pub code: i32,
    /// Its standard output; broken characters become U+FFFD.
    pub stdout: String,
    /// Its standard error; broken characters become U+FFFD.
    pub stderr: String,
}

impl Outcome {
    /// The lines of standard output.
    #[must_use]
    pub fn stdout_lines(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }

    /// The lines of standard error.
    #[must_use]
    pub fn stderr_lines(&self) -> Vec<&str> {
        self.stderr.lines().collect()
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self {
            code: exit_code(output.status),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs the program to its end.
///
/// # Panics
/// Where it cannot be started.
pub fn run(command: &mut Command) -> Outcome {
    match command.output() {
        Ok(output) => output.into(),
        Err(error) => panic!("failed to start {command:?}: {error}"),
    }
}

/// Runs the program to its end, with `input` on its standard input.
///
/// # Panics
/// Where it cannot be started. A program that does not read all of its input is no failure.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Outcome {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => panic!("failed to start {command:?}: {error}"),
    };
    let mut stdin = child.stdin.take().expect("stdin was piped above");
    let output = thread::scope(|scope| {
        scope.spawn(move || {
            // Dropped: the program may end before it has read everything.
            _ = stdin.write_all(input);
        });
        child.wait_with_output()
    });
    output.expect("a child of ours can be waited for").into()
}

/// Reads a pipe up to and with the first line that holds `word`; at its end, what came.
///
/// # Panics
/// Where the pipe breaks.
pub fn read_until(pipe: &mut impl Read, word: &str) -> String {
    let (mut text, mut byte) = (Vec::new(), [0; 1]);
    let mut line_start = 0;
    while pipe.read(&mut byte).expect("the pipe can be read") == 1 {
        text.push(byte[0]);
        if byte[0] == b'\n' {
            if String::from_utf8_lossy(&text[line_start..]).contains(word) {
                break;
            }
            line_start = text.len();
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    let by_signal = status.signal().map(|signal| 128 + signal);
    status
        .code()
        .or(by_signal)
        .expect("a process ends with a code or by a signal")
}
