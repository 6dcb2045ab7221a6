//! Fallible writes to standard output and standard error.
//!
//! A reader that went away is no error of ours: what cannot be said is not said, and the process
//! ends as its work says.

use std::{
    borrow::Cow,
    io::{self, Read, Write},
    os::fd::AsFd,
};

use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
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

/// Writes to standard output.
///
/// # Errors
/// Standard output is closed, or cannot take it.
pub(crate) fn print(bytes: &[u8]) -> io::Result<()> {
    // Nothing of ours goes through the buffer of `io::stdout`.
    Patient(io::stdout()).write_all(bytes)
}

/// A writer whose descriptor may be one that does not block, as the program at the other end left it:
/// it waits for room instead of failing in the middle of a line. Nothing is buffered.
#[derive(Debug)]
pub(crate) struct Patient<T>(pub(crate) T);

impl<T: AsFd> Write for Patient<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(&self.0, bytes) {
                Err(Errno::AGAIN) => wait_for(&self.0, PollFlags::OUT)?,
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<T: AsFd> Read for Patient<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::io::read(&self.0, &mut *bytes) {
                Err(Errno::AGAIN) => wait_for(&self.0, PollFlags::IN)?,
                read => return Ok(read?),
            }
        }
    }
}

fn wait_for(descriptor: &impl AsFd, event: PollFlags) -> io::Result<()> {
    match rustix::event::poll(&mut [PollFd::new(descriptor, event)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
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

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Read, Write},
        thread,
    };

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::Patient;

    #[test]
    fn a_pipe_that_does_not_block_takes_and_gives_every_byte() {
        let (reader, writer) = io::pipe().expect("a pipe is made");
        fcntl_setfl(&reader, OFlags::NONBLOCK).expect("a pipe has flags");
        fcntl_setfl(&writer, OFlags::NONBLOCK).expect("a pipe has flags");
        // More than a pipe holds, so that both sides wait for each other.
        let sent: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[0]).collect();
        let bytes = sent.clone();
        let writing = thread::spawn(move || Patient(writer).write_all(&bytes));
        let mut received = Vec::new();
        Patient(reader)
            .read_to_end(&mut received)
            .expect("it waits for what comes");
        writing
            .join()
            .expect("it does not panic")
            .expect("it waits for room");
        assert!(received == sent);
    }
}
