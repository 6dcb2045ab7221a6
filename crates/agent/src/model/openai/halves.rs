//! JSON strings whose surrogate escapes do not pair up.
//!
//! Models cut their output between tokens, so an escape such as `\ud83d` may end one string and its
//! other half begin the next, or never come. Serde refuses such a string; here the pair is joined
//! and a lone half becomes U+FFFD. It works on the raw text of strings that a JSON parser accepted.

use std::borrow::Cow;

const LONE: char = char::REPLACEMENT_CHARACTER;

/// Appends strings that belong together, and keeps a first half until its second comes.
#[derive(Debug, Default)]
pub(super) struct Halves {
    high: Option<u16>,
}

impl Halves {
    /// Appends the value of a raw JSON string, quotes included.
    pub(super) fn append(&mut self, raw: &str, out: &mut String) {
        let mut rest = raw.strip_prefix('"').unwrap_or(raw);
        rest = rest.strip_suffix('"').unwrap_or(rest);
        while let Some(n) = memchr::memchr(b'\\', rest.as_bytes()) {
            self.push_str(&rest[..n], out);
            let escape = rest.as_bytes().get(n + 1).copied().unwrap_or(b'\\');
            rest = rest.get(n + 2..).unwrap_or_default();
            match escape {
                b'u' => {
                    self.push_unit(unit(rest), out);
                    rest = rest.get(4..).unwrap_or_default();
                }
                b'n' => self.push_str("\n", out),
                b't' => self.push_str("\t", out),
                b'r' => self.push_str("\r", out),
                b'b' => self.push_str("\u{8}", out),
                b'f' => self.push_str("\u{c}", out),
                other => self.push_str(char::from(other).encode_utf8(&mut [0; 4]), out),
            }
        }
        self.push_str(rest, out);
    }

    /// No more strings come: a half that still waits is lone.
    pub(super) fn finish(&mut self, out: &mut String) {
        if self.high.take().is_some() {
            out.push(LONE);
        }
    }

    fn push_str(&mut self, text: &str, out: &mut String) {
        if !text.is_empty() {
            self.finish(out);
            out.push_str(text);
        }
    }

    fn push_unit(&mut self, unit: Option<u16>, out: &mut String) {
        let Some(unit) = unit else {
            self.finish(out);
            out.push(LONE);
            return;
        };
        if let (Some(high), 0xDC00..=0xDFFF) = (self.high, unit) {
            self.high = None;
            out.extend(char::decode_utf16([high, unit]).map(|pair| pair.unwrap_or(LONE)));
            return;
        }
        self.finish(out);
        match char::from_u32(u32::from(unit)) {
            Some(character) => out.push(character),
            None if unit < 0xDC00 => self.high = Some(unit),
            None => out.push(LONE),
        }
    }
}

/// Replaces the escapes of lone halves in JSON text, so that every reader takes it.
pub(super) fn mended(json: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut copied, mut n) = (0, 0);
    while let Some(step) = memchr::memchr(b'\\', &json.as_bytes()[n..]) {
        n += step;
        let escape = |at: usize| json.get(at..).and_then(|rest| rest.strip_prefix("\\u"));
        match escape(n).and_then(unit) {
            Some(0xD800..=0xDBFF)
                if matches!(escape(n + 6).and_then(unit), Some(0xDC00..=0xDFFF)) =>
            {
                n += 12;
            }
            Some(0xD800..=0xDFFF) => {
                out.push_str(&json[copied..n]);
                out.push_str("\\ufffd");
                n += 6;
                copied = n;
            }
            Some(_) => n += 6,
            None => n = (n + 2).min(json.len()),
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[copied..]);
    Cow::Owned(out)
}

/// The four hexadecimal digits that `text` begins with.
fn unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(strings: &[&str]) -> String {
        let (mut halves, mut out) = (Halves::default(), String::new());
        for raw in strings {
            halves.append(raw, &mut out);
        }
        halves.finish(&mut out);
        out
    }

    #[test]
    fn a_pair_is_joined_within_and_across_strings() {
        assert_eq!(joined(&[r#""A\ud83d\ude00B""#]), "A😀B");
        assert_eq!(joined(&[r#""A\uD83D""#, r#""\uDE00B""#]), "A😀B");
        assert_eq!(joined(&[r#""A\ud83d""#, r#""""#, r#""\ude00""#]), "A😀");
    }

    #[test]
    fn a_lone_half_is_replaced_wherever_it_stands() {
        assert_eq!(joined(&[r#""\ud83d""#]), "\u{fffd}");
        assert_eq!(joined(&[r#""\ude00""#]), "\u{fffd}");
        assert_eq!(
            joined(&[r#""\ud83dx""#, r#""\ude00""#]),
            "\u{fffd}x\u{fffd}"
        );
        assert_eq!(joined(&[r#""\ud83d\ud83d""#, r#""\ude00""#]), "\u{fffd}😀");
        assert_eq!(joined(&[r#""\ud83d\n""#]), "\u{fffd}\n");
        assert_eq!(joined(&[r#""\ude00\ud83d""#]), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn every_escape_means_what_serde_takes_it_for() {
        let raw = r#""a\"b\\c\/d\be\ff\ng\rh\ti\u00e9\u0000é\ud83d\ude00""#;
        assert_eq!(joined(&[raw]), serde_json::from_str::<String>(raw).unwrap());
    }

    #[test]
    fn lone_halves_in_json_text_are_mended_and_nothing_else_is_touched() {
        for (json, expected) in [
            (r#"{"a":"\ud83d"}"#, r#"{"a":"\ufffd"}"#),
            (
                r#"{"a":"\ude00\ud83d\ude00\uD83Dx"}"#,
                r#"{"a":"\ufffd\ud83d\ude00\ufffdx"}"#,
            ),
            (
                r#"{"a":"\\ud83d \n \u0041 é😀"}"#,
                r#"{"a":"\\ud83d \n \u0041 é😀"}"#,
            ),
        ] {
            assert_eq!(mended(json), expected);
            serde_json::from_str::<serde_json::Value>(&mended(json)).unwrap();
        }
    }
}
