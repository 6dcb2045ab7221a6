//! The difference between two texts as people read it.

use std::{borrow::Cow, sync::Arc, time::Duration};

use similar::{DiffOp, TextDiff};

use super::{Texts, cut, file};
use wire::limits::{TOOL_DIFF_BYTES_MAX, TOOL_DIFF_TEXTS_BYTES_MAX, TOOL_DIFF_TIME_MAX};

/// A change of one file.
#[derive(Debug)]
pub(super) struct Diff {
    /// Unified, cut in the middle where it is very long.
    pub(super) text: String,
    /// Both texts, where they are texts and not very long.
    pub(super) texts: Option<Arc<Texts>>,
    /// Lines added, of the whole change.
    pub(super) n_added: u64,
    /// Lines removed, of the whole change.
    pub(super) n_removed: u64,
}

/// Compares what a file held, if it was there, with what it will hold.
pub(super) fn unified(shown: &str, old: Option<&[u8]>, new: &[u8]) -> Diff {
    let before = old.map_or_else(|| "/dev/null".to_owned(), |_| format!("a/{shown}"));
    let after = format!("b/{shown}");
    let is_new = old.is_none();
    let old = old.unwrap_or_default();
    if file::is_binary(old) || file::is_binary(new) {
        let text = format!("Binary files {before} and {after} differ\n");
        return Diff {
            text,
            texts: None,
            n_added: 0,
            n_removed: 0,
        };
    }
    let old = String::from_utf8_lossy(old);
    let new = String::from_utf8_lossy(new);
    let mut diff = compare(&before, &after, &old, &new);
    if old.len() + new.len() <= TOOL_DIFF_TEXTS_BYTES_MAX {
        diff.texts = Some(Arc::new(Texts {
            old: (!is_new).then(|| old.into_owned()),
            new: new.into_owned(),
        }));
    }
    diff
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
        texts: None,
        n_added,
        n_removed,
    }
}
