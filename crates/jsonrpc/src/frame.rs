//! What one line of the other side is. Pure: a line in, a frame out.
//!
//! The envelope is read with its values raw, so that a value that no type can hold (a lone surrogate,
//! a number beyond any integer, nesting without end) costs only whoever looks into it.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use wire::limits::JSONRPC_METHOD_BYTES_MAX;

use crate::{
    error::{RequestError, RpcError},
    id::Id,
    lines::Line,
};

pub(crate) type Outcome = Result<Box<RawValue>, RequestError>;

/// What a line is.
#[derive(Debug)]
pub(crate) enum Frame {
    /// Nothing but white space.
    Blank,
    Request {
        id: Id,
        method: String,
        params: Option<Box<RawValue>>,
    },
    Notification {
        method: String,
        params: Option<Box<RawValue>>,
    },
    /// To a request of ours, if `id` is one. Answers are never answered, or two sides could go on for
    /// ever.
    Answer {
        id: Option<u64>,
        outcome: Outcome,
    },
    Bad(Bad),
}

/// A line that is no message.
#[derive(Debug)]
pub(crate) struct Bad {
    /// Null where none could be read.
    pub(crate) id: Id,
    pub(crate) error: RpcError,
    /// It is an answer without a result where this request of ours waits for one: some programs leave
    /// out a result that is nothing.
    pub(crate) answer_to: Option<u64>,
}

fn bad(id: Option<Id>, error: RpcError) -> Frame {
    Frame::Bad(Bad {
        id: id.unwrap_or_else(Id::null),
        error,
        answer_to: None,
    })
}

/// Reads a line.
pub(crate) fn read(line: &Line<'_>, line_bytes_max: usize) -> Frame {
    match line {
        Line::Whole(line) => read_whole(line),
        Line::TooLong(head) => read_head(head, line_bytes_max),
    }
}

fn read_whole(line: &[u8]) -> Frame {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Frame::Blank;
    }
    let not_json = || bad(None, RpcError::parse_error());
    let Ok(line) = std::str::from_utf8(line) else {
        return not_json();
    };
    if !line.starts_with('{') {
        if serde_json::from_str::<IgnoredAny>(line).is_err() {
            return not_json();
        }
        let details = if line.starts_with('[') {
            "batches are not taken"
        } else {
            "not an object"
        };
        return bad(None, RpcError::invalid_request(details));
    }
    let mut members = Members::default();
    if members.read(line).is_err() {
        return not_json();
    }
    members.frame()
}

/// Reads what the beginning of a line that is too long tells of whom it was for.
fn read_head(head: &[u8], line_bytes_max: usize) -> Frame {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
    };
    let mut members = Members::default();
    // The end is missing, and what stands before it is read all the same.
    let is_broken = members
        .read(text.trim_ascii_start())
        .is_err_and(|error| !error.is_eof());
    let id = members.id.and_then(Id::read).filter(|_| !is_broken);
    let is_asked = members.method.is_some()
        || members.params.is_some()
        || matches!(members.unfinished, Some(Key::Method | Key::Params));
    let is_answer = members.result.is_some()
        || members.error.is_some()
        || matches!(members.unfinished, Some(Key::Result | Key::Error));
    if is_answer && !is_asked && !is_broken {
        return Frame::Answer {
            id: id.as_ref().and_then(number),
            outcome: Err(RequestError::AnswerTooLarge {
                bytes_max: line_bytes_max,
            }),
        };
    }
    let error =
        RpcError::invalid_request(&format!("the line is longer than {line_bytes_max} bytes"));
    bad(id, error)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    #[serde(other)]
    Other,
}

/// The members of an object that JSON-RPC knows. Null is a value of its own, and not absence.
#[derive(Debug, Default)]
struct Members<'a> {
    version: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// A member came twice.
    is_ambiguous: bool,
    /// The member at whose value the text ends.
    unfinished: Option<Key>,
}

impl<'a> Members<'a> {
    /// Reads an object; what was read before an error stays.
    fn read(&mut self, text: &'a str) -> Result<(), serde_json::Error> {
        let mut json = serde_json::Deserializer::from_str(text);
        self.deserialize(&mut json)?;
        json.end()
    }

    fn member(&mut self, key: Key) -> Option<&mut Option<&'a RawValue>> {
        Some(match key {
            Key::Jsonrpc => &mut self.version,
            Key::Id => &mut self.id,
            Key::Method => &mut self.method,
            Key::Params => &mut self.params,
            Key::Result => &mut self.result,
            Key::Error => &mut self.error,
            Key::Other => return None,
        })
    }

    fn set(&mut self, key: Key, value: &'a RawValue) {
        let is_second = self
            .member(key)
            .is_some_and(|member| member.replace(value).is_some());
        self.is_ambiguous |= is_second;
    }

    fn frame(self) -> Frame {
        // Many write the member that they do not mean as null.
        let error = self.error.filter(|error| error.get() != "null");
        if self.method.is_none() && (self.result.is_some() || self.error.is_some()) {
            return Frame::Answer {
                id: self.id.and_then(Id::read).as_ref().and_then(number),
                outcome: self.outcome(error),
            };
        }
        if self.is_ambiguous {
            return bad(None, RpcError::invalid_request("a member came twice"));
        }
        let id = self.id.and_then(Id::read);
        let Some(method) = self.method else {
            let has_params = self.params.is_some();
            return Frame::Bad(Bad {
                answer_to: id.as_ref().and_then(number).filter(|_| !has_params),
                id: id.unwrap_or_else(Id::null),
                error: RpcError::invalid_request("no method"),
            });
        };
        self.call(method)
            .unwrap_or_else(|details| bad(id, RpcError::invalid_request(details)))
    }

    /// A request or a notification, or what is wrong with it.
    fn call(&self, method: &RawValue) -> Result<Frame, &'static str> {
        if self
            .version
            .is_none_or(|version| version.get() != "\"2.0\"")
        {
            return Err("not JSON-RPC 2.0");
        }
        let id = self.id.map(|id| Id::read(id).ok_or("the id is no id"));
        let id = id.transpose()?;
        let method: String =
            serde_json::from_str(method.get()).map_err(|_error| "the method is no text")?;
        if method.len() > JSONRPC_METHOD_BYTES_MAX {
            return Err("the method is too long");
        }
        let params = self.params.map(ToOwned::to_owned);
        Ok(match id {
            Some(id) => Frame::Request { id, method, params },
            None => Frame::Notification { method, params },
        })
    }

    fn outcome(&self, error: Option<&RawValue>) -> Outcome {
        let result = self.result.filter(|result| result.get() != "null");
        match (error, result) {
            _ if self.is_ambiguous => Err(RequestError::Malformed),
            (Some(_), Some(_)) => Err(RequestError::Malformed),
            (Some(error), None) => Err(read_error(error)),
            (None, _) => self
                .result
                .map(ToOwned::to_owned)
                .ok_or(RequestError::Malformed),
        }
    }
}

impl<'a> DeserializeSeed<'a> for &mut Members<'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for &mut Members<'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        // A member counts once something follows it: a number at the end of a cut text may go on.
        let mut last = None;
        loop {
            let key = map.next_key::<Key>()?;
            if let Some((key, value)) = last.take() {
                self.set(key, value);
            }
            let Some(key) = key else { return Ok(()) };
            self.unfinished = Some(key);
            if key == Key::Other {
                map.next_value::<IgnoredAny>()?;
            } else {
                last = Some((key, map.next_value::<&RawValue>()?));
            }
        }
    }
}

fn read_error(error: &RawValue) -> RequestError {
    #[derive(Deserialize)]
    struct Members<'a> {
        code: i64,
        #[serde(borrow)]
        message: Option<&'a RawValue>,
        data: Option<Box<RawValue>>,
    }
    let members: Result<Members<'_>, _> = serde_json::from_str(error.get());
    let Ok(members) = members else {
        return RequestError::Malformed;
    };
    // A message that is no text is shown as it is.
    let message = members.message.map_or(Cow::Borrowed(""), |message| {
        serde_json::from_str(message.get()).map_or(message.get().into(), Cow::Owned)
    });
    RequestError::Remote(RpcError {
        code: members.code,
        message: message.into_owned(),
        data: members.data,
    })
}

/// The number of a request of ours.
fn number(id: &Id) -> Option<u64> {
    id.as_json().parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// A frame as one line.
    fn shown(frame: Frame) -> String {
        let raw =
            |value: Option<Box<RawValue>>| value.map_or("-".into(), |value| value.to_string());
        match frame {
            Frame::Blank => "blank".into(),
            Frame::Request { id, method, params } => {
                format!("request {id} {method} {}", raw(params))
            }
            Frame::Notification { method, params } => {
                format!("notification {method} {}", raw(params))
            }
            Frame::Answer { id, outcome } => {
                let id = id.map_or("-".into(), |id| id.to_string());
                match outcome {
                    Ok(value) => format!("answer {id} {value}"),
                    Err(RequestError::Remote(error)) => format!(
                        "answer {id} error {} {:?} {}",
                        error.code,
                        error.message,
                        raw(error.data)
                    ),
                    Err(RequestError::AnswerTooLarge { bytes_max }) => {
                        format!("answer {id} longer than {bytes_max}")
                    }
                    Err(error) => format!("answer {id} {error}"),
                }
            }
            Frame::Bad(bad) => {
                let data = bad.error.data.map(|data| data.get().to_owned());
                let data: Value = serde_json::from_str(&data.unwrap_or("{}".into())).unwrap();
                let details = data["details"].as_str().unwrap_or("-").to_owned();
                let or = bad
                    .answer_to
                    .map_or(String::new(), |id| format!(" or answer {id}"));
                format!("bad {} {} {details}{or}", bad.id, bad.error.code)
            }
        }
    }

    fn check(line: impl AsRef<[u8]>, expected: &str) {
        let line = line.as_ref();
        assert_eq!(
            shown(read(&Line::Whole(line), 1000)),
            expected,
            "{}",
            String::from_utf8_lossy(line)
        );
    }

    fn check_head(head: impl AsRef<[u8]>, expected: &str) {
        let head = head.as_ref();
        assert_eq!(
            shown(read(&Line::TooLong(head), 1000)),
            expected,
            "{}",
            String::from_utf8_lossy(head)
        );
    }

    #[test]
    fn calls_are_read_with_their_params_as_they_came() {
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{ "x" : 1e400 }}"#,
            r#"request 1 a { "x" : 1e400 }"#,
        );
        check(
            "\t{\"params\":[],\"other\":{},\"method\":\"a\\u0062\",\"jsonrpc\":\"2.0\"} \r",
            "notification ab []",
        );
        check(
            r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"a"}"#,
            "request 18446744073709551616 a -",
        );
        check(
            r#"{"jsonrpc":"2.0","id":"\ud800","method":"a","params":null}"#,
            r#"request "\ud800" a null"#,
        );
        check(
            r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#,
            "request null a -",
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"a","result":1}"#,
            "request 1 a -",
        );
    }

    #[test]
    fn values_that_no_type_holds_are_passed_on() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        for value in [r#"["\ud800"]"#, &deep, "1e999999", "\"\u{2028}\u{85}\""] {
            check(
                format!(r#"{{"jsonrpc":"2.0","method":"a","params":{value}}}"#),
                &format!("notification a {value}"),
            );
        }
    }

    #[test]
    fn answers_are_read_leniently() {
        check(r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "answer 1 null");
        check(r#"{"id":1,"error":null,"result":[ ]}"#, "answer 1 [ ]");
        check(
            r#"{"id":1,"result":null,"error":{"code":-5,"message":"m","data":"\ud800"}}"#,
            r#"answer 1 error -5 "m" "\ud800""#,
        );
        check(
            r#"{"id":1,"error":{"code":-5,"message":{"a":1},"data":null}}"#,
            r#"answer 1 error -5 "{\"a\":1}" -"#,
        );
        check(r#"{"id":1,"error":{"code":1}}"#, r#"answer 1 error 1 "" -"#);
    }

    #[test]
    fn an_answer_with_both_or_without_a_code_is_malformed() {
        for line in [
            r#"{"id":1,"result":1,"error":{"code":1,"message":""}}"#,
            r#"{"id":1,"error":"no"}"#,
            r#"{"id":1,"error":{"message":"no"}}"#,
            r#"{"id":1,"error":null}"#,
            r#"{"id":1,"result":1,"result":2}"#,
        ] {
            check(line, "answer 1 the answer is malformed");
        }
    }

    #[test]
    fn an_answer_to_an_id_that_is_not_ours_has_none() {
        for id in [
            "\"1\"",
            "-1",
            "1.0",
            "1e0",
            "null",
            "[1]",
            "18446744073709551616",
        ] {
            check(format!(r#"{{"id":{id},"result":1}}"#), "answer - 1");
        }
        check(r#"{"result":1}"#, "answer - 1");
    }

    #[test]
    fn what_is_no_json_is_a_parse_error() {
        for line in [
            "hello".as_bytes(),
            b"\0\0\0",
            b"\xff",
            b"\xef\xbb\xbf{}",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"a\xff\"}",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"x\":\"\xff\"}",
            br#"{"jsonrpc":"2.0","id":1,"method":"a"} {}"#,
            br#"{"jsonrpc":"2.0","id":1,"method":"a""#,
            br#"{"jsonrpc":"2.0","id":1,"method":"a","\ud800":1}"#,
            b"[1",
        ] {
            check(line, "bad null -32700 -");
        }
    }

    #[test]
    fn json_that_is_no_message_is_an_invalid_request() {
        for (line, expected) in [
            ("[]", "null -32600 batches are not taken"),
            ("1", "null -32600 not an object"),
            ("{}", "null -32600 no method"),
            (r#"{"id":"x"}"#, r#""x" -32600 no method"#),
            (r#"{"id":3}"#, "3 -32600 no method or answer 3"),
            (r#"{"id":3,"params":{}}"#, "3 -32600 no method"),
            (r#"{"id":3,"method":"a"}"#, "3 -32600 not JSON-RPC 2.0"),
            (
                r#"{"jsonrpc":2.0,"method":"a"}"#,
                "null -32600 not JSON-RPC 2.0",
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"method":null}"#,
                "3 -32600 the method is no text",
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"method":"\ud800"}"#,
                "3 -32600 the method is no text",
            ),
            (
                r#"{"jsonrpc":"2.0","id":true,"method":"a"}"#,
                "null -32600 the id is no id",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#,
                "null -32600 a member came twice",
            ),
        ] {
            check(line, &format!("bad {expected}"));
        }
    }

    #[test]
    fn a_method_may_be_so_long_and_no_longer() {
        for (n, expected) in [(0, "request"), (1, "bad")] {
            let method = "m".repeat(JSONRPC_METHOD_BYTES_MAX + n);
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
            let shown = shown(read(&Line::Whole(line.as_bytes()), 9999));
            assert!(shown.starts_with(&format!("{expected} 1 ")), "{shown}");
        }
    }

    #[test]
    fn white_space_is_blank() {
        for line in ["", "\r", " \t "] {
            check(line, "blank");
        }
    }

    #[test]
    fn the_beginning_of_a_long_line_tells_whom_it_was_for() {
        let call = "-32600 the line is longer than 1000 bytes";
        for (head, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"b"#,
                "bad 7",
            ),
            (r#"{"jsonrpc":"2.0","id":"x","params":["b"#, "bad \"x\""),
            (r#"{"method":"a","params":["b"#, "bad null"),
            (r#"{"id":7,"method":"aaaa"#, "bad 7"),
            (r#"{"id":7,"unknown":"aaaa"#, "bad 7"),
            // The id may go on where the text is cut.
            (r#"{"method":"a","id":7"#, "bad null"),
            (r#"{"id":7,"method":x"#, "bad null"),
            (r#"["id",7,"#, "bad null"),
            ("garbage", "bad null"),
        ] {
            check_head(head, &format!("{expected} {call}"));
        }
        check_head(
            r#"{"jsonrpc":"2.0","id":7,"result":{"a"#,
            "answer 7 longer than 1000",
        );
        check_head(r#"{"id":7,"error":{"a"#, "answer 7 longer than 1000");
        check_head(r#"{"result":"a"#, "answer - longer than 1000");
        check_head(b"{\"id\":7,\"result\":\"\xc3", "answer 7 longer than 1000");
    }
}
