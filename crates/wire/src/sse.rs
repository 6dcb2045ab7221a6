//! Decoder of server-sent events, for model streams and for clients of our own daemon.
//!
//! Bytes are pushed in as they come, events are pulled out. It knows neither sockets nor what the
//! data means, and what it holds is bounded: an event over the limit is an error, not memory.
//!
//! Data stays bytes, because a broken character in it is for the caller to judge. Event names and
//! ids are text; broken characters in them become U+FFFD.

use std::time::Duration;

use crate::limits::SSE_EVENT_BYTES_MAX;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// One event, borrowed from the decoder until it is asked for the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its name; `message` where the stream gave none.
    pub event: &'a str,
    /// All its `data` lines, joined by line feeds.
    pub data: &'a [u8],
    /// The last id that the stream gave, with this event or before; empty where there was none.
    pub id: &'a str,
    /// The last reconnection time that the stream gave, with this event or before.
    pub retry: Option<Duration>,
}

/// The stream is no longer decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// One event, or one line, is over the limit.
    #[error("a server-sent event is larger than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
}

/// Turns bytes into events. Any division of the same bytes gives the same events.
///
/// After an error it gives that error for ever.
#[derive(Debug)]
pub struct Decoder {
    /// Bytes pushed and not yet taken, from `taken` on.
    buffer: Vec<u8>,
    /// Where the current line begins in `buffer`.
    taken: usize,
    /// Up to where the current line is known to hold no line end, so that nothing is searched twice.
    searched: usize,
    /// The line before ended in CR: a LF that follows belongs to it.
    skip_lf: bool,
    /// The first bytes may still be a byte order mark.
    at_start: bool,
    bytes_max: usize,
    failed: Option<SseError>,
    /// Bytes of the fields of the event that is being put together.
    n_bytes: usize,
    has_data: bool,
    /// The event was handed out: its parts are cleared before the next line.
    handed_out: bool,
    data: Vec<u8>,
    event: String,
    id: String,
    retry: Option<Duration>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::with_event_bytes_max(SSE_EVENT_BYTES_MAX)
    }

    /// A decoder with a limit of its own.
    #[must_use]
    pub fn with_event_bytes_max(bytes_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            taken: 0,
            searched: 0,
            skip_lf: false,
            at_start: true,
            bytes_max,
            failed: None,
            n_bytes: 0,
            has_data: false,
            handed_out: false,
            data: Vec::new(),
            event: String::new(),
            id: String::new(),
            retry: None,
        }
    }

    /// Takes the next bytes of the stream. Pull all events out before pushing more, for only that
    /// keeps the memory bounded.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.searched -= self.taken;
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete event; `None` until more bytes are pushed.
    ///
    /// # Errors
    /// An event over the limit.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, SseError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.clear_handed_out();
        while let Some((start, end)) = self.next_line()? {
            if start == end {
                if self.has_data {
                    return Ok(Some(self.hand_out()));
                }
                // An event without data is none, but its name must not stick to the next.
                self.clear_event();
            } else {
                self.take_field(start, end)?;
            }
        }
        Ok(None)
    }

    /// What is left at the end of the stream: an event whose blank line never came, its last line
    /// perhaps cut. The standard drops it; who can tell a whole one from a cut one may use it.
    ///
    /// # Errors
    /// As [`Decoder::next_event`].
    pub fn unfinished(&mut self) -> Result<Option<Event<'_>>, SseError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.clear_handed_out();
        let (start, end) = (self.taken, self.buffer.len());
        self.taken = end;
        self.searched = end;
        if start < end {
            self.take_field(start, end)?;
        }
        Ok(self.has_data.then(|| self.hand_out()))
    }

    /// The bounds of the next whole line in the buffer, without its end.
    fn next_line(&mut self) -> Result<Option<(usize, usize)>, SseError> {
        if self.skip_lf && self.taken < self.buffer.len() {
            if self.buffer[self.taken] == b'\n' {
                self.taken += 1;
                self.searched = self.taken;
            }
            self.skip_lf = false;
        }
        if self.at_start {
            let head = &self.buffer[..self.buffer.len().min(BOM.len())];
            if head.len() < BOM.len() && BOM.starts_with(head) {
                return Ok(None);
            }
            if head == BOM {
                self.taken = BOM.len();
                self.searched = self.taken;
            }
            self.at_start = false;
        }
        let Some(n) = memchr::memchr2(b'\n', b'\r', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            self.check(self.buffer.len() - self.taken)?;
            return Ok(None);
        };
        let (start, end) = (self.taken, self.searched + n);
        self.skip_lf = self.buffer[end] == b'\r';
        self.taken = end + 1;
        self.searched = self.taken;
        Ok(Some((start, end)))
    }

    /// Adds one line to the event.
    fn take_field(&mut self, start: usize, end: usize) -> Result<(), SseError> {
        self.check(end - start)?;
        let line = &self.buffer[start..end];
        let (name, value) = match memchr::memchr(b':', line) {
            // A comment. It keeps connections alive and is no part of an event.
            Some(0) => return Ok(()),
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        match name {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.event.clear();
                self.event.push_str(&String::from_utf8_lossy(value));
            }
            b"id" if !value.contains(&0) => {
                self.id.clear();
                self.id.push_str(&String::from_utf8_lossy(value));
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let milliseconds = str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.parse().ok());
                self.retry = milliseconds.map(Duration::from_millis).or(self.retry);
            }
            _ => {}
        }
        self.n_bytes += end - start;
        Ok(())
    }

    /// Holds the event and `n_more` bytes against the limit.
    fn check(&mut self, n_more: usize) -> Result<(), SseError> {
        if self.n_bytes + n_more <= self.bytes_max {
            return Ok(());
        }
        let error = SseError::TooLarge {
            bytes_max: self.bytes_max,
        };
        self.failed = Some(error);
        self.buffer = Vec::new();
        self.data = Vec::new();
        Err(error)
    }

    fn hand_out(&mut self) -> Event<'_> {
        self.handed_out = true;
        let event = if self.event.is_empty() {
            "message"
        } else {
            &self.event
        };
        Event {
            event,
            data: &self.data,
            id: &self.id,
            retry: self.retry,
        }
    }

    fn clear_handed_out(&mut self) {
        if self.handed_out {
            self.handed_out = false;
            self.clear_event();
        }
    }

    fn clear_event(&mut self) {
        self.n_bytes = 0;
        self.has_data = false;
        self.data.clear();
        self.event.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Owned = (String, Vec<u8>, String, Option<u64>);

    fn owned(event: Event<'_>) -> Owned {
        let retry = event
            .retry
            .map(|retry| u64::try_from(retry.as_millis()).unwrap());
        (
            event.event.to_owned(),
            event.data.to_owned(),
            event.id.to_owned(),
            retry,
        )
    }

    fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Owned> {
        let mut decoder = Decoder::new();
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            while let Some(event) = decoder.next_event().unwrap() {
                events.push(owned(event));
            }
        }
        events
    }

    fn data(stream: &[u8]) -> Vec<String> {
        let text = |(_, data, ..): Owned| String::from_utf8_lossy(&data).into_owned();
        decode([stream]).into_iter().map(text).collect()
    }

    #[test]
    fn every_line_end_ends_a_line() {
        for end in ["\n", "\r", "\r\n"] {
            let stream = format!("data: a{end}data:b{end}{end}data: c{end}{end}");
            assert_eq!(data(stream.as_bytes()), ["a\nb", "c"], "{end:?}");
        }
    }

    #[test]
    fn a_crlf_that_is_cut_in_two_is_one_line_end() {
        let chunks: [&[u8]; 4] = [b"data: a\r", b"\ndata: b\r", b"\n\r", b"\ndata: c\n\n"];
        let events = decode(chunks);
        assert_eq!(
            events.iter().map(|event| &event.1[..]).collect::<Vec<_>>(),
            [&b"a\nb"[..], b"c"]
        );
    }

    #[test]
    fn names_ids_and_times_are_told_and_ids_last() {
        let stream =
            b"event: one\nid: 7\nretry: 10\ndata: a\n\ndata: b\n\nid\nretry: x\ndata: c\n\n";
        let events = decode([&stream[..]]);
        assert_eq!(
            events[0],
            ("one".into(), b"a".to_vec(), "7".into(), Some(10))
        );
        assert_eq!(
            events[1],
            ("message".into(), b"b".to_vec(), "7".into(), Some(10))
        );
        assert_eq!(
            events[2],
            ("message".into(), b"c".to_vec(), String::new(), Some(10))
        );
    }

    #[test]
    fn comments_unknown_fields_and_empty_events_are_none() {
        assert_eq!(
            data(b": ping\n\nfoo: bar\n\nevent: x\n\ndata: a\n\n"),
            ["a"]
        );
        assert_eq!(decode([&b"event: x\n\ndata: a\n\n"[..]])[0].0, "message");
    }

    #[test]
    fn empty_data_is_an_event() {
        assert_eq!(data(b"data\n\ndata:\n\ndata: \ndata:\n\n"), ["", "", "\n"]);
    }

    #[test]
    fn only_one_space_after_the_colon_is_dropped() {
        assert_eq!(data(b"data:  a \n\n"), [" a "]);
    }

    #[test]
    fn a_byte_order_mark_is_dropped_at_the_start_alone() {
        assert_eq!(
            data(b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n"),
            ["a"]
        );
        let split: [&[u8]; 3] = [b"\xef", b"\xbb", b"\xbfdata: a\n\n"];
        assert_eq!(decode(split).len(), 1);
        assert_eq!(data(b"\xef\xbb\ndata: a\n\n"), ["a"]);
    }

    #[test]
    fn broken_characters_are_handed_on_in_data() {
        let events = decode([&b"event: \xff\ndata: x\xff\n\n"[..]]);
        assert_eq!(
            events,
            [("\u{fffd}".into(), b"x\xff".to_vec(), String::new(), None)]
        );
    }

    #[test]
    fn an_event_over_the_limit_is_an_error_for_ever() {
        for stream in [
            &b"data: 12345"[..],
            b"data: 1\ndata: 2\n",
            b":123456789 12345\n",
        ] {
            let mut decoder = Decoder::with_event_bytes_max(10);
            decoder.push(stream);
            let error = SseError::TooLarge { bytes_max: 10 };
            assert_eq!(
                decoder.next_event(),
                Err(error),
                "{}",
                stream.escape_ascii()
            );
            decoder.push(b"\n\ndata: a\n\n");
            assert_eq!(decoder.next_event(), Err(error));
            assert_eq!(decoder.unfinished(), Err(error));
        }
    }

    #[test]
    fn events_of_the_limit_pass_one_after_the_other() {
        let mut decoder = Decoder::with_event_bytes_max(10);
        for _ in 0..3 {
            decoder.push(b": 12345678\ndata: 1234\n\n");
            assert_eq!(decoder.next_event().unwrap().unwrap().data, b"1234");
            assert_eq!(decoder.next_event(), Ok(None));
        }
    }

    #[test]
    fn what_was_cut_at_the_end_is_told_apart() {
        let mut decoder = Decoder::new();
        decoder.push(b"data: a\n\ndata: b\ndata: c");
        assert_eq!(decoder.next_event().unwrap().unwrap().data, b"a");
        assert_eq!(decoder.next_event(), Ok(None));
        assert_eq!(decoder.unfinished().unwrap().unwrap().data, b"b\nc");
        assert_eq!(decoder.unfinished(), Ok(None));
    }

    /// The standard's algorithm over a whole stream, as plainly as it can be said.
    fn reference(stream: &[u8]) -> Vec<Owned> {
        let mut text: Vec<u8> = stream.strip_prefix(BOM).unwrap_or(stream).to_vec();
        let mut n = 0;
        while n < text.len() {
            if text[n] == b'\r' {
                text[n] = b'\n';
                if text.get(n + 1) == Some(&b'\n') {
                    text.remove(n + 1);
                }
            }
            n += 1;
        }
        let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        lines.pop();
        let (mut events, mut rows) = (Vec::new(), Vec::<Vec<u8>>::new());
        let (mut name, mut id, mut retry) = (String::new(), String::new(), None);
        for line in lines {
            let mut parts = line.splitn(2, |byte| *byte == b':');
            let field = parts.next().unwrap();
            let value = parts.next().unwrap_or_default();
            let value = value.strip_prefix(b" ").unwrap_or(value);
            let value_text = String::from_utf8_lossy(value).into_owned();
            match field {
                _ if line.is_empty() => {
                    let event = if name.is_empty() { "message" } else { &name };
                    if !rows.is_empty() {
                        events.push((event.to_owned(), rows.join(&b'\n'), id.clone(), retry));
                    }
                    rows.clear();
                    name.clear();
                }
                b"data" => rows.push(value.to_vec()),
                b"event" => name = value_text,
                b"id" if !value.contains(&0) => id = value_text,
                b"retry" if value.iter().all(u8::is_ascii_digit) => {
                    retry = value_text.parse().ok().or(retry);
                }
                _ => {}
            }
        }
        events
    }

    /// Streams dense in what matters: line ends, colons, marks and the names of fields.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(&b"\n"[..]),
            Just(&b"\r"[..]),
            Just(&b"\r\n"[..]),
            Just(&b"data: "[..]),
            Just(&b"data"[..]),
            Just(&b":"[..]),
            Just(&b" "[..]),
            Just(&b"event:e"[..]),
            Just(&b"id:1"[..]),
            Just(&b"id:\0"[..]),
            Just(&b"retry:5"[..]),
            Just(BOM),
            Just(&b"\xef"[..]),
            Just("\u{1f600}".as_bytes()),
            Just(&b"x"[..]),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_division_gives_the_events_of_the_standard(
            stream in stream(),
            sizes in prop::collection::vec(1usize..6, 1..8),
        ) {
            let expected = reference(&stream);
            prop_assert_eq!(decode([&stream[..]]), expected.clone());
            let (mut chunks, mut rest) = (Vec::new(), &stream[..]);
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at((*size).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(decode(chunks), expected);
        }
    }
}
