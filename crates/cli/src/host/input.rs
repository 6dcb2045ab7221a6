//! Standard input as lines, each of bounded size.

use std::{
    io::{self, BufRead, BufReader},
    thread,
};

use tokio::sync::mpsc;
use wire::limits::{INPUT_LINE_BYTES_MAX, INPUT_LINES_WAITING_MAX};

use crate::stdio::Patient;

/// One line, without its line feed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Whole.
    Whole(Vec<u8>),
    /// Longer than [`INPUT_LINE_BYTES_MAX`]; its bytes are forgotten.
    TooLong,
}

/// Bytes of one read; a pipe holds as much.
const INPUT_BUFFER_BYTES: usize = 64 << 10;

/// Reads standard input on a thread of its own, which no state of the program can hold.
///
/// # Errors
/// There is no thread left.
pub(crate) fn lines() -> io::Result<mpsc::Receiver<Line>> {
    let (to, lines) = mpsc::channel(INPUT_LINES_WAITING_MAX);
    thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut input = BufReader::with_capacity(INPUT_BUFFER_BYTES, Patient(io::stdin()));
            // An input that cannot be read any more has ended.
            while let Ok(Some(line)) = next_line(&mut input, INPUT_LINE_BYTES_MAX) {
                if to.blocking_send(line).is_err() {
                    return;
                }
            }
        })?;
    Ok(lines)
}

/// The next line; `None` at the end. What comes last needs no line feed.
fn next_line(input: &mut impl BufRead, bytes_max: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let bytes = match input.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if bytes.is_empty() {
            return Ok(match (too_long, line.is_empty()) {
                (true, _) => Some(Line::TooLong),
                (false, true) => None,
                (false, false) => Some(Line::Whole(line)),
            });
        }
        let end = memchr::memchr(b'\n', bytes);
        let part = end.map_or(bytes, |end| &bytes[..end]);
        if line.len() + part.len() > bytes_max {
            too_long = true;
            line = Vec::new();
        }
        if !too_long {
            line.extend_from_slice(part);
        }
        let n_used = part.len() + usize::from(end.is_some());
        input.consume(n_used);
        if end.is_some() {
            return Ok(Some(if too_long {
                Line::TooLong
            } else {
                Line::Whole(line)
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::{Line, next_line};

    fn all(bytes: &[u8], capacity: usize) -> Vec<Line> {
        let mut input = BufReader::with_capacity(capacity, bytes);
        std::iter::from_fn(|| next_line(&mut input, 8).expect("memory can be read")).collect()
    }

    #[test]
    fn lines_are_whole_whatever_the_reads_were_and_a_long_one_costs_itself_alone() {
        for capacity in [1, 3, 64] {
            let lines = all(b"one\n\n12345678\n123456789\ntwo\nlast", capacity);
            let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
            assert_eq!(
                lines,
                [
                    whole("one"),
                    whole(""),
                    whole("12345678"),
                    Line::TooLong,
                    whole("two"),
                    whole("last"),
                ]
            );
        }
    }

    #[test]
    fn a_long_last_line_without_an_end_is_still_told() {
        assert_eq!(all(b"123456789", 4), [Line::TooLong]);
        assert_eq!(all(b"", 4), []);
    }
}
