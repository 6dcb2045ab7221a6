//! Disk types of other programs to ours, part by part: what one part holds that nobody knows costs
//! that part alone.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    reader::StoredToolResult,
    record::{Content, FunctionCall, FunctionResponse, Part, Response},
    scan::string,
};

/// A `message`.
pub(crate) fn content(message: &RawValue) -> Option<Content> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow, default)]
        role: Option<&'a RawValue>,
        #[serde(borrow, default)]
        parts: Option<&'a RawValue>,
    }
    let message: Message<'_> = serde_json::from_str(message.get()).ok()?;
    let parts: Vec<&RawValue> = match message.parts {
        Some(parts) => serde_json::from_str(parts.get()).unwrap_or_default(),
        None => Vec::new(),
    };
    Some(Content {
        role: message.role.and_then(owned).unwrap_or_default(),
        parts: parts.into_iter().map(part).collect(),
    })
}

fn part(part: &RawValue) -> Part {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Loose<'a> {
        #[serde(borrow, default)]
        text: Option<&'a RawValue>,
        #[serde(borrow, default)]
        thought: Option<&'a RawValue>,
        #[serde(borrow, default)]
        function_call: Option<&'a RawValue>,
        #[serde(borrow, default)]
        function_response: Option<&'a RawValue>,
    }
    let Ok(part) = serde_json::from_str::<Loose<'_>>(part.get()) else {
        return Part::default();
    };
    Part {
        text: part.text.and_then(owned),
        thought: part.thought.map(|thought| thought.get() == "true"),
        function_call: part.function_call.and_then(call),
        function_response: part.function_response.and_then(response),
    }
}

fn call(call: &RawValue) -> Option<FunctionCall> {
    #[derive(Deserialize)]
    struct Loose<'a> {
        #[serde(borrow, default)]
        id: Option<&'a RawValue>,
        #[serde(borrow)]
        name: &'a RawValue,
        #[serde(borrow, default)]
        args: Option<&'a RawValue>,
    }
    let call: Loose<'_> = serde_json::from_str(call.get()).ok()?;
    Some(FunctionCall {
        id: call.id.and_then(owned),
        name: owned(call.name)?,
        args: match call.args {
            Some(args) => args.to_owned(),
            None => serde_json::from_str("{}").ok()?,
        },
    })
}

fn response(response: &RawValue) -> Option<FunctionResponse> {
    #[derive(Deserialize)]
    struct Loose<'a> {
        #[serde(borrow, default)]
        id: Option<&'a RawValue>,
        #[serde(borrow)]
        name: &'a RawValue,
        #[serde(borrow, default)]
        response: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow, default)]
        output: Option<&'a RawValue>,
        #[serde(borrow, default)]
        error: Option<&'a RawValue>,
    }
    let loose: Loose<'_> = serde_json::from_str(response.get()).ok()?;
    let body = loose.response.and_then(|body| {
        let said: Body<'_> = serde_json::from_str(body.get()).ok()?;
        (said.output.is_some() || said.error.is_some()).then(|| Response {
            output: said.output.map(as_text),
            error: said.error.map(as_text),
        })
    });
    Some(FunctionResponse {
        id: loose.id.and_then(owned),
        name: owned(loose.name)?,
        response: body.unwrap_or_else(|| Response {
            output: loose.response.map(as_text),
            error: None,
        }),
    })
}

/// A `toolCallResult`.
pub(crate) fn tool_call_result(result: &RawValue) -> Option<StoredToolResult> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Loose<'a> {
        #[serde(borrow, default)]
        call_id: Option<&'a RawValue>,
        #[serde(borrow, default)]
        status: Option<&'a RawValue>,
        #[serde(borrow, default)]
        result_display: Option<&'a RawValue>,
        #[serde(borrow, default)]
        error: Option<&'a RawValue>,
    }
    let result: Loose<'_> = serde_json::from_str(result.get()).ok()?;
    Some(StoredToolResult {
        call_id: result.call_id.and_then(owned),
        status: result.status.and_then(owned),
        result_display: result.result_display.and_then(owned),
        error: result.error.and_then(owned),
    })
}

fn owned(raw: &RawValue) -> Option<String> {
    string(raw).map(Into::into)
}

/// A string's text, or any other value's JSON.
fn as_text(raw: &RawValue) -> String {
    owned(raw).unwrap_or_else(|| raw.get().to_owned())
}
