//! How a session is closed: as well as it goes, or only if its record is on disk (R21).

use std::sync::Arc;

use jsonrpc::{INTERNAL_ERROR, RequestError, RpcError};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::{sync::oneshot, time::timeout};
use wire::{
    http::Closed,
    limits::CHILD_CLOSE_WAIT_MAX,
    recording::{FaultClass, RecordingReport, RecordingState},
};

use crate::{
    Caller, Error,
    channel::{Channel, is_unknown},
    entry::{About, Entry, Phase},
    prompts::Lost,
    workspace::Workspace,
};

const METHOD: &str = "qwen/control/session/close";

/// How long the child may wait for what runs, in ms.
const DRAIN_MS: u64 = 8_000;

/// Why and how a session is closed.
#[derive(Debug, Clone)]
pub(crate) struct How {
    reason: &'static str,
    closed_by: Option<String>,
    /// Only if its record is on disk.
    is_strict: bool,
    /// Only if nothing is at work in it.
    only_if_unheld: bool,
}

impl How {
    pub(crate) fn client(caller: &Caller) -> Self {
        Self {
            reason: "client_close",
            closed_by: caller.client_id.clone(),
            is_strict: false,
            only_if_unheld: false,
        }
    }

    pub(crate) fn strict() -> Self {
        Self {
            is_strict: true,
            ..Self::client(&Caller::default())
        }
    }

    pub(crate) fn last_detached() -> Self {
        Self {
            reason: "last_client_detached",
            ..Self::client(&Caller::default())
        }
    }

    pub(crate) fn idle(only_if_unheld: bool) -> Self {
        Self {
            reason: "idle_timeout",
            only_if_unheld,
            ..Self::client(&Caller::default())
        }
    }
}

/// Closes a session. Its last event is published in the order of the child's answer, so that what the
/// child said before, a failed record for one, still comes before it.
pub(crate) async fn close(
    workspace: Arc<Workspace>,
    entry: Arc<Entry>,
    how: How,
) -> Result<Closed, Error> {
    {
        let mut held = entry.hold_for(&Caller::default())?;
        held.phase = Phase::Closing;
        // Before its questions are answered, or the agent would go on as after a refusal.
        if !how.only_if_unheld && held.permissions.len() > 0 && held.prompts.is_running() {
            crate::prompts::ask_to_cancel(&entry);
        }
        held.drop_permissions("session_closed");
    }
    let mut params = json!({"sessionId": entry.id, "drainTimeoutMs": DRAIN_MS});
    if how.is_strict {
        params["requireFlush"] = json!(true);
    }
    if how.only_if_unheld {
        params["onlyIfUnheld"] = json!(true);
    }
    let (tell, told) = oneshot::channel();
    let (asked, asked_in, asked_how) = (Arc::clone(&entry), Arc::clone(&workspace), how.clone());
    let sent = entry
        .channel
        .peer
        .request_then(METHOD, &params, move |outcome| {
            let result = settle(&asked_in, &asked, &asked_how, outcome);
            // Dropped: whoever asked does not wait any more.
            _ = tell.send(result);
        });
    if let Err(error) = sent {
        return settle(&workspace, &entry, &how, Err(error));
    }
    match timeout(CHILD_CLOSE_WAIT_MAX, told).await {
        Ok(result) => result.unwrap_or(Err(Error::AgentGone)),
        // A record of which nobody says that it is saved is not, and the session stays.
        Err(_late) if how.is_strict => {
            reopen(&entry);
            Err(Error::AgentTimeout)
        }
        Err(_late) => {
            tracing::warn!("the agent did not close a session in time; it is closed here");
            // Nobody says that what came last is saved.
            let unconfirmed = RecordingState::Pending;
            let is_saved = entry.view().recording_state == Some(RecordingState::Saved);
            if is_saved {
                entry.lock_view().recording_state = Some(unconfirmed);
            }
            Ok(finish(&workspace, &entry, &how))
        }
    }
}

/// What a child answers to a close.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    closed: Option<bool>,
    #[serde(rename = "_meta")]
    meta: Option<Meta>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    #[serde(rename = "onrecord/recording")]
    recording: Option<RecordingReport>,
}

/// What the child's answer comes to.
fn settle(
    workspace: &Arc<Workspace>,
    entry: &Arc<Entry>,
    how: &How,
    outcome: Result<Box<RawValue>, RequestError>,
) -> Result<Closed, Error> {
    // An agent that knows no close has nothing to keep open.
    if is_unknown(&outcome) {
        return Ok(finish(workspace, entry, how));
    }
    match outcome {
        Ok(answer) => {
            let answer: Answer = serde_json::from_str(answer.get()).unwrap_or_default();
            if how.only_if_unheld && answer.closed == Some(false) {
                reopen(entry);
                return Ok(closed(entry));
            }
            if let Some(report) = answer.meta.and_then(|meta| meta.recording) {
                entry.hold().take_report(&report);
            }
            Ok(finish(workspace, entry, how))
        }
        Err(RequestError::Remote(error)) => {
            reopen(entry);
            Err(if how.is_strict {
                not_saved(&error)
            } else {
                Error::Agent(error)
            })
        }
        // Its sessions end with the child, and are told so.
        Err(RequestError::Closed(_)) if how.is_strict => Err(Error::AgentGone),
        Err(RequestError::Closed(_)) => Ok(closed(entry)),
        Err(error) if how.is_strict => {
            reopen(entry);
            Err(error.into())
        }
        // Whatever it said, it was an answer.
        Err(_) => Ok(finish(workspace, entry, how)),
    }
}

/// Why a strict close was refused, without the child's words: they may name a file (R28).
fn not_saved(error: &RpcError) -> Error {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Data {
        details: String,
        #[serde(rename = "onrecord/recording")]
        recording: Option<RecordingReport>,
    }
    let data: Data = error
        .data
        .as_ref()
        .and_then(|data| serde_json::from_str(data.get()).ok())
        .unwrap_or_default();
    let class: Option<FaultClass> = data.recording.as_ref().and_then(|report| report.class);
    if error.code != INTERNAL_ERROR {
        return Error::Agent(RpcError::new(error.code, "the agent refused to close"));
    }
    if data.details.starts_with("Session close timed out") {
        return Error::AgentTimeout;
    }
    Error::FlushFailed { class }
}

fn reopen(entry: &Arc<Entry>) {
    let mut held = entry.hold();
    if held.phase == Phase::Closing {
        held.phase = Phase::Open;
        held.active_at = tokio::time::Instant::now();
        held.run_next();
    }
}

fn closed(entry: &Entry) -> Closed {
    Closed {
        recording_degraded: entry.view().recording_degraded,
    }
}

/// Ends a session that is closed.
fn finish(workspace: &Arc<Workspace>, entry: &Arc<Entry>, how: &How) -> Closed {
    let mut held = entry.hold();
    if held.phase == Phase::Gone {
        return closed(entry);
    }
    held.drop_permissions("session_closed");
    if held.prompts.is_running() {
        // An agent without a close is told in the way that it knows.
        crate::prompts::ask_to_cancel(entry);
    }
    held.lose_running(Lost::Closed);
    held.lose_waiting(Lost::Closed);
    let mut data = json!({"sessionId": entry.id, "reason": how.reason});
    if let Some(client) = &how.closed_by {
        data["closedBy"] = json!(client);
    }
    let closed = closed(entry);
    if closed.recording_degraded {
        data["recordingDegraded"] = json!(true);
    }
    // What is not known to be saved is said, for nobody can ask any more (R27).
    let state = entry.view().recording_state;
    if let Some(state) =
        state.filter(|state| !matches!(state, RecordingState::Saved | RecordingState::Off))
    {
        data["recordingState"] = json!(state);
    }
    held.publish("session_closed", &data, &About::default());
    held.phase = Phase::Gone;
    drop(held);
    entry.bus.close();
    entry.channel.early().bury(&entry.id);
    workspace.forget(entry);
    closed
}

/// Closes a session in the child that nobody wants here.
pub(crate) fn close_unwanted(channel: &Channel, id: &str) {
    channel.early().bury(id);
    let params = json!({"sessionId": id, "drainTimeoutMs": DRAIN_MS});
    let sent = channel.peer.request_then(METHOD, &params, |outcome| {
        if let Err(error) = outcome {
            tracing::debug!(%error, "a session that came too late was not closed");
        }
    });
    if let Err(error) = sent {
        tracing::debug!(%error, "a session that came too late was not closed");
    }
}
