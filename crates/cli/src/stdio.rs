//! Fallible writes to standard output and standard error.
//!
//! A reader that went away is no error of ours: what cannot be said is not said, and the process
//! ends as its work says.

use std::io::{self, Write};

/// Writes a line to standard error.
pub(crate) fn say(line: &str) {
    let mut text = String::with_capacity(line.len() + 1);
    text.push_str(line);
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
