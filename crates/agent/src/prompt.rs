//! The instructions that come before every conversation.

use std::path::Path;

/// The system prompt of a session that works in `root`; `extra` is the person's own addition.
#[must_use]
pub fn system(root: &Path, extra: Option<&str>) -> String {
    let mut prompt = format!(
        "You are onrecord, a coding agent. You work in the folder {} on the user's behalf.\n\
         Use the tools to look before you answer and to do what is asked; read a file before you \
         change it; change no more than was asked. Paths may be relative to that folder. When a \
         tool fails or is refused, say so instead of pretending. Answer briefly, in the language of \
         the user, and end with what was done and what was not.",
        root.display()
    );
    if let Some(extra) = extra {
        prompt.push_str("\n\n");
        prompt.push_str(extra);
    }
    prompt
}
