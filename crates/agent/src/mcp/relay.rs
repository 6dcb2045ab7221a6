//! A server that is reached by handing over one message at a time.

use std::{convert::Infallible, fmt, sync::Arc};

use futures_util::future::BoxFuture;
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::sync::mpsc;
use wire::limits::MCP_ANSWERS_WAITING_MAX;

/// Hands one JSON-RPC message to a server and brings its answer.
pub trait Relay: Send + Sync + fmt::Debug {
    /// Delivers a request or a notification. The answer to a notification is not looked at.
    ///
    /// It ends in bounded time; an error is in words for the model.
    fn deliver(&self, message: Box<RawValue>) -> BoxFuture<'_, Result<Box<RawValue>, String>>;
}

/// A [`Relay`] as a transport.
pub(super) struct RelayTransport {
    relay: Arc<dyn Relay>,
    to: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    answers: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
}

impl RelayTransport {
    pub(super) fn new(relay: Arc<dyn Relay>) -> Self {
        let (to, answers) = mpsc::channel(MCP_ANSWERS_WAITING_MAX);
        Self { relay, to, answers }
    }
}

impl Transport<RoleClient> for RelayTransport {
    type Error = Infallible;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        let relay = Arc::clone(&self.relay);
        let to = self.to.clone();
        // The answer may take as long as the call does; what is sent next must not wait for it.
        tokio::spawn(async move {
            if let Some(answer) = exchange(&*relay, &message).await {
                // Dropped: the client is gone, and with it whoever asked.
                _ = to.send(answer).await;
            }
        });
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.answers.recv().await
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.answers.close();
        Ok(())
    }
}

/// Delivers a message; answers what belongs to it. Every request has an answer.
async fn exchange(
    relay: &dyn Relay,
    message: &TxJsonRpcMessage<RoleClient>,
) -> Option<RxJsonRpcMessage<RoleClient>> {
    let raw = serde_json::value::to_raw_value(message).ok()?;
    let head: Head<'_> = serde_json::from_str(raw.get()).ok()?;
    let request_id = match head {
        Head {
            id: Some(id),
            method: Some(_),
        } => Some(id.to_owned()),
        Head { .. } => None,
    };
    let answer = relay.deliver(raw).await;
    let id = request_id?;
    let error = match answer {
        Ok(answer) => match serde_json::from_str(answer.get()) {
            Ok(answer) => return Some(answer),
            Err(error) => format!("the server's answer is not understood: {error}"),
        },
        Err(error) => error,
    };
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": error}});
    serde_json::from_value(error).ok()
}
