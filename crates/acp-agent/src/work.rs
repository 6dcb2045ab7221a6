//! The heartbeat of what is at work, for a daemon that asked for it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use jsonrpc::Peer;
use serde_json::json;

/// Sends snapshots. Cheap to clone; all clones count on.
#[derive(Debug, Clone)]
pub(crate) struct Heartbeat {
    peer: Peer,
    n_sent: Arc<AtomicU64>,
}

impl Heartbeat {
    pub(crate) fn new(peer: Peer) -> Self {
        Self {
            peer,
            n_sent: Arc::default(),
        }
    }

    /// Says which sessions are open. Nothing of ours works on between two turns, so none is held.
    pub(crate) fn beat(&self, session_ids: &[String]) {
        let sessions: Vec<_> = session_ids
            .iter()
            .map(|id| json!({"sessionId": id, "hasRunningBackgroundTasks": false, "holds": []}))
            .collect();
        let seq = self.n_sent.fetch_add(1, Ordering::AcqRel) + 1;
        // It has its place now. The room of notices is kept for what the record has to say.
        tokio::spawn(self.peer.notify(
            "qwen/notify/channel/active-work",
            &json!({"v": 1, "seq": seq, "sessions": sessions}),
        ));
    }
}
