//! The id of a request of the other side: kept and echoed as it was written.

use std::fmt;

use serde_json::value::RawValue;
use wire::limits::JSONRPC_ID_BYTES_MAX;

const NULL: &str = "null";

/// A number, a text or null, in the very characters in which it came: a number beyond any integer
/// type, or an escape that no text can hold, goes back unchanged.
///
/// Two ids are equal where they are written in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Id(Box<str>);

impl Id {
    /// The id in a JSON value; `None` where it is none: a truth value, a list, an object, or longer
    /// than [`JSONRPC_ID_BYTES_MAX`].
    #[must_use]
    pub fn read(value: &RawValue) -> Option<Self> {
        let raw = value.get();
        let is_id = match raw.as_bytes().first()? {
            b'"' | b'-' | b'0'..=b'9' => raw.len() <= JSONRPC_ID_BYTES_MAX,
            _ => raw == NULL,
        };
        is_id.then(|| Self(raw.into()))
    }

    /// The id of an answer to nobody.
    pub(crate) fn null() -> Self {
        Self(NULL.into())
    }

    /// Whether it is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        &*self.0 == NULL
    }

    /// Its JSON.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Id> {
        Id::read(serde_json::from_str::<&RawValue>(json).unwrap())
    }

    #[test]
    fn an_id_is_kept_as_it_was_written() {
        let long = "9".repeat(JSONRPC_ID_BYTES_MAX);
        for json in [
            "0",
            "-1.5e3",
            "18446744073709551616",
            r#""a\ud800""#,
            "null",
            &long,
        ] {
            assert_eq!(read(json).unwrap().as_json(), json);
        }
    }

    #[test]
    fn what_is_no_id_is_none() {
        let long = "9".repeat(JSONRPC_ID_BYTES_MAX + 1);
        for json in ["true", "[1]", "{}", &long] {
            assert_eq!(read(json), None, "{json}");
        }
    }
}
