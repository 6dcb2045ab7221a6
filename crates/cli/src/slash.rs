//! Prompts that are commands to the session instead of words to the model.

/// The commands, sorted.
pub(crate) const NAMES: [&str; 1] = ["clear"];

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slash {
    /// `/clear`: goes on in a new session.
    Clear,
}

impl Slash {
    /// The command that a prompt is; every other prompt is for the model, a path in front included.
    pub(crate) fn of(prompt: &str) -> Option<Self> {
        match prompt.trim() {
            "/clear" | "/new" | "/reset" => Some(Self::Clear),
            _ => None,
        }
    }
}
