//! Bytes split into lines, each of bounded length.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};
use wire::limits::{JSONRPC_LINE_HEAD_BYTES, JSONRPC_READ_BYTES};

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Without its newline.
    Whole(&'a [u8]),
    /// It is longer than the limit; this is its beginning, the same however it arrived.
    TooLong(&'a [u8]),
}

/// Splits a reader into lines. The last one may lack its newline.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    source: R,
    window: Vec<u8>,
    /// First byte of the window that was not given out.
    start: usize,
    /// First byte of the window that was not searched for a newline.
    searched: usize,
    line_bytes_max: usize,
    /// Bytes kept of a line that is too long.
    head_bytes: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// `line_bytes_max` counts the newline.
    pub(crate) fn new(source: R, line_bytes_max: usize) -> Self {
        Self {
            source,
            window: Vec::new(),
            start: 0,
            searched: 0,
            line_bytes_max,
            head_bytes: JSONRPC_LINE_HEAD_BYTES.min(line_bytes_max),
        }
    }

    /// The next line, or `None` at the end.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.window[self.searched..]) {
                let newline = self.searched + at;
                return Ok(Some(self.give(newline, newline + 1)));
            }
            self.searched = self.window.len();
            if self.window.len() - self.start >= self.line_bytes_max {
                return self.skip_line().await.map(Some);
            }
            if self.fill().await? == 0 {
                if self.start == self.window.len() {
                    return Ok(None);
                }
                return Ok(Some(self.give(self.searched, self.searched)));
            }
        }
    }

    fn give(&mut self, end: usize, next: usize) -> Line<'_> {
        let line = &self.window[self.start..end];
        self.start = next;
        self.searched = next;
        if line.len() >= self.line_bytes_max {
            return Line::TooLong(&line[..self.head_bytes]);
        }
        Line::Whole(line)
    }

    /// Drops the rest of a line up to its newline, and keeps its beginning.
    async fn skip_line(&mut self) -> io::Result<Line<'_>> {
        self.window.drain(..self.start);
        self.start = 0;
        let n_head = self.head_bytes;
        loop {
            self.window.truncate(n_head);
            self.searched = n_head;
            self.window.shrink_to(2 * JSONRPC_READ_BYTES);
            let is_end = self.fill().await? == 0;
            let newline = memchr::memchr(b'\n', &self.window[n_head..]);
            if is_end || newline.is_some() {
                self.start = n_head + newline.map_or(0, |at| at + 1);
                self.searched = self.start;
                return Ok(Line::TooLong(&self.window[..n_head]));
            }
        }
    }

    /// Reads more behind the window; 0 at the end.
    async fn fill(&mut self) -> io::Result<usize> {
        self.window.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.window.len() <= JSONRPC_READ_BYTES {
            // Gives back what a long line had taken.
            self.window.shrink_to(2 * JSONRPC_READ_BYTES);
        }
        if self.window.capacity() - self.window.len() < JSONRPC_READ_BYTES {
            let n_doubled = self.window.len().min(self.line_bytes_max);
            self.window.reserve_exact(n_doubled.max(JSONRPC_READ_BYTES));
        }
        loop {
            match self.source.read_buf(&mut self.window).await {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Poll},
    };

    use proptest::prelude::*;
    use tokio::io::ReadBuf;

    use super::*;

    /// Gives out at most `step` bytes at a time.
    struct Dribble<'a>(&'a [u8], usize);

    impl AsyncRead for Dribble<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let (head, rest) = self
                .0
                .split_at(self.0.len().min(self.1).min(buf.remaining()));
            buf.put_slice(head);
            self.0 = rest;
            Poll::Ready(Ok(()))
        }
    }

    type Split = Vec<(bool, Vec<u8>)>;

    /// The lines, each with whether it is whole, and the most memory that it took.
    fn split(text: &[u8], step: usize, line_bytes_max: usize) -> (Split, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut lines = Lines::new(Dribble(text, step), line_bytes_max);
            let mut split = Vec::new();
            let mut capacity_max = 0;
            while let Some(line) = lines.next().await.unwrap() {
                split.push(match line {
                    Line::Whole(line) => (true, line.to_vec()),
                    Line::TooLong(head) => (false, head.to_vec()),
                });
                capacity_max = capacity_max.max(lines.window.capacity());
            }
            (split, capacity_max)
        })
    }

    fn naive(text: &[u8], line_bytes_max: usize) -> Split {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        if text.is_empty() {
            return Vec::new();
        }
        text.split(|byte| *byte == b'\n')
            .map(|line| match line.len() < line_bytes_max {
                true => (true, line.to_vec()),
                false => (false, line[..line_bytes_max].to_vec()),
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn lines_are_the_same_however_they_arrive(
            lines in prop::collection::vec("[ab\r]{0,12}", 1..12),
            is_ended: bool,
            step in 1..40usize,
            line_bytes_max in 1..10usize,
        ) {
            let mut text = lines.join("\n").into_bytes();
            if is_ended || text.ends_with(b"\n") || text.is_empty() {
                text.extend(b"x\n");
            }
            prop_assert_eq!(
                split(&text, step, line_bytes_max).0,
                naive(&text, line_bytes_max)
            );
        }
    }

    #[test]
    fn a_line_counts_with_its_newline() {
        let (lines, _) = split(b"abc\nabcd\n", 100, 4);
        assert_eq!(lines, [(true, b"abc".to_vec()), (false, b"abcd".to_vec())]);
    }

    #[test]
    fn blank_lines_are_lines() {
        let (lines, _) = split(b"\n\r\n", 1, 4);
        assert_eq!(lines, [(true, b"".to_vec()), (true, b"\r".to_vec())]);
    }

    #[test]
    fn a_line_that_is_too_long_is_not_held() {
        let mut text = vec![b'x'; 100 * JSONRPC_READ_BYTES];
        text.extend(b"\nok");
        for step in [1_000, usize::MAX] {
            let (lines, capacity_max) = split(&text, step, 1_000);
            assert_eq!(lines, [(false, vec![b'x'; 1_000]), (true, b"ok".to_vec())]);
            assert!(capacity_max <= 3 * JSONRPC_READ_BYTES, "{capacity_max}");
        }
    }

    #[test]
    fn the_memory_of_a_long_line_is_given_back() {
        let mut text = vec![b'x'; 50 * JSONRPC_READ_BYTES];
        text.extend(b"\nok\n");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut lines = Lines::new(Dribble(&text, 10_000), 64 << 20);
            let Some(Line::Whole(line)) = lines.next().await.unwrap() else {
                panic!("the line is whole");
            };
            assert_eq!(line.len(), 50 * JSONRPC_READ_BYTES);
            assert!(lines.window.capacity() <= 101 * JSONRPC_READ_BYTES);
            while lines.next().await.unwrap().is_some() {}
            assert!(lines.window.capacity() <= 3 * JSONRPC_READ_BYTES);
        });
    }
}
