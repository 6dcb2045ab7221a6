//! One message as one line of JSON that every reader splits as we do.

use serde::Serialize;

/// Appends `value` and a line feed to `out`.
///
/// Raw U+2028, U+2029 and U+0085 are line ends to some readers, so they are escaped.
pub(crate) fn push(out: &mut Vec<u8>, value: &impl Serialize) {
    push_value(out, value);
    out.push(b'\n');
}

/// One message as a line of its own, without its line feed.
pub(crate) fn line(value: &impl Serialize) -> Box<str> {
    let mut bytes = Vec::new();
    push_value(&mut bytes, value);
    // What serde_json wrote is UTF-8.
    String::from_utf8_lossy(&bytes).into()
}

/// As [`push`], without the line feed.
pub(crate) fn push_value(out: &mut Vec<u8>, value: &impl Serialize) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        // Messages are made of strings and numbers, and a vector takes every byte.
        out.truncate(start);
        return;
    }
    let has_separator = memchr::memchr2_iter(0xE2, 0xC2, &out[start..]).any(|at| {
        let rest = &out[start + at..];
        rest.starts_with("\u{2028}".as_bytes())
            || rest.starts_with("\u{2029}".as_bytes())
            || rest.starts_with("\u{85}".as_bytes())
    });
    if has_separator {
        let line = String::from_utf8_lossy(&out[start..])
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029")
            .replace('\u{85}', "\\u0085");
        out.truncate(start);
        out.extend_from_slice(line.as_bytes());
    }
}
