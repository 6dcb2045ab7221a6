//! Ending the turn that runs, and only that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Ends turns one at a time. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    running: Option<CancellationToken>,
    /// The interrupt came after the prompt and before its turn.
    next: bool,
}

impl Interrupt {
    /// The token of a turn that begins; it also fires with `all`.
    #[must_use]
    pub fn begin(&self, all: &CancellationToken) -> CancellationToken {
        let token = all.child_token();
        let mut state = self.lock();
        if std::mem::take(&mut state.next) {
            token.cancel();
        }
        state.running = Some(token.clone());
        token
    }

    /// Says that the turn is over.
    pub fn end(&self) {
        self.lock().running = None;
    }

    /// Whether a turn runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.lock().running.is_some()
    }

    /// Ends the turn that runs; without one, the one that `waits` already. Otherwise does nothing.
    pub fn fire(&self, waits: bool) {
        let mut state = self.lock();
        match &state.running {
            Some(token) => token.cancel(),
            None => state.next = waits,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
