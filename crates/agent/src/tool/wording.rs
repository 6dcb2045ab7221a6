//! How names and numbers are put into a sentence, for the model and for people.
//!
//! A name takes one row, whatever is in it: no line breaks, no terminal codes.

use std::path::Path;

/// A path as it is shown. Control characters are escaped, bytes that are no UTF-8 replaced.
pub(super) fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    if !text.chars().any(char::is_control) {
        return text.into_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        if char.is_control() {
            out.extend(char.escape_default());
        } else {
            out.push(char);
        }
    }
    out
}

/// A number of things: `1 line`, `2 lines`.
pub(super) fn counted(n: impl TryInto<u64>, thing: &str) -> String {
    match n.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {thing}"),
        n => format!("{n} {thing}s"),
    }
}

/// What a change did to the lines of a file.
pub(super) fn changed(n_added: u64, n_removed: u64) -> String {
    format!(
        "{} added, {} removed",
        counted(n_added, "line"),
        counted(n_removed, "line")
    )
}
