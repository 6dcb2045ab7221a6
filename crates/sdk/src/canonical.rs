//! JSON in one form for one value (RFC 8785), so that two languages can be compared.

use std::fmt::Write as _;

use serde_json::Value;

/// The value with keys in the order of their UTF-16 units and without white space. Numbers are integers here.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (at, (name, field)) in fields.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                // Dropped: writing into memory does not fail.
                _ = write!(out, "{}:", Value::from(name.as_str()));
                write(field, out);
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            // Dropped: as above.
            _ = write!(out, "{value}");
        }
    }
}
