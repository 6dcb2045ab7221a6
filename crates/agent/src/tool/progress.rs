//! What a person sees of a command while it runs: its latest output, not too often.

use wire::limits::{SHELL_PROGRESS_BYTES_MAX, SHELL_PROGRESS_INTERVAL};

use tokio::time::Instant;

use super::{Context, cut, kept};

/// Output that was not shown yet.
#[derive(Debug)]
pub(super) struct Progress {
    pending: Vec<u8>,
    next_at: Instant,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            pending: Vec::new(),
            next_at: Instant::now(),
        }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        let n_over = self.pending.len().saturating_sub(SHELL_PROGRESS_BYTES_MAX);
        self.pending.drain(..n_over);
    }

    /// When the pending output may be shown; `None` where there is no whole character of it.
    pub(super) fn due_at(&self) -> Option<Instant> {
        (kept::whole_chars(&self.pending) > 0).then_some(self.next_at)
    }

    /// Shows the pending output, but for a character of which the end has not arrived.
    pub(super) fn show(&mut self, context: &Context) {
        self.next_at = Instant::now() + SHELL_PROGRESS_INTERVAL;
        let n_bytes = kept::whole_chars(&self.pending);
        let text = String::from_utf8_lossy(&self.pending[..n_bytes]).into_owned();
        let start = cut::ceil(&text, text.len().saturating_sub(SHELL_PROGRESS_BYTES_MAX));
        (context.progress)(text[start..].to_owned());
        self.pending.drain(..n_bytes);
    }
}
