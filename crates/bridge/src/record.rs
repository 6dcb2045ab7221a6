//! What a child says of a session's record, and what becomes of it (R16, R17, B1).

use jsonrpc::Notification;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::{
    recording::{FaultClass, RecordingReport, RecordingState},
    words::REASON_WRITE_FAILED,
};

use crate::{
    early::EarlyEvent,
    entry::{About, Held},
};

/// `qwen/notify/session/recording-degraded`: the record of the session it names failed.
pub(crate) const DEGRADED: &str = "qwen/notify/session/recording-degraded";

/// Ours: the level of a session's record.
pub(crate) const STATE: &str = "_onrecord/recording_state";

/// Params of both, each member looked at by itself: what else is in them does not count.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Params {
    v: Value,
    session_id: Value,
    reason: Value,
    state: Value,
    class: Value,
}

/// Reads one of the two; `None` where it is malformed, which harms nothing else (R16).
pub(crate) fn read(notification: &Notification) -> Option<(String, EarlyEvent)> {
    let params: Params = notification.parse_params().ok()?;
    let session_id = params.session_id.as_str().filter(|id| !id.is_empty())?;
    if params.v.as_f64() != Some(1.0) {
        return None;
    }
    let event = if notification.method == DEGRADED {
        (params.reason == REASON_WRITE_FAILED).then_some(EarlyEvent::Degraded)?
    } else {
        let state = RecordingState::deserialize(&params.state).ok()?;
        EarlyEvent::State(state, FaultClass::deserialize(&params.class).ok())
    };
    Some((session_id.to_owned(), event))
}

impl Held<'_> {
    /// Takes in what was said of its record.
    pub(crate) fn take_record_event(&mut self, event: EarlyEvent) {
        match event {
            EarlyEvent::Degraded => self.degrade(),
            EarlyEvent::State(state, class) => self.take_level(state, class),
        }
    }

    /// The record failed. It is told once in the life of the session (R3), with whoever sent the running
    /// prompt and without the prompt: the record is the session's.
    pub(crate) fn degrade(&mut self) {
        if self.entry.view().recording_degraded {
            return;
        }
        // Before the event, and even where the bus takes no more of them.
        self.entry.lock_view().recording_degraded = true;
        let about = About {
            prompt_id: None,
            ..self.about_running()
        };
        let data = json!({"sessionId": self.entry.id, "reason": REASON_WRITE_FAILED});
        self.publish("session_recording_degraded", &data, &about);
    }

    /// The child said the level. A level that is `degraded` is the same news, however it came.
    fn take_level(&mut self, state: RecordingState, class: Option<FaultClass>) {
        self.entry.lock_view().recording_state = Some(state);
        if state == RecordingState::Degraded {
            self.fault = self.fault.or(class);
            self.degrade();
        }
    }

    /// An answer of the child carries the level.
    pub(crate) fn take_report(&mut self, report: &RecordingReport) {
        self.take_level(report.state, report.class);
    }
}
