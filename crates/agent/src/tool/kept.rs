//! What is kept of a command's output: its beginning and its end, whatever its length.

use std::collections::VecDeque;

use super::cut;

/// Output as it arrives.
#[derive(Debug)]
pub(super) struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half_bytes_max: usize,
    n_bytes: u64,
}

impl Kept {
    /// Keeps `bytes_max` bytes at most.
    pub(super) fn new(bytes_max: usize) -> Self {
        let half_bytes_max = bytes_max / 2;
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            half_bytes_max,
            n_bytes: 0,
        }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.n_bytes += bytes.len() as u64;
        let to_head = bytes.len().min(self.half_bytes_max - self.head.len());
        self.head.extend_from_slice(&bytes[..to_head]);
        let rest = &bytes[to_head..];
        let rest = &rest[rest.len().saturating_sub(self.half_bytes_max)..];
        let n_over = (self.tail.len() + rest.len()).saturating_sub(self.half_bytes_max);
        self.tail.drain(..n_over);
        self.tail.extend(rest);
    }

    /// The output as text of at most `bytes_max` bytes, with a marker where something is missing.
    ///
    /// Bytes that are no UTF-8 are replaced.
    pub(super) fn text(&self, bytes_max: usize) -> String {
        let (front, back) = self.tail.as_slices();
        let tail = [front, back].concat();
        let n_left_out = self.n_bytes - (self.head.len() + tail.len()) as u64;
        if n_left_out == 0 {
            let bytes = [self.head.as_slice(), &tail].concat();
            return cut::middle(&String::from_utf8_lossy(&bytes), bytes_max).into_owned();
        }
        let head = &self.head[..whole_chars(&self.head)];
        let tail = &tail[continuation_bytes(&tail)..];
        let n_left_out = self.n_bytes - (head.len() + tail.len()) as u64;
        join(
            &String::from_utf8_lossy(head),
            n_left_out,
            &String::from_utf8_lossy(tail),
            bytes_max,
        )
    }
}

/// Joins two ends around one marker.
fn join(head: &str, n_left_out: u64, tail: &str, bytes_max: usize) -> String {
    // Replacing bad bytes may have made either end longer.
    let room = bytes_max.saturating_sub(cut::marker(u64::MAX).len()) / 2;
    let head_end = cut::floor(head, room.min(head.len()));
    let tail_start = cut::ceil(tail, tail.len().saturating_sub(room));
    let n_cut = (head.len() - head_end + tail_start) as u64;
    format!(
        "{}{}{}",
        &head[..head_end],
        cut::marker(n_left_out + n_cut),
        &tail[tail_start..]
    )
}

/// Bytes before a last character that is cut.
pub(super) fn whole_chars(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    let n_cut = last.map_or(0, |chunk| {
        let invalid = chunk.invalid();
        // Only what could still become a character is one that is cut.
        let is_begun = std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        if is_begun { invalid.len() } else { 0 }
    });
    bytes.len() - n_cut
}

/// Bytes at the beginning that belong to a character that is cut.
fn continuation_bytes(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(3)
        .take_while(|&&byte| byte & 0b1100_0000 == 0b1000_0000)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// case-E01: the place where output is cut, moved through a character of four bytes.
    #[test]
    fn output_is_cut_between_characters_wherever_it_is_split() {
        for shift in 0..8 {
            for n_bytes_at_once in [1, 3, 7, 64, 10_000] {
                let text = format!("{}{}", "😀".repeat(1_000), "a".repeat(shift));
                let text = format!("{}{text}", "a".repeat(shift / 2));
                let mut kept = Kept::new(512);
                for bytes in text.as_bytes().chunks(n_bytes_at_once) {
                    kept.add(bytes);
                }
                let out = kept.text(512);
                assert!(out.len() <= 512, "{}", out.len());
                assert!(!out.contains('\u{fffd}'), "{out}");
                let (head, rest) = out.split_once("\n[… ").unwrap();
                let (n_left_out, tail) = rest.split_once(" bytes left out …]\n").unwrap();
                let n_left_out: usize = n_left_out.parse().unwrap();
                assert_eq!(head.len() + tail.len() + n_left_out, text.len());
                assert!(text.starts_with(head) && text.ends_with(tail));
            }
        }
    }

    #[test]
    fn short_output_is_kept_as_it_is() {
        let mut kept = Kept::new(16);
        kept.add("äöü".as_bytes());
        kept.add("äöüab".as_bytes());
        assert_eq!(kept.text(64), "äöüäöüab");
    }

    #[test]
    fn bytes_that_are_no_text_do_not_make_it_longer_than_allowed() {
        let mut kept = Kept::new(1_000);
        kept.add(&[0xff; 5_000]);
        assert!(kept.text(1_000).len() <= 1_000);
    }
}
