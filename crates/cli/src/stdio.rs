//! Fallible writes to standard output and standard error.
//!
//! A reader that went away is no error of ours: what cannot be said is not said, and the process
//! ends as its work says.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use crate::resolve::Refusal;

/// Writes a line to standard error.
pub(crate) fn say(line: &str) {
    let mut text = String::with_capacity(line.len() + 1);
    text.push_str(&plain(line));
    text.push('\n');
    // Dropped: there is nobody left to tell.
    _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Writes to standard output in one call.
///
/// # Errors
/// Standard output is closed, or cannot take it.
pub(crate) fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Standard output as a writer; each call is one write, flushed.
#[derive(Debug)]
pub(crate) struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        print(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints what a command was asked for. A reader that went away (`| head`) ends quietly.
///
/// # Errors
/// It could not be written otherwise: what was asked for is not there, which is no success.
pub(crate) fn deliver(printed: io::Result<()>) -> Result<(), Refusal> {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Refusal::usage(format!(
            "standard output could not be written ({})",
            error.kind()
        ))),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Text of others that cannot steer a terminal: neither by control characters, line feeds
/// excepted, nor by turning the direction of what is read.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let steers = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.chars().any(steers) {
        Cow::Owned(text.replace(steers, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}
