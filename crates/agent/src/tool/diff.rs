//! The difference between two texts as people read it.

use std::{borrow::Cow, time::Duration};

use similar::{DiffOp, TextDiff};

use super::{cut, file};
use wire::limits::{TOOL_DIFF_BYTES_MAX, TOOL_DIFF_TIME_MAX};

/// A change of one file.
#[derive(Debug)]
pub(super) struct Diff {
    /// Unified, cut in the middle where it is very long.
    pub(super) text: String,
    /// Lines added, of the whole change.
    pub(super) n_added: u64,
    /// Lines removed, of the whole change.
    pub(super) n_removed: u64,
}

/// Compares what a file held, if it was there, with what it will hold.
pub(super) fn unified(shown: &str, old: Option<&[u8]>, new: &[u8]) -> Diff {
    let before = old.map_or_else(|| "/dev/null".to_owned(), |_| format!("a/{shown}"));
    let after = format!("b/{shown}");
    let old = old.unwrap_or_default();
    if file::is_binary(old) || file::is_binary(new) {
        let text = format!("Binary files {before} and {after} differ\n");
        return Diff {
            text,
            n_added: 0,
            n_removed: 0,
        };
    }
    compare(
        &before,
        &after,
        &String::from_utf8_lossy(old),
        &String::from_utf8_lossy(new),
    )
}

fn compare(before: &str, after: &str, old: &str, new: &str) -> Diff {
    let timeout: Duration = TOOL_DIFF_TIME_MAX;
    let diff = TextDiff::configure().timeout(timeout).diff_lines(old, new);
    let (mut n_added, mut n_removed) = (0, 0);
    for op in diff.ops() {
        match *op {
            DiffOp::Equal { .. } => {}
            DiffOp::Delete { old_len, .. } => n_removed += old_len as u64,
            DiffOp::Insert { new_len, .. } => n_added += new_len as u64,
            DiffOp::Replace {
                old_len, new_len, ..
            } => {
                n_removed += old_len as u64;
                n_added += new_len as u64;
            }
        }
    }
    let text = diff
        .unified_diff()
        .context_radius(3)
        .header(before, after)
        .to_string();
    let text = match cut::middle(&text, TOOL_DIFF_BYTES_MAX) {
        Cow::Borrowed(_) => text,
        Cow::Owned(cut) => cut,
    };
    Diff {
        text,
        n_added,
        n_removed,
    }
}
