//! Names of files as text: no line breaks, no terminal codes, one row each.

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
