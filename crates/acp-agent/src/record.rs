//! What a client is told of a session's record (R15, B1).

use std::sync::{Mutex, PoisonError};

use agent::config::{Config, RecordingWatch};
use jsonrpc::Peer;
use serde_json::json;
use transcript::record::TitleSource;
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
            // The same for a person; where there is no room, it must not cost another session's news.
            peer.notify_level(
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

/// Tells the client of one session's level, whenever it differs from what it was told last (B1).
#[derive(Debug)]
pub(crate) struct States {
    peer: Peer,
    session_id: String,
    /// Held while a word is put into the order of frames, so that the last one is the latest.
    told: Mutex<RecordingState>,
}

impl States {
    pub(crate) fn new(peer: Peer, session_id: &str, told: RecordingState) -> Self {
        Self {
            peer,
            session_id: session_id.to_owned(),
            told: Mutex::new(told),
        }
    }

    /// Follows the level until it is dropped.
    pub(crate) async fn follow(&self, mut watch: RecordingWatch) {
        loop {
            let mut report = watch.changed().await;
            // A short `pending` is everyday life.
            while report.state == RecordingState::Pending {
                match tokio::time::timeout(PENDING_SHOWN_AFTER, watch.changed()).await {
                    Ok(next) => report = next,
                    Err(_) => break,
                }
            }
            self.tell(&report);
        }
    }

    /// Says the level before an answer that carries it, unless it is a `pending` that may be short.
    pub(crate) fn before_answer(&self, report: &RecordingReport) {
        if report.state != RecordingState::Pending {
            self.tell(report);
        }
    }

    /// Says the name that is on disk now; one that is not is news of nobody (R27).
    pub(crate) async fn tell_title(&self, title: &str, source: TitleSource) {
        let told = self.peer.notify(
            "qwen/notify/session/title-update",
            &json!({"v": 1, "sessionId": self.session_id, "title": title, "titleSource": source}),
        );
        // Dropped: a client that is gone is told nothing more.
        _ = told.await;
    }

    fn tell(&self, report: &RecordingReport) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told == report.state {
            return;
        }
        let mut params = json!({"v": 1, "sessionId": self.session_id, "state": report.state});
        if let Some(class) = report.class {
            params["class"] = json!(class);
        }
        let sent = self.peer.notify_level("_onrecord/recording_state", &params);
        // A client that does not read is told with the next change, or the next answer.
        if sent.is_ok() {
            *told = report.state;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent::config::{Config, RecordedSession, RecordingSettings};
    use jsonrpc::{Connection, Options, Peer};
    use tokio::io::{AsyncReadExt, duplex};
    use transcript::{
        disk::OsDisk,
        local_log::LocalLog,
        record::{Body, Content, Part},
        recorder::Start,
    };
    use wire::{limits::JSONRPC_NOTICES_MAX, recording::RecordingState};

    use super::{RecordingReport, States, tell_failures};

    fn report(state: RecordingState) -> RecordingReport {
        RecordingReport {
            state,
            class: None,
            last_record_uuid: None,
        }
    }

    /// As many changes of levels as a client that reads nothing can make wait.
    fn flood(peer: &Peer) {
        let states = States::new(peer.clone(), "flood", RecordingState::Saved);
        for _ in 0..JSONRPC_NOTICES_MAX {
            states.before_answer(&report(RecordingState::NeverStarted));
            states.before_answer(&report(RecordingState::Saved));
        }
    }

    /// A recorder whose write fails, because its file is gone from the start.
    fn fail(config: &Config, id: &str) -> impl Future<Output = ()> + use<> {
        config.record_session(RecordedSession {
            path: Some("/dev/null/nowhere/s.jsonl".into()),
            session_id: id.to_owned(),
            cwd: "/".to_owned(),
            start: Start::Resume {
                tail: None,
                title: None,
                lock: None,
            },
        });
        let recorder = config.recorder().expect("it records");
        let saved = recorder.append_strict(Body::User {
            message: Content {
                role: "user".to_owned(),
                parts: vec![Part::text("x")],
            },
            media: Vec::new(),
        });
        async move {
            saved.await.expect_err("it cannot be saved");
        }
    }

    /// R15: whatever else is told of records, a failure is told, also to a client that takes notices.
    #[tokio::test]
    async fn no_flood_of_levels_costs_the_news_of_a_failure() {
        const FAILURES: usize = JSONRPC_NOTICES_MAX / 2;
        let (near, mut far) = duplex(16);
        let (reader, writer) = tokio::io::split(near);
        let (peer, _incoming, _connection) = Connection::start(reader, writer, Options::default());
        let config = Config::new(RecordingSettings {
            enabled: true,
            required: false,
            disk: Arc::new(OsDisk),
            log: LocalLog::default(),
            version: "test".to_owned(),
            clock: Arc::new(jiff::Timestamp::now),
        });
        tell_failures(&config, &peer, true);
        flood(&peer);
        // The writer has its hands full with those, and takes no more.
        tokio::task::yield_now().await;
        flood(&peer);
        for n in 0..FAILURES {
            fail(&config, &format!("lost-{n}")).await;
        }
        flood(&peer);
        peer.close();
        let mut told = String::new();
        far.read_to_string(&mut told).await.expect("it ends");
        let of_failures = told
            .lines()
            .filter(|line| line.contains("session/recording-degraded"));
        assert_eq!(of_failures.count(), FAILURES);
    }
}
