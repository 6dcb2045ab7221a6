//! MCP servers whose tools the model may call.
//!
//! A server is reached through a [`Relay`]; how its messages travel is decided elsewhere.

mod relay;
mod tool;

use std::sync::Arc;

use rmcp::{RoleClient, ServiceExt, service::RunningService};
use wire::limits::{MCP_CONNECT_WAIT_MAX, MCP_TOOLS_MAX};

pub use self::relay::Relay;
use self::{relay::RelayTransport, tool::McpTool};
use crate::tool::{Kind, Tool};

/// A connected server. Its tools work as long as it lives.
#[derive(Debug)]
pub struct Server {
    name: String,
    tools: Vec<Arc<dyn Tool>>,
    client: RunningService<RoleClient, ()>,
}

/// Why a server cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("MCP server `{name}` cannot be used: {reason}")]
pub struct McpError {
    /// The server's name.
    pub name: String,
    /// In the words of whoever failed.
    pub reason: String,
}

impl Server {
    /// Connects a server that runs inside the program which drives us, and asks for its tools.
    ///
    /// # Errors
    /// It does not answer in [`MCP_CONNECT_WAIT_MAX`], or not as a server does.
    pub async fn in_host(name: &str, relay: Arc<dyn Relay>) -> Result<Self, McpError> {
        let failed = |reason: String| McpError {
            name: name.to_owned(),
            reason,
        };
        let connect = async {
            let client =
                ().serve(RelayTransport::new(relay))
                    .await
                    .map_err(|error| failed(error.to_string()))?;
            let tools = client
                .list_all_tools()
                .await
                .map_err(|error| failed(error.to_string()))?;
            Ok((client, tools))
        };
        let (client, tools) = tokio::time::timeout(MCP_CONNECT_WAIT_MAX, connect)
            .await
            .map_err(|_late| failed("it did not answer in time".to_owned()))??;
        let tools = tools.into_iter().take(MCP_TOOLS_MAX);
        let tools = tools.map(|tool| -> Arc<dyn Tool> {
            Arc::new(McpTool::new(name, tool, client.peer().clone(), Kind::Host))
        });
        Ok(Self {
            name: name.to_owned(),
            tools: tools.collect(),
            client,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its tools, named `mcp__<server>__<tool>`.
    #[must_use]
    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.tools
    }

    /// Whether it can still be called.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        !self.client.is_closed()
    }
}
