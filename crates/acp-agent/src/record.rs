//! What a client is told of a session's record (R15, B1).

use agent::config::{Config, RecordingWatch};
use jsonrpc::Peer;
use serde_json::json;
use wire::{
    limits::PENDING_SHOWN_AFTER,
    recording::{RecordingReport, RecordingState},
    words,
};

/// Tells the client of every failure of `config`'s recorders: from the thread that found it, so that
/// every answer which is made later comes later (R15).
pub(crate) fn tell_failures(config: &Config, peer: &Peer, takes_notices: bool) {
    let peer = peer.clone();
    config.on_chat_recording_failure(move |failure| {
        peer.notify_now(
            "qwen/notify/session/recording-degraded",
            &json!({
                "v": 1,
                "sessionId": failure.session_id,
                "reason": words::REASON_WRITE_FAILED,
            }),
        )?;
        if takes_notices {
            peer.notify_now(
                "session/update",
                &json!({
                    "sessionId": failure.session_id,
                    "update": {
                        "sessionUpdate": "notice",
                        "severity": "warning",
                        "content": {"type": "text", "text": words::DEGRADED_MESSAGE},
                    },
                }),
            )?;
        }
        Ok(())
    });
}

/// Tells the client whenever the level differs from what it was told last (B1). Ends with the session.
pub(crate) async fn tell_states(mut watch: RecordingWatch, peer: Peer, session_id: String) {
    let mut told = watch.current().state;
    loop {
        let mut report = watch.changed().await;
        // A short `pending` is everyday life.
        while report.state == RecordingState::Pending {
            match tokio::time::timeout(PENDING_SHOWN_AFTER, watch.changed()).await {
                Ok(next) => report = next,
                Err(_) => break,
            }
        }
        if report.state != told {
            told = report.state;
            tell_state(&peer, &session_id, &report).await;
        }
    }
}

async fn tell_state(peer: &Peer, session_id: &str, report: &RecordingReport) {
    let mut params = json!({"v": 1, "sessionId": session_id, "state": report.state});
    if let Some(class) = report.class {
        params["class"] = json!(class);
    }
    // Dropped: a client that is gone is told nothing more.
    _ = peer.notify("_onrecord/recording_state", &params).await;
}
