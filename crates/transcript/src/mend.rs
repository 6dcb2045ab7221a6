//! Half surrogate pairs in JSON text, as JavaScript writes them and serde_json refuses them.

use std::borrow::Cow;

const REPLACEMENT: &str = "\\ufffd";

/// The text with every escaped half of a surrogate pair replaced by an escaped U+FFFD. It has the
/// same length, and is the same text where there is none.
pub(crate) fn surrogates(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut out: Option<String> = None;
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        let here = at + found;
        at = match unit(&bytes[here..]) {
            Some(0xD800..=0xDBFF) if matches!(unit(&bytes[here + 6..]), Some(0xDC00..=0xDFFF)) => {
                here + 12
            }
            Some(0xD800..=0xDFFF) => {
                let out = out.get_or_insert_default();
                out.push_str(&json[copied..here]);
                out.push_str(REPLACEMENT);
                copied = here + 6;
                copied
            }
            Some(_) => here + 6,
            // Another escape: what follows the backslash must not be taken for a new one.
            None => (here + 2).min(bytes.len()),
        };
    }
    match out {
        None => Cow::Borrowed(json),
        Some(mut out) => {
            out.push_str(&json[copied..]);
            Cow::Owned(out)
        }
    }
}

/// The UTF-16 unit of a `\uXXXX` escape at the beginning.
fn unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_half_pairs_are_replaced() {
        for (json, expected) in [
            (r#""plain""#, r#""plain""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\uD83D""#, r#""\ufffd""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ude00x""#, r#""\ufffdx""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""\ud83"#, r#""\ud83"#),
            (r#""é\ud83dé"#, r#""é\ufffdé"#),
            ("\\", "\\"),
        ] {
            assert_eq!(surrogates(json), expected);
        }
    }
}
