//! What a person or a program can change of a session while it works.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    approval::Mode,
    model::{Effort, Provider},
};

/// Settings of a session that may change at any time, also during a turn: the mode counts from the
/// next tool call, model and effort from the next model call. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Controls {
    settings: Arc<Mutex<Settings>>,
}

#[derive(Debug)]
struct Settings {
    mode: Mode,
    provider: Arc<dyn Provider>,
    effort: Option<Effort>,
}

impl Controls {
    /// Settings to begin with.
    #[must_use]
    pub fn new(mode: Mode, provider: Arc<dyn Provider>) -> Self {
        Self {
            settings: Arc::new(Mutex::new(Settings {
                mode,
                provider,
                effort: None,
            })),
        }
    }

    /// How much runs without asking.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.lock().mode
    }

    /// Changes the mode.
    pub fn set_mode(&self, mode: Mode) {
        self.lock().mode = mode;
    }

    /// Who answers.
    #[must_use]
    pub fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.lock().provider)
    }

    /// Changes who answers.
    pub fn set_provider(&self, provider: Arc<dyn Provider>) {
        self.lock().provider = provider;
    }

    /// How hard the model is asked to think; `None` where nobody said.
    #[must_use]
    pub fn effort(&self) -> Option<Effort> {
        self.lock().effort
    }

    /// Changes it. Answers whether the model of now takes it.
    pub fn set_effort(&self, effort: Effort) -> bool {
        let mut settings = self.lock();
        settings.effort = Some(effort);
        settings.provider.takes_effort()
    }

    fn lock(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
