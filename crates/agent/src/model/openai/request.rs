//! From a request to the body that is sent.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::{
    message::{Block, Message, Prompt, ToolCall, ToolResult},
    model::{Effort, Request, ToolSpec},
};

/// Renders the body.
pub(super) fn body(model: &str, request: &Request) -> serde_json::Result<Vec<u8>> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(Wire::System {
            content: &request.system,
        });
    }
    for message in &request.messages {
        match message {
            Message::User(prompt) => messages.push(Wire::User {
                content: said(prompt),
            }),
            Message::Assistant(blocks) => messages.extend(assistant(blocks)),
            Message::ToolResults(results) => add_results(results, &mut messages),
        }
    }
    let tools = request.tools.iter().map(tool).collect();
    serde_json::to_vec(&Body {
        model,
        messages,
        tools,
        stream: true,
        stream_options: StreamOptions {
            include_usage: true,
        },
        reasoning_effort: request.effort.map(Effort::as_str),
    })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Wire<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Wire<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Said<'a>,
    },
    Assistant {
        /// `null` where the response is calls alone.
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Said<'a> {
    Text(Cow<'a, str>),
    /// Only where there are images: not every server takes parts.
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    /// JSON text in a string.
    arguments: String,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: ToolFunction<'a>,
}

#[derive(Serialize)]
struct ToolFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    let ToolSpec {
        name,
        description,
        parameters,
    } = spec;
    Tool {
        r#type: "function",
        function: ToolFunction {
            name,
            description,
            parameters,
        },
    }
}

fn said(prompt: &Prompt) -> Said<'_> {
    if prompt.images.is_empty() {
        return Said::Text(Cow::Borrowed(&prompt.text));
    }
    let text = Part::Text { text: &prompt.text };
    let images = prompt.images.iter().map(|image| Part::ImageUrl {
        image_url: ImageUrl {
            url: format!("data:{};base64,{}", image.mime_type(), image.base64()),
        },
    });
    Said::Parts(std::iter::once(text).chain(images).collect())
}

/// Thoughts are not sent back: providers that made them refuse or ignore them. What is empty
/// without them is no message.
fn assistant(blocks: &[Block]) -> Option<Wire<'_>> {
    let (mut text, mut tool_calls) = (String::new(), Vec::new());
    for block in blocks {
        match block {
            Block::Thought(_) => {}
            Block::Text(more) => text.push_str(more),
            Block::Call(call) => tool_calls.push(sent_call(call)),
        }
    }
    if text.is_empty() && tool_calls.is_empty() {
        return None;
    }
    Some(Wire::Assistant {
        content: (!text.is_empty()).then_some(text),
        tool_calls,
    })
}

fn sent_call(call: &ToolCall) -> Call<'_> {
    // An empty name would be refused with the whole conversation.
    let name = if call.name.is_empty() {
        "unknown"
    } else {
        &call.name
    };
    Call {
        id: &call.id,
        r#type: "function",
        function: Function {
            name,
            arguments: arguments(&call.args),
        },
    }
}

/// Servers put the arguments of earlier calls through a parser, and refuse the whole conversation
/// where they are no object: what the model got wrong is wrapped in one.
fn arguments(args: &RawValue) -> String {
    #[derive(Serialize)]
    struct Wrapped<'a> {
        not_understood: &'a RawValue,
    }
    if args.get().starts_with('{') {
        return args.get().to_owned();
    }
    serde_json::to_string(&Wrapped {
        not_understood: args,
    })
    .unwrap_or_else(|_| "{}".to_owned())
}

/// A result whose call is not in the message before would be refused: it is told in words.
fn add_results<'a>(results: &'a [ToolResult], messages: &mut Vec<Wire<'a>>) {
    let asked: Vec<&str> = match messages.last() {
        Some(Wire::Assistant { tool_calls, .. }) => tool_calls.iter().map(|call| call.id).collect(),
        Some(Wire::System { .. } | Wire::User { .. } | Wire::Tool { .. }) | None => Vec::new(),
    };
    let (known, orphans): (Vec<_>, Vec<_>) = results
        .iter()
        .partition(|result| asked.contains(&result.call_id.as_str()));
    messages.extend(
        known
            .into_iter()
            .map(|ToolResult { call_id, text, .. }| Wire::Tool {
                tool_call_id: call_id,
                content: text,
            }),
    );
    messages.extend(
        orphans
            .into_iter()
            .map(|ToolResult { name, text, .. }| Wire::User {
                content: Said::Text(
                    format!("[Result of an earlier call of {name}]\n{text}").into(),
                ),
            }),
    );
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn call(id: &str, name: &str, args: &str) -> Block {
        let args = RawValue::from_string(args.to_owned()).unwrap();
        Block::Call(ToolCall {
            id: id.to_owned(),
            name: name.to_owned(),
            args,
        })
    }

    fn result(call_id: &str) -> ToolResult {
        ToolResult {
            call_id: call_id.to_owned(),
            name: "read_file".to_owned(),
            text: "text".to_owned(),
            is_error: false,
        }
    }

    #[test]
    fn an_image_is_sent_behind_the_text_that_names_it() {
        let mut prompt = Prompt::from("what is this?");
        let png = &b"\x89PNG\r\n\x1a\n"[..];
        prompt.push_image(crate::image::Image::new(png).unwrap(), Some("a.png"));
        let request = Request {
            system: "".into(),
            messages: vec![Message::User(prompt)],
            tools: [].into(),
            effort: None,
        };
        let body: Value = serde_json::from_slice(&body("m", &request).unwrap()).unwrap();
        assert_eq!(
            body["messages"][0]["content"],
            json!([
                {"type": "text", "text": "what is this?\n[image 1 (a.png): image/png, 8 bytes]"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ])
        );
    }

    #[test]
    fn a_conversation_is_sent_as_the_protocol_wants_it() {
        let request = Request {
            system: "be brief".into(),
            messages: vec![
                Message::User("hi".into()),
                Message::Assistant(vec![
                    Block::Thought("hm".to_owned()),
                    call("a", "read_file", r#"{"p": 1}"#),
                    call("b", "", r#""{bad""#),
                ]),
                Message::ToolResults(vec![result("a"), result("b"), result("z")]),
                Message::Assistant(vec![Block::Thought("only".to_owned())]),
                Message::Assistant(vec![
                    Block::Text("so ".to_owned()),
                    Block::Text("on".to_owned()),
                ]),
            ],
            tools: [ToolSpec {
                name: "t".into(),
                description: "d".into(),
                parameters: json!({"type": "object"}),
            }]
            .into(),
            effort: Some(Effort::High),
        };
        let body: Value = serde_json::from_slice(&body("m", &request).unwrap()).unwrap();
        expect![[r#"
            {
              "model": "m",
              "messages": [
                {
                  "role": "system",
                  "content": "be brief"
                },
                {
                  "role": "user",
                  "content": "hi"
                },
                {
                  "role": "assistant",
                  "content": null,
                  "tool_calls": [
                    {
                      "id": "a",
                      "type": "function",
                      "function": {
                        "name": "read_file",
                        "arguments": "{\"p\": 1}"
                      }
                    },
                    {
                      "id": "b",
                      "type": "function",
                      "function": {
                        "name": "unknown",
                        "arguments": "{\"not_understood\":\"{bad\"}"
                      }
                    }
                  ]
                },
                {
                  "role": "tool",
                  "tool_call_id": "a",
                  "content": "text"
                },
                {
                  "role": "tool",
                  "tool_call_id": "b",
                  "content": "text"
                },
                {
                  "role": "user",
                  "content": "[Result of an earlier call of read_file]\ntext"
                },
                {
                  "role": "assistant",
                  "content": "so on"
                }
              ],
              "tools": [
                {
                  "type": "function",
                  "function": {
                    "name": "t",
                    "description": "d",
                    "parameters": {
                      "type": "object"
                    }
                  }
                }
              ],
              "stream": true,
              "stream_options": {
                "include_usage": true
              },
              "reasoning_effort": "high"
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&body).unwrap());
    }
}
