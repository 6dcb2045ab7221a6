//! A tool of an MCP server as a tool of ours.

use futures_util::{FutureExt, future::BoxFuture};
use rmcp::{
    Peer, RoleClient,
    model::{CallToolRequestParams, ContentBlock},
};
use serde_json::Value;
use wire::limits::TOOL_RESULT_BYTES_MAX;

use crate::{
    model::ToolSpec,
    tool::{Context, Display, Kind, Output, Preview, Tool, ToolError, Workspace, cut},
};

/// One tool.
#[derive(Debug)]
pub(super) struct McpTool {
    spec: ToolSpec,
    /// As its server knows it.
    name: String,
    kind: Kind,
    server: Peer<RoleClient>,
}

impl McpTool {
    pub(super) fn new(
        server_name: &str,
        tool: rmcp::model::Tool,
        server: Peer<RoleClient>,
        kind: Kind,
    ) -> Self {
        let name = tool.name.into_owned();
        Self {
            spec: ToolSpec {
                name: format!("mcp__{server_name}__{name}").into(),
                description: tool.description.unwrap_or_default(),
                parameters: Value::Object((*tool.input_schema).clone()),
            },
            name,
            kind,
            server,
        }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn preview(&self, args: &str, _: &Workspace) -> Result<Preview, ToolError> {
        Ok(Preview::Call(format!("{} {args}", self.spec.name)))
    }

    fn run<'a>(
        &'a self,
        args: &'a str,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        async move {
            let arguments = serde_json::from_str(args).map_err(|error| {
                ToolError::new(
                    "invalid_args",
                    format!("The arguments are no JSON object: {error}."),
                )
            })?;
            let params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments);
            let result = tokio::select! {
                result = self.server.call_tool(params) => result,
                () = context.cancel.cancelled() => return Err(ToolError::cancelled()),
            };
            let result = result.map_err(|error| {
                ToolError::new("io", format!("The MCP server did not do it: {error}"))
            })?;
            let text = text_of(&result.content, result.structured_content.as_ref());
            if result.is_error == Some(true) {
                return Err(ToolError::new("exit", text));
            }
            Ok(Output {
                display: Display::Text(text.clone()),
                text,
            })
        }
        .boxed()
    }
}

/// What the model is told: the text of each block, and the JSON of what is no text.
fn text_of(content: &[ContentBlock], structured: Option<&Value>) -> String {
    let mut lines: Vec<String> = content
        .iter()
        .map(|block| {
            if let ContentBlock::Text(text) = block {
                text.text.clone()
            } else {
                serde_json::to_string(block).unwrap_or_default()
            }
        })
        .collect();
    if lines.is_empty() {
        lines.extend(structured.map(Value::to_string));
    }
    cut::middle(&lines.join("\n"), TOOL_RESULT_BYTES_MAX).into_owned()
}
