//! Frames: what is written, each on one line, its newline included.

use std::io;

use serde::Serialize;
use wire::limits::JSONRPC_ERROR_MESSAGE_BYTES_MAX;

use crate::{
    error::{RpcError, SendError},
    id::Id,
};

pub(crate) type Encoded = Result<Vec<u8>, SendError>;

pub(crate) fn notification(
    method: &str,
    params: &(impl Serialize + ?Sized),
    bytes_max: usize,
) -> Encoded {
    let mut frame = Frame::new(bytes_max);
    frame.member("method", method)?;
    frame.params(params)?;
    frame.end()
}

pub(crate) fn request(
    id: u64,
    method: &str,
    params: &(impl Serialize + ?Sized),
    bytes_max: usize,
) -> Encoded {
    let mut frame = Frame::new(bytes_max);
    frame.member("id", &id)?;
    frame.member("method", method)?;
    frame.params(params)?;
    frame.end()
}

pub(crate) fn result(id: &Id, value: &(impl Serialize + ?Sized), bytes_max: usize) -> Encoded {
    let mut frame = Frame::answer(id, bytes_max)?;
    frame.member("result", value)?;
    frame.end()
}

pub(crate) fn error(id: &Id, error: &RpcError, bytes_max: usize) -> Encoded {
    let mut frame = Frame::answer(id, bytes_max)?;
    let end = error
        .message
        .floor_char_boundary(JSONRPC_ERROR_MESSAGE_BYTES_MAX);
    frame.text(br#","error":{"code":"#)?;
    frame.value(&error.code)?;
    frame.member("message", &error.message[..end])?;
    if let Some(data) = &error.data {
        frame.member("data", data)?;
    }
    frame.text(b"}")?;
    frame.end()
}

/// An error in our own words: short, whatever the limit of a line is.
pub(crate) fn own_error(id: &Id, words: &RpcError) -> Vec<u8> {
    error(id, words, usize::MAX).expect("texts and numbers are valid JSON")
}

/// A frame in the making that never grows beyond its maximum.
struct Frame {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Frame {
    fn new(bytes_max: usize) -> Self {
        Self {
            bytes: br#"{"jsonrpc":"2.0""#.to_vec(),
            bytes_max,
        }
    }

    fn answer(id: &Id, bytes_max: usize) -> Result<Self, SendError> {
        let mut frame = Self::new(bytes_max);
        frame.text(br#","id":"#)?;
        frame.text(id.as_json().as_bytes())?;
        Ok(frame)
    }

    fn member(&mut self, key: &str, value: &(impl Serialize + ?Sized)) -> Result<(), SendError> {
        self.text(b",\"")?;
        self.text(key.as_bytes())?;
        self.text(b"\":")?;
        self.value(value)
    }

    /// Params that are null are left out, for JSON-RPC knows lists and objects only.
    fn params(&mut self, params: &(impl Serialize + ?Sized)) -> Result<(), SendError> {
        let start = self.bytes.len();
        self.member("params", params)?;
        if self.bytes[start..].ends_with(b":null") {
            self.bytes.truncate(start);
        }
        Ok(())
    }

    fn value(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), SendError> {
        let start = self.bytes.len();
        serde_json::to_writer(&mut *self, value).map_err(|error| {
            if error.is_io() {
                self.too_large()
            } else {
                SendError::Encode(error)
            }
        })?;
        // A raw value may hold line breaks, and only between its tokens.
        let mut rest = &mut self.bytes[start..];
        while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
            rest[at] = b' ';
            rest = &mut rest[at + 1..];
        }
        Ok(())
    }

    fn text(&mut self, text: &[u8]) -> Result<(), SendError> {
        io::Write::write_all(self, text).map_err(|_full| self.too_large())
    }

    fn end(mut self) -> Encoded {
        self.text(b"}\n")?;
        Ok(self.bytes)
    }

    fn too_large(&self) -> SendError {
        SendError::TooLarge {
            bytes_max: self.bytes_max,
        }
    }
}

impl io::Write for Frame {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if text.len() > self.bytes_max.saturating_sub(self.bytes.len()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::RawValue};

    use super::*;

    fn text(frame: Encoded) -> String {
        String::from_utf8(frame.unwrap()).unwrap()
    }

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn frames_have_the_shape_of_json_rpc() {
        let id = Id::read(&raw("\"7\"")).unwrap();
        let frames = [
            (
                notification("a/b", &json!({"x": 1}), 1000),
                r#"{"jsonrpc":"2.0","method":"a/b","params":{"x":1}}"#,
            ),
            (
                notification("a", &(), 1000),
                r#"{"jsonrpc":"2.0","method":"a"}"#,
            ),
            (
                request(7, "a", &[1], 1000),
                r#"{"jsonrpc":"2.0","id":7,"method":"a","params":[1]}"#,
            ),
            (
                result(&id, &(), 1000),
                r#"{"jsonrpc":"2.0","id":"7","result":null}"#,
            ),
            (
                error(&id, &RpcError::new(-1, "no"), 1000),
                r#"{"jsonrpc":"2.0","id":"7","error":{"code":-1,"message":"no"}}"#,
            ),
            (
                error(&id, &RpcError::new(-1, "no").with_data(&[1]), 1000),
                r#"{"jsonrpc":"2.0","id":"7","error":{"code":-1,"message":"no","data":[1]}}"#,
            ),
        ];
        for (frame, expected) in frames {
            assert_eq!(text(frame), format!("{expected}\n"));
        }
    }

    #[test]
    fn line_breaks_of_a_raw_value_become_spaces_and_nothing_else_changes() {
        let value = raw("{\n\t\"a\\n\": 1e400,\r\n\"b\":\"\\ud800\u{2028}\" }");
        assert_eq!(
            text(result(&Id::null(), &value, 1000)),
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{ \t\"a\\n\": 1e400,  \"b\":\"\\ud800\u{2028}\" }}\n"
        );
    }

    #[test]
    fn params_that_end_with_null_are_kept() {
        let frame = text(notification("a", &json!({"b": null}), 1000));
        assert!(frame.contains(r#""params":{"b":null}"#), "{frame}");
    }

    #[test]
    fn a_frame_may_fill_a_line_and_no_more() {
        let whole = text(notification("a", "bcd", 1000));
        assert_eq!(text(notification("a", "bcd", whole.len())), whole);
        for bytes_max in 0..whole.len() {
            let error = notification("a", "bcd", bytes_max).unwrap_err();
            assert!(
                matches!(error, SendError::TooLarge { bytes_max: max } if max == bytes_max),
                "{error:?}"
            );
        }
    }

    #[test]
    fn the_message_of_an_error_is_cut_between_characters() {
        let message = "ä".repeat(JSONRPC_ERROR_MESSAGE_BYTES_MAX);
        let frame = text(error(&Id::null(), &RpcError::new(1, message), 10_000));
        assert_eq!(
            frame.matches('ä').count(),
            JSONRPC_ERROR_MESSAGE_BYTES_MAX / 2
        );
    }

    #[test]
    fn what_json_cannot_say_is_an_error() {
        let map = std::collections::BTreeMap::from([(vec![1], 2)]);
        let error = notification("a", &map, 1000).unwrap_err();
        assert!(matches!(error, SendError::Encode(_)), "{error:?}");
    }
}
