//! Cuts text to a number of bytes and says so in its place.
//!
//! A cut never splits a character, so the result is UTF-8 again. As far as a small table goes it
//! does not split what a person sees as one character either: joined emoji, flags, marks.

use std::borrow::Cow;

/// Characters that a cut is moved at most to keep a sequence whole.
const SEQUENCE_CHARS_MAX: usize = 16;

/// Room for the marker of [`middle`].
const MARKER_BYTES_MAX: usize = 64;

/// Keeps the beginning and the end. The result, marker included, has at most `bytes_max` bytes.
#[must_use]
pub fn middle(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let Some(room) = bytes_max.checked_sub(MARKER_BYTES_MAX) else {
        return Cow::Borrowed(&text[..floor(text, bytes_max)]);
    };
    let head = floor(text, room / 2);
    let tail = ceil(text, text.len() - (room - room / 2)).max(head);
    Cow::Owned(format!(
        "{}{}{}",
        &text[..head],
        marker((tail - head) as u64),
        &text[tail..]
    ))
}

/// Keeps the beginning. The result, marker included, has at most `bytes_max` bytes.
#[must_use]
pub fn head<'t>(text: &'t str, bytes_max: usize, marker: &str) -> Cow<'t, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    match bytes_max.checked_sub(marker.len()) {
        Some(room) => Cow::Owned(format!("{}{marker}", &text[..floor(text, room)])),
        None => Cow::Borrowed(&text[..floor(text, bytes_max)]),
    }
}

/// What stands in the place of `n_bytes` that are left out.
#[must_use]
pub fn marker(n_bytes: u64) -> String {
    let marker = format!("\n[… {n_bytes} bytes left out …]\n");
    debug_assert!(marker.len() <= MARKER_BYTES_MAX, "the marker fits its room");
    marker
}

/// The last place at or before `at` where text may end.
#[must_use]
pub fn floor(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    let mut end = at;
    for _ in 0..SEQUENCE_CHARS_MAX {
        if is_break(text, end) {
            return end;
        }
        end = text.floor_char_boundary(end.saturating_sub(1));
    }
    at
}

/// The first place at or after `at` where text may begin.
#[must_use]
pub fn ceil(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    let mut start = at;
    for _ in 0..SEQUENCE_CHARS_MAX {
        if is_break(text, start) {
            return start;
        }
        start = text.ceil_char_boundary(start + 1);
    }
    at
}

/// Whether two characters that touch here may be parted.
fn is_break(text: &str, at: usize) -> bool {
    let (Some(before), Some(after)) = (text[..at].chars().next_back(), text[at..].chars().next())
    else {
        return true;
    };
    if is_flag_half(before) && is_flag_half(after) {
        let run = text[..at].chars().rev().take(SEQUENCE_CHARS_MAX * 4);
        return run.take_while(|&char| is_flag_half(char)).count() % 2 == 0;
    }
    !(before == '\u{200d}' || extends(after) || (before == '\r' && after == '\n'))
}

fn is_flag_half(char: char) -> bool {
    matches!(char, '\u{1f1e6}'..='\u{1f1ff}')
}

/// Whether a character belongs to the one before it.
fn extends(char: char) -> bool {
    matches!(
        char,
        '\u{200d}'
            | '\u{0300}'..='\u{036f}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{1f3fb}'..='\u{1f3ff}'
            | '\u{e0020}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY: &str = "👨\u{200d}👩\u{200d}👧";

    /// case-E01: every length around a limit, for characters of four bytes, joined and not.
    #[test]
    fn a_cut_near_a_limit_keeps_characters_whole() {
        for unit in ["😀", FAMILY, "🇩🇪", "é", "a", "👍🏽"] {
            for limit in [100, 101, 102, 103, 257] {
                for n_bytes in limit - 3..=limit + 3 {
                    let mut text = unit.repeat(n_bytes / unit.len());
                    text.push_str(&"x".repeat(n_bytes - text.len()));
                    let cut = middle(&text, limit);
                    assert!(cut.len() <= limit, "{unit} {n_bytes} {limit}");
                    assert_eq!(cut == text, n_bytes <= limit, "{unit} {n_bytes} {limit}");
                    let marked = head(&text, limit, "…");
                    assert!(marked.len() <= limit, "{unit} {n_bytes} {limit}");
                    assert_eq!(marked.ends_with('…'), n_bytes > limit);
                }
            }
        }
    }

    #[test]
    fn joined_characters_stay_joined() {
        let text = format!("{}{}", FAMILY.repeat(20), "🇩🇪".repeat(20));
        for at in 0..=text.len() {
            for place in [floor(&text, at), ceil(&text, at)] {
                let family = FAMILY.len() * 20;
                let whole = if place <= family {
                    place % FAMILY.len()
                } else {
                    (place - family) % 8
                };
                assert_eq!(whole, 0, "cut at {place}");
            }
        }
    }

    #[test]
    fn an_endless_sequence_is_cut_all_the_same() {
        let text = format!("a{}", "\u{0301}".repeat(10_000));
        let cut = middle(&text, 1_000);
        assert!(cut.len() <= 1_000 && cut.len() > 900);
    }

    #[test]
    fn a_limit_below_the_marker_leaves_the_beginning() {
        assert_eq!(middle("äöüäöüäöü", 5), "äö");
        assert_eq!(head("äöüäöüäöü", 2, "[cut]"), "ä");
        assert_eq!(middle("ä", 1), "");
    }

    #[test]
    fn the_number_in_the_marker_is_what_is_missing() {
        let text = "abcdefghij".repeat(100);
        let cut = middle(&text, 500);
        let (before, rest) = cut.split_once("\n[… ").unwrap();
        let (n_bytes, after) = rest.split_once(" bytes left out …]\n").unwrap();
        assert_eq!(
            before.len() + after.len() + n_bytes.parse::<usize>().unwrap(),
            text.len()
        );
        assert!(text.starts_with(before) && text.ends_with(after));
    }
}
