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
    // A line feed outside of strings stands between the tokens of a raw value, as its model wrote it.
    let mut rest = start;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &out[rest..]) {
        rest += at;
        out[rest] = b' ';
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

/// Bytes of `text` as a JSON string in a line of ours, quotes included.
pub(crate) fn json_len(text: &str) -> usize {
    let written = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' | '\u{85}' | '\u{2028}' | '\u{2029}' => 6,
        _ => c.len_utf8(),
    };
    text.chars().map(written).sum::<usize>() + 2
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::RawValue};

    use super::{json_len, line, push};

    #[test]
    fn a_raw_value_of_many_lines_stays_on_one_line() {
        let raw =
            RawValue::from_string("{\n  \"a\": \"x\\ny\"\r\n}".to_owned()).expect("it is JSON");
        let mut out = Vec::new();
        push(&mut out, &json!({"before": 1}));
        push(&mut out, &raw);
        let text = String::from_utf8(out).expect("it is text");
        assert_eq!(text, "{\"before\":1}\n{   \"a\": \"x\\ny\"  }\n");
    }

    #[test]
    fn the_length_of_a_json_string_is_known_without_writing_it() {
        for text in [
            "",
            "plain",
            "\"q\\\n\r\t\u{8}\u{c}\u{1}\u{7f}",
            "é\u{2028}\u{2029}\u{85}😀",
        ] {
            assert_eq!(json_len(text), line(&text).len(), "{text:?}");
        }
    }
}
