//! Rows of a result: sorted, and no more of them in memory than the model is given.

use std::collections::BTreeSet;

use wire::limits::{TOOL_RESULT_BYTES_MAX, TOOL_ROWS_MAX};

use super::cut;

/// The first rows, in order, of any number of them.
#[derive(Debug, Default)]
pub(super) struct FirstRows<T: Ord> {
    rows: BTreeSet<T>,
    n_seen: usize,
}

impl<T: Ord> FirstRows<T> {
    pub(super) fn new() -> Self {
        Self {
            rows: BTreeSet::new(),
            n_seen: 0,
        }
    }

    pub(super) fn add(&mut self, row: T) {
        self.n_seen += 1;
        if self.rows.len() == TOOL_ROWS_MAX {
            if self.rows.last().is_some_and(|last| row >= *last) {
                return;
            }
            self.rows.pop_last();
        }
        self.rows.insert(row);
    }

    /// The rows, and the number of those that are not among them.
    pub(super) fn into_parts(self) -> (impl Iterator<Item = T>, usize) {
        let n_more = self.n_seen - self.rows.len();
        (self.rows.into_iter(), n_more)
    }
}

/// The text of a result: rows, then a note.
pub(super) fn text(mut rows: String, note: &str) -> String {
    const CUT: &str = "\n[The rest does not fit; ask for less.]\n";
    let room = TOOL_RESULT_BYTES_MAX - note.len() - 1;
    if rows.len() > room {
        rows = cut::head(&rows, room, CUT).into_owned();
    }
    if !note.is_empty() {
        rows.push_str(note);
        rows.push('\n');
    }
    rows
}
