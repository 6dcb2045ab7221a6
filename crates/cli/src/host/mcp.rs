//! MCP servers that run in the host, reached over its own connection.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agent::{
    event::{Event, McpServer},
    feed::Feed,
    mcp::{Relay, Server},
    tool::Tool,
};
use futures_util::{FutureExt, future::BoxFuture};
use serde_json::value::RawValue;
use tokio::sync::watch;
use wire::stream_json::{
    ServerStatus,
    control::{McpAnswer, OurRequest},
};

use super::{Host, control::Status};

/// The servers of the host. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub(crate) struct Servers {
    host: Arc<Host>,
    /// For warnings.
    feed: Feed,
    servers: Arc<Mutex<BTreeMap<String, State>>>,
    /// How many are still connecting.
    n_connecting: watch::Sender<usize>,
}

#[derive(Debug)]
enum State {
    Connecting,
    Connected(Server),
    Failed,
}

impl Servers {
    pub(crate) fn new(host: Arc<Host>) -> Self {
        Self {
            feed: host.feed.clone(),
            host,
            servers: Arc::default(),
            n_connecting: watch::Sender::new(0),
        }
    }

    /// Connects servers that are not there yet, in the background; the next turn waits for them.
    pub(super) fn connect(&self, names: impl Iterator<Item = String>) {
        for name in names {
            if self.lock().contains_key(&name) {
                continue;
            }
            self.lock().insert(name.clone(), State::Connecting);
            self.n_connecting.send_modify(|n| *n += 1);
            let servers = self.clone();
            tokio::spawn(async move { servers.connect_one(name).await });
        }
    }

    async fn connect_one(self, name: String) {
        let relay = Arc::new(HostRelay {
            host: Arc::clone(&self.host),
            server_name: name.clone(),
        });
        let state = match Server::in_host(&name, relay).await {
            Ok(server) => State::Connected(server),
            Err(error) => {
                self.feed
                    .offer(Event::Warning(format!("Warning: {error}.")));
                State::Failed
            }
        };
        self.lock().insert(name, state);
        self.n_connecting.send_modify(|n| *n -= 1);
    }

    /// Waits until no server is connecting any more; bounded by the time that each has.
    pub(crate) async fn settled(&self) {
        // Dropped: the sender lives as long as `self`.
        _ = self.n_connecting.subscribe().wait_for(|n| *n == 0).await;
    }

    /// What the model may call of them, and how each stands.
    pub(crate) fn offer(&self) -> (Vec<Arc<dyn Tool>>, Vec<McpServer>) {
        let (mut tools, mut rows) = (Vec::new(), Vec::new());
        for (name, state) in &*self.lock() {
            let server = match state {
                State::Connected(server) if server.is_connected() => Some(server),
                State::Connected(_) | State::Connecting | State::Failed => None,
            };
            if let Some(server) = server {
                tools.extend(server.tools().iter().map(Arc::clone));
            }
            rows.push(McpServer {
                name: name.clone(),
                connected: server.is_some(),
            });
        }
        (tools, rows)
    }

    pub(super) fn status(&self) -> Status {
        let servers = self.lock();
        let status = servers.iter().map(|(name, state)| {
            let word = match state {
                State::Connecting => ServerStatus::Connecting,
                State::Connected(server) if server.is_connected() => ServerStatus::Connected,
                State::Connected(_) | State::Failed => ServerStatus::Disconnected,
            };
            (name.clone(), word)
        });
        status.collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way to one server.
#[derive(Debug)]
struct HostRelay {
    host: Arc<Host>,
    server_name: String,
}

impl Relay for HostRelay {
    fn deliver(&self, message: Box<RawValue>) -> BoxFuture<'_, Result<Box<RawValue>, String>> {
        async move {
            let answer = self
                .host
                .request(OurRequest::McpMessage {
                    server_name: self.server_name.clone(),
                    message,
                })
                .await
                .map_err(|error| error.to_string())?;
            let answer: McpAnswer = serde_json::from_str(answer.get())
                .map_err(|error| format!("the host's answer is not understood: {error}"))?;
            answer
                .mcp_response
                .ok_or_else(|| "the host gave no answer of the server".to_owned())
        }
        .boxed()
    }
}
