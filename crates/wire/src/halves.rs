//! Halves of characters: a program that cuts its texts as JavaScript does sends escapes such as `\ud83d` alone,
//! which are JSON but no text.

use std::borrow::Cow;

/// The same JSON with U+FFFD in place of halves.
#[must_use]
pub fn replaced(line: &[u8]) -> Cow<'_, [u8]> {
    const LONE: &[u8] = br"\ufffd";
    let (mut whole, mut n_copied, mut at) = (Vec::new(), 0, 0);
    while let Some(n) = line.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += n;
        let next = at + LONE.len();
        match (escaped_unit(line, at), escaped_unit(line, next)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => at = next + LONE.len(),
            (Some(0xD800..=0xDFFF), _) => {
                whole.extend_from_slice(&line[n_copied..at]);
                whole.extend_from_slice(LONE);
                (at, n_copied) = (next, next);
            }
            (Some(_), _) => at = next,
            // The byte after the backslash begins no escape of its own.
            (None, _) => at += 2,
        }
    }
    if n_copied == 0 {
        return line.into();
    }
    whole.extend_from_slice(&line[n_copied..]);
    whole.into()
}

/// The unit of UTF-16 that is escaped here.
fn escaped_unit(line: &[u8], at: usize) -> Option<u16> {
    let digits = line.get(at..at + 6)?.strip_prefix(br"\u")?;
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}
