//! The lines of a file, as bytes, one after the other.
//!
//! It splits at 0x0A and knows nothing of JSON, nor of UTF-8: what is on a line is judged elsewhere.
//! Memory is one window, which grows for a long line and shrinks after it; a line beyond the limit
//! is passed over without being held.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::OFlags;

use crate::damage::ReadError;

/// Bytes read at a time. Below it a window is not shrunk.
pub(crate) const WINDOW_BYTES: usize = 1 << 20;

/// Opens a transcript for reading. A FIFO does not block, and what is not a regular file is refused.
pub(crate) fn open(path: &Path) -> Result<File, ReadError> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(|source| ReadError::of(path, source))?;
    let metadata = file
        .metadata()
        .map_err(|source| ReadError::of(path, source))?;
    if metadata.is_file() {
        Ok(file)
    } else {
        Err(ReadError::NotAFile {
            path: path.to_owned(),
        })
    }
}

/// One line, without its newline.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    /// From 1.
    pub(crate) number: u64,
    /// Of its first byte in the file.
    pub(crate) offset: u64,
    /// `None` where the line is longer than the limit.
    pub(crate) bytes: Option<&'a [u8]>,
    /// Whether a newline ends it; only a file's last line can lack one.
    pub(crate) ended: bool,
}

/// Splits a reader into lines.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    source: R,
    window: Vec<u8>,
    /// First byte of the window that was not given out.
    start: usize,
    /// First byte of the window that was not searched for a newline.
    searched: usize,
    /// First byte of the window that was not read.
    end: usize,
    /// Offset of `start` in the file.
    offset: u64,
    number: u64,
    line_bytes_max: usize,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(source: R, line_bytes_max: usize) -> Self {
        Self {
            source,
            window: Vec::new(),
            start: 0,
            searched: 0,
            end: 0,
            offset: 0,
            number: 0,
            line_bytes_max,
        }
    }

    /// The offset behind the last line given out.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next line, or `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            let found = memchr::memchr(b'\n', &self.window[self.searched..self.end])
                .map(|at| self.searched + at);
            if let Some(newline) = found {
                if newline - self.start > self.line_bytes_max {
                    return self.pass_over(newline + 1, true).map(Some);
                }
                return Ok(Some(self.give(newline, newline + 1, true)));
            }
            self.searched = self.end;
            if self.end - self.start > self.line_bytes_max {
                return self.skip_line().map(Some);
            }
            if self.fill()? == 0 {
                if self.start == self.end {
                    return Ok(None);
                }
                return Ok(Some(self.give(self.end, self.end, false)));
            }
        }
    }

    fn give(&mut self, line_end: usize, next: usize, ended: bool) -> Line<'_> {
        let (start, offset) = (self.start, self.offset);
        self.advance(next);
        Line {
            number: self.number,
            offset,
            bytes: Some(&self.window[start..line_end]),
            ended,
        }
    }

    fn pass_over(&mut self, next: usize, ended: bool) -> io::Result<Line<'_>> {
        let offset = self.offset;
        self.advance(next);
        Ok(Line {
            number: self.number,
            offset,
            bytes: None,
            ended,
        })
    }

    fn advance(&mut self, next: usize) {
        self.number += 1;
        self.offset += (next - self.start) as u64;
        self.start = next;
        self.searched = next;
    }

    /// Drops window after window until the newline of a line that is too long.
    fn skip_line(&mut self) -> io::Result<Line<'_>> {
        let offset = self.offset;
        loop {
            self.offset += (self.end - self.start) as u64;
            (self.start, self.searched, self.end) = (0, 0, 0);
            let ended = if self.fill()? == 0 {
                false
            } else if let Some(at) = memchr::memchr(b'\n', &self.window[..self.end]) {
                self.offset += at as u64 + 1;
                self.start = at + 1;
                self.searched = self.start;
                true
            } else {
                continue;
            };
            self.number += 1;
            return Ok(Line {
                number: self.number,
                offset,
                bytes: None,
                ended,
            });
        }
    }

    /// Reads more behind `end`; moves what is left to the front first. 0 at the end of the file.
    fn fill(&mut self) -> io::Result<usize> {
        if self.start > 0 && self.end == self.window.len() {
            self.window.copy_within(self.start..self.end, 0);
            self.searched -= self.start;
            self.end -= self.start;
            self.start = 0;
            if self.window.len() > WINDOW_BYTES && self.end <= WINDOW_BYTES / 2 {
                self.window.truncate(WINDOW_BYTES);
                self.window.shrink_to_fit();
            }
        }
        if self.end == self.window.len() {
            let grown = (self.window.len() * 2).max(WINDOW_BYTES);
            if self.window.is_empty() {
                // Fresh zero pages cost nothing until they are read into.
                self.window = vec![0; grown];
            } else {
                self.window.resize(grown, 0);
            }
        }
        loop {
            match self.source.read(&mut self.window[self.end..]) {
                Ok(n) => {
                    self.end += n;
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out at most `step` bytes at a time.
    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = self.0.len().min(self.1).min(buf.len());
            buf[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn split(text: &[u8], step: usize, line_bytes_max: usize) -> Vec<(u64, Option<Vec<u8>>, bool)> {
        let mut lines = Lines::new(Dribble(text, step), line_bytes_max);
        let mut out = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            assert_eq!(line.number, out.len() as u64 + 1);
            out.push((line.offset, line.bytes.map(<[u8]>::to_vec), line.ended));
        }
        assert_eq!(lines.offset(), text.len() as u64);
        out
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let text = b"one\n\ntwo\r\nlast";
        for step in 1..=text.len() {
            let lines = split(text, step, 100);
            let expected: [(u64, &[u8], bool); 4] = [
                (0, b"one", true),
                (4, b"", true),
                (5, b"two\r", true),
                (10, b"last", false),
            ];
            let got: Vec<_> = lines
                .iter()
                .map(|(offset, bytes, ended)| (*offset, bytes.as_deref().unwrap(), *ended))
                .collect();
            assert_eq!(got, expected, "step {step}");
        }
    }

    #[test]
    fn a_line_beyond_the_limit_is_passed_over_and_the_next_is_whole() {
        let text = b"abcdefghij\nok\nabcdefghij";
        for step in 1..=text.len() {
            let lines = split(text, step, 4);
            assert_eq!(
                lines,
                [
                    (0, None, true),
                    (11, Some(b"ok".to_vec()), true),
                    (14, None, false),
                ],
                "step {step}"
            );
        }
    }

    #[test]
    fn a_long_line_is_not_held_and_the_window_shrinks_after_a_longer_one() {
        let mut text = vec![b'x'; 5 * WINDOW_BYTES];
        text.push(b'\n');
        text.extend(std::iter::repeat_n(*b"y\n", WINDOW_BYTES * 2).flatten());
        let mut lines = Lines::new(&text[..], 64 << 20);
        let first = lines.next().unwrap().unwrap();
        assert_eq!(first.bytes.unwrap().len(), 5 * WINDOW_BYTES);
        while lines.next().unwrap().is_some() {}
        assert_eq!(lines.window.len(), WINDOW_BYTES);

        let mut lines = Lines::new(&text[..], 1000);
        assert!(lines.next().unwrap().unwrap().bytes.is_none());
        assert!(lines.window.capacity() <= 2 * WINDOW_BYTES);
    }
}
