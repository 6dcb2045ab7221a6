//! Files as the client holds them.

use std::{path::Path, sync::Arc};

use agent::tool::Editor;
use futures_util::{FutureExt, future::BoxFuture};
use jsonrpc::{Peer, RequestError};
use serde::Deserialize;
use serde_json::json;
use wire::limits::HOST_ANSWER_WAIT_MAX;

use crate::protocol::initialize::FileSystem;

/// The files of a client, in one session.
#[derive(Debug)]
pub(crate) struct ClientFiles {
    peer: Peer,
    session_id: Arc<str>,
    offered: FileSystem,
}

#[derive(Deserialize)]
struct Content {
    content: String,
}

impl ClientFiles {
    pub(crate) fn new(peer: Peer, session_id: &str, offered: FileSystem) -> Self {
        Self {
            peer,
            session_id: session_id.into(),
            offered,
        }
    }
}

impl Editor for ClientFiles {
    fn reads(&self) -> bool {
        self.offered.read_text_file
    }

    fn writes(&self) -> bool {
        self.offered.write_text_file
    }

    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, String>> {
        async move {
            let params = json!({"sessionId": self.session_id, "path": path.to_string_lossy()});
            let answer = self
                .peer
                .request("fs/read_text_file", &params)
                .within(HOST_ANSWER_WAIT_MAX)
                .await
                .map_err(|error| in_words(&error))?;
            serde_json::from_str::<Content>(answer.get())
                .map(|answer| answer.content)
                .map_err(|error| error.to_string())
        }
        .boxed()
    }

    fn write<'a>(&'a self, path: &'a Path, content: &'a str) -> BoxFuture<'a, Result<(), String>> {
        async move {
            let params = json!({
                "sessionId": self.session_id,
                "path": path.to_string_lossy(),
                "content": content,
            });
            let answer = self
                .peer
                .request("fs/write_text_file", &params)
                .within(HOST_ANSWER_WAIT_MAX)
                .await;
            answer.map(|_| ()).map_err(|error| in_words(&error))
        }
        .boxed()
    }
}

fn in_words(error: &RequestError) -> String {
    if let RequestError::Remote(error) = error {
        format!("the client says: {}", error.message)
    } else {
        error.to_string()
    }
}
