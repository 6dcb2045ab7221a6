//! Events as they are written to a stream.

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memchr2;
use serde::Serialize;
use wire::event::{EVENT_SCHEMA_VERSION, NewEvent};

/// Bytes of a frame beside its texts and data, and some more.
const FRAME_BYTES: usize = 192;

/// Bytes of a frame that this event may take; texts with escapes take more.
pub(crate) fn bytes_expected(event: &NewEvent<'_>) -> usize {
    let texts = [event.prompt_id, event.originator];
    let n_texts: usize = texts.into_iter().flatten().map(str::len).sum();
    FRAME_BYTES + 2 * event.kind.len() + n_texts + event.data.get().len()
}

/// Appends an event of the bus.
pub(crate) fn event(log: &mut BytesMut, id: u64, event: &NewEvent<'_>) {
    let id = Digits::of(id);
    log.put_slice(b"id: ");
    log.put_slice(id.as_bytes());
    log.put_slice(b"\n");
    head(log, event.kind);
    log.put_slice(b"{\"id\":");
    log.put_slice(id.as_bytes());
    log.put_slice(b",");
    body(log, event.kind, event.data.get());
    if let Some(prompt_id) = event.prompt_id {
        log.put_slice(b",\"promptId\":");
        text(log, prompt_id);
    }
    if let Some(originator) = event.originator {
        log.put_slice(b",\"originatorClientId\":");
        text(log, originator);
    }
    end(log, event.at_ms);
}

/// A frame for one stream alone, stamped with the time at which it is written, in ms since 1970. Whoever
/// writes streams has frames of its own to say, such as `stream_error`.
///
/// # Panics
/// `data` is no valid JSON.
#[must_use]
pub fn own_frame(kind: &str, data: &impl Serialize, at_ms: u64) -> Bytes {
    let data = serde_json::to_string(data).expect("data of a frame is plain");
    own_raw_frame(kind, &data, at_ms)
}

/// As [`own_frame`], with data that is JSON already.
pub(crate) fn own_raw_frame(kind: &str, data: &str, at_ms: u64) -> Bytes {
    let mut frame = BytesMut::with_capacity(FRAME_BYTES + 2 * kind.len() + data.len());
    head(&mut frame, kind);
    frame.put_slice(b"{");
    body(&mut frame, kind, data);
    end(&mut frame, at_ms);
    frame.freeze()
}

fn head(log: &mut BytesMut, kind: &str) {
    log.put_slice(b"event: ");
    one_line(log, kind);
    log.put_slice(b"\ndata: ");
}

fn body(log: &mut BytesMut, kind: &str, data: &str) {
    log.put_slice(b"\"v\":");
    log.put_slice(Digits::of(EVENT_SCHEMA_VERSION.into()).as_bytes());
    log.put_slice(b",\"type\":");
    text(log, kind);
    log.put_slice(b",\"data\":");
    one_line(log, data);
}

fn end(log: &mut BytesMut, at_ms: u64) {
    log.put_slice(b",\"_meta\":{\"serverTimestamp\":");
    log.put_slice(Digits::of(at_ms).as_bytes());
    log.put_slice(b"}}\n\n");
}

/// Line breaks become spaces: in JSON they stand between tokens alone, and one that reached the stream would
/// end its line.
fn one_line(log: &mut BytesMut, text: &str) {
    let mut rest = text.as_bytes();
    while let Some(at) = memchr2(b'\n', b'\r', rest) {
        log.put_slice(&rest[..at]);
        log.put_slice(b" ");
        rest = &rest[at + 1..];
    }
    log.put_slice(rest);
}

fn text(log: &mut BytesMut, text: &str) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        log.put_slice(b"\"");
        log.put_slice(text.as_bytes());
        log.put_slice(b"\"");
    } else {
        serde_json::to_writer(log.writer(), text).expect("a text is JSON, and memory takes it");
    }
}

/// A number in decimal.
struct Digits {
    bytes: [u8; Self::MAX],
    from: usize,
}

impl Digits {
    /// Of the largest number.
    const MAX: usize = 20;

    fn of(mut number: u64) -> Self {
        let mut bytes = [b'0'; Self::MAX];
        let mut from = Self::MAX;
        loop {
            from -= 1;
            bytes[from] = b'0' + u8::try_from(number % 10).expect("a digit is small");
            number /= 10;
            if number == 0 {
                return Self { bytes, from };
            }
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}
