//! Runtime types to disk types.

use serde_json::{json, value::RawValue};
use transcript::{
    media::Medium,
    record::{
        Body, Content, FunctionCall, FunctionResponse, Part, Response, ToolCallResult,
        UsageMetadata,
    },
};

use crate::{
    event::ToolStatus,
    message::{Block, Prompt, ToolCall, Usage},
    tool::Display,
};

/// The record of a prompt, with those of its pictures that are kept; `n_lost` are not, which it says.
pub(crate) fn user(prompt: &Prompt, media: Vec<Medium>, n_lost: usize) -> Body {
    let mut text = prompt.text.clone();
    if n_lost > 0 {
        let n_images = prompt.images.len();
        text.push_str(&format!(
            "\n[{n_lost} of {n_images} images of this message could not be saved with it]"
        ));
    }
    Body::User {
        message: Content {
            role: "user".to_owned(),
            parts: vec![Part::text(text)],
        },
        media,
    }
}

/// The record of a model response.
pub(crate) fn assistant(model: &str, blocks: &[Block], usage: Option<Usage>) -> Body {
    let parts = blocks
        .iter()
        .map(|block| match block {
            Block::Thought(text) => Part::thought(text.as_str()),
            Block::Text(text) => Part::text(text.as_str()),
            Block::Call(call) => Part {
                function_call: Some(FunctionCall {
                    id: Some(call.id.clone()),
                    name: call.name.clone(),
                    args: call.args.clone(),
                }),
                ..Part::default()
            },
        })
        .collect();
    Body::Assistant {
        model: model.to_owned(),
        message: Content {
            role: "model".to_owned(),
            parts,
        },
        usage: usage.map(|usage| UsageMetadata {
            prompt_token_count: usage.input,
            candidates_token_count: usage.output,
            thoughts_token_count: usage.thoughts,
            total_token_count: usage.total,
            cached_content_token_count: usage.cached,
        }),
    }
}

/// The record of a tool call's result. `error` is the kind of its failure, where it failed.
pub(crate) fn tool_result(
    call: &ToolCall,
    text: &str,
    display: &Display,
    status: ToolStatus,
    error: Option<&'static str>,
) -> Body {
    let (word, execution) = match status {
        ToolStatus::Success => ("success", "success"),
        ToolStatus::Error => ("error", "error"),
        ToolStatus::Denied => ("error", "not_started"),
        ToolStatus::Cancelled => ("cancelled", "cancelled"),
    };
    let failed = status != ToolStatus::Success;
    let response = if failed {
        Response {
            output: None,
            error: Some(text.to_owned()),
        }
    } else {
        Response {
            output: Some(text.to_owned()),
            error: None,
        }
    };
    let part = Part {
        function_response: Some(FunctionResponse {
            id: Some(call.id.clone()),
            name: call.name.clone(),
            response,
        }),
        ..Part::default()
    };
    Body::ToolResult {
        message: Content {
            role: "user".to_owned(),
            parts: vec![part],
        },
        result: ToolCallResult {
            call_id: call.id.clone(),
            status: word,
            result_display: raw(display),
            error: failed.then(|| text.to_owned()),
            error_type: error,
            execution_status: execution,
        },
    }
}

fn raw(display: &Display) -> Box<RawValue> {
    let value = match display {
        Display::Text(text) => json!(text),
        Display::Diff {
            path,
            diff,
            texts: _,
            n_added,
            n_removed,
        } => json!({
            "fileDiff": diff,
            "fileName": path.file_name().map(|name| name.to_string_lossy()),
            "filePath": path.to_string_lossy(),
            "diffStat": {"model_added_lines": n_added, "model_removed_lines": n_removed},
        }),
        Display::Plan(todos) => json!({"type": "todo_list", "todos": &**todos}),
        Display::Shell {
            directory,
            output,
            exit_code,
            signal,
        } => json!({
            "type": "shell_result",
            "version": 1,
            "directory": directory.to_string_lossy(),
            "exitCode": exit_code,
            "signal": signal,
            "output": output,
        }),
    };
    // A `Value` made of strings and numbers always serializes.
    serde_json::value::to_raw_value(&value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
