//! What a child says on its standard error: logged, bounded, never understood.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use wire::limits::{CHILD_STDERR_LINE_BYTES_MAX, CHILD_STDERR_TAIL_BYTES_MAX};

use crate::launch::Ended;

/// The last lines.
#[derive(Debug, Default)]
pub(crate) struct Tail(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<String>,
    n_bytes: usize,
}

impl Tail {
    fn push(&self, line: &str) {
        let start = line.len().saturating_sub(CHILD_STDERR_TAIL_BYTES_MAX);
        let line = &line[line.ceil_char_boundary(start)..];
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tail.n_bytes += line.len();
        tail.lines.push_back(line.to_owned());
        while tail.n_bytes > CHILD_STDERR_TAIL_BYTES_MAX
            && let Some(oldest) = tail.lines.pop_front()
        {
            tail.n_bytes -= oldest.len();
        }
    }

    /// Says what came last before a bad end.
    pub(crate) fn log(&self, ended: &Ended) {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = tail.lines.iter().map(String::as_str).collect::<Vec<_>>();
        tracing::warn!(target: "agent", ?ended, stderr = %lines.join("\n"), "the agent ended");
    }
}

/// Reads to the end.
pub(crate) async fn drain(stderr: impl AsyncRead + Unpin, tail: std::sync::Arc<Tail>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        let bytes = match reader.fill_buf().await {
            Ok(bytes) if !bytes.is_empty() => bytes,
            Ok(_) | Err(_) => break,
        };
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let piece = &bytes[..end.unwrap_or(bytes.len())];
        let room = CHILD_STDERR_LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(&piece[..piece.len().min(room)]);
        let n_bytes = piece.len() + usize::from(end.is_some());
        reader.consume(n_bytes);
        if end.is_some() {
            say(&mut line, &tail);
        }
    }
    say(&mut line, &tail);
}

fn say(line: &mut Vec<u8>, tail: &Tail) {
    let text = String::from_utf8_lossy(line);
    if !text.trim().is_empty() {
        tracing::debug!(target: "agent", "{text}");
        tail.push(&text);
    }
    line.clear();
}
