//! What the stub was asked.

use std::io::{ErrorKind, Read};

use serde_json::Value;

/// One model request.
#[derive(Debug, Clone)]
pub struct Received {
    /// Its path.
    pub path: String,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body; `null` where it is no JSON.
    pub body: Value,
}

impl Received {
    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The text of the last message.
    #[must_use]
    pub fn last_text(&self) -> Option<String> {
        match &self.last()?["content"] {
            Value::String(text) => Some(text.clone()),
            Value::Array(parts) => {
                let texts: Vec<_> = parts
                    .iter()
                    .filter_map(|part| part["text"].as_str())
                    .collect();
                Some(texts.join(" "))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
        }
    }

    /// Whether the last message is a tool's result.
    #[must_use]
    pub fn last_is_result(&self) -> bool {
        self.last().is_some_and(|message| message["role"] == "tool")
    }

    fn last(&self) -> Option<&Value> {
        self.body["messages"].as_array()?.last()
    }
}

/// How a TLS handshake begins.
const TLS: u8 = 0x16;

/// Reads one request; `None` where the connection ended before one began. `unread` holds what came
/// behind it. TLS is invalid data, as it is to any server of plain HTTP.
pub(super) fn read(
    stream: &mut impl Read,
    unread: &mut Vec<u8>,
) -> std::io::Result<Option<Received>> {
    let head_end = loop {
        if let Some(n) = unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break n;
        }
        if unread.first() == Some(&TLS) {
            return Err(ErrorKind::InvalidData.into());
        }
        if !more(stream, unread)? {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&unread[..head_end]).into_owned();
    unread.drain(..head_end + 4);
    let mut lines = head.split("\r\n");
    let path = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .unwrap_or_default()
        .to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    while unread.len() < length {
        if !more(stream, unread)? {
            return Ok(None);
        }
    }
    let body: Vec<u8> = unread.drain(..length).collect();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(Some(Received {
        path,
        headers,
        body,
    }))
}

fn more(stream: &mut impl Read, unread: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut buffer = [0; 16 << 10];
    let n = stream.read(&mut buffer)?;
    unread.extend_from_slice(&buffer[..n]);
    Ok(n > 0)
}
