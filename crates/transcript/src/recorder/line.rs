//! One record as one line, its fields in the order of the format.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::record::{Body, Content, Title, ToolCallResult, UsageMetadata};

const TITLE: &str = "custom_title";

/// What every record of a session says.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) session_id: String,
    pub(super) cwd: String,
    pub(super) version: String,
    pub(super) git_branch: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    uuid: &'a str,
    parent_uuid: Option<&'a str>,
    session_id: &'a str,
    timestamp: Milliseconds,
    r#type: &'static str,
    provenance: &'static str,
    cwd: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_branch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subtype: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_metadata: Option<&'a UsageMetadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_result: Option<&'a ToolCallResult>,
}

/// ISO-8601 with three digits of the second.
struct Milliseconds(Timestamp);

impl Serialize for Milliseconds {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.3}", self.0))
    }
}

/// The record that names a session.
pub(super) fn title(title: &Title) -> Body {
    // Two strings always serialize.
    let payload = to_raw_value(title).unwrap_or_else(|_| RawValue::NULL.to_owned());
    Body::System {
        subtype: TITLE,
        payload,
    }
}

pub(super) fn is_title(body: &Body) -> bool {
    matches!(body, Body::System { subtype: TITLE, .. })
}

/// Appends a record and its line feed to `out`; answers whether it could be said in JSON.
pub(super) fn push(
    out: &mut Vec<u8>,
    head: &Head,
    uuid: &str,
    parent: Option<&str>,
    time: Timestamp,
    body: &Body,
) -> bool {
    let mut line = Line {
        uuid,
        parent_uuid: parent,
        session_id: &head.session_id,
        timestamp: Milliseconds(time),
        r#type: "system",
        provenance: "system",
        cwd: &head.cwd,
        version: &head.version,
        git_branch: head.git_branch.as_deref(),
        subtype: None,
        system_payload: None,
        model: None,
        message: None,
        usage_metadata: None,
        tool_call_result: None,
    };
    match body {
        Body::User { message } => {
            (line.r#type, line.provenance) = ("user", "real_user");
            line.message = Some(message);
        }
        Body::Assistant {
            model,
            message,
            usage,
        } => {
            (line.r#type, line.provenance) = ("assistant", "assistant_output");
            line.model = Some(model);
            line.message = Some(message);
            line.usage_metadata = usage.as_ref();
        }
        Body::ToolResult { message, result } => {
            (line.r#type, line.provenance) = ("tool_result", "tool_result");
            line.message = Some(message);
            line.tool_call_result = Some(result);
        }
        Body::System { subtype, payload } => {
            line.subtype = Some(subtype);
            line.system_payload = Some(payload);
        }
    }
    let start = out.len();
    if serde_json::to_writer(&mut *out, &line).is_err() {
        return false;
    }
    // Raw JSON of a model may be laid out over several lines; within strings it has no line feed.
    let mut from = start;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &out[from..]) {
        out[from + at] = b' ';
        from += at + 1;
    }
    out.push(b'\n');
    true
}
