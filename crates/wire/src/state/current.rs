//! What is current in a session, beside its conversation: what `session_snapshot` says.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::recording::RecordingState;

/// What is current in a session. As JSON it is what `session_snapshot` says beside `sessionId`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionState {
    /// The model; `null` where it is not known.
    pub current_model_id: Option<String>,
    /// The approval mode; `null` where it is not known.
    pub current_approval_mode: Option<String>,
    /// Whether the record failed (R18): set for good by the event, and by a snapshot in both directions
    /// (R23).
    pub recording_degraded: bool,
    /// Ours: the level of the record (B1); absent where nobody told it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recording_state: Option<RecordingState>,
}

impl SessionState {
    /// The record failed (R23).
    pub fn degrade(&mut self) {
        self.recording_degraded = true;
        // Only a level that somebody told goes on.
        if self.recording_state.is_some() {
            self.recording_state = Some(RecordingState::Degraded);
        }
    }

    /// Takes in a snapshot, which is authoritative in what it says; what it leaves out stays as it is (R23).
    pub fn take(&mut self, snapshot: &crate::event::Snapshot) {
        if let Some(model) = &snapshot.current_model_id {
            self.current_model_id.clone_from(model);
        }
        if let Some(mode) = &snapshot.current_approval_mode {
            self.current_approval_mode.clone_from(mode);
        }
        if let Some(is_degraded) = snapshot.recording_degraded {
            self.recording_degraded = is_degraded;
        }
        if let Some(state) = snapshot.recording_state {
            self.recording_state = Some(state);
        }
    }

    /// Takes in an event, by its `type` and `data`; whether it changed anything. What is not understood
    /// changes nothing.
    pub fn apply(&mut self, kind: &str, data: &RawValue) -> bool {
        let before = self.clone();
        match kind {
            "session_snapshot" => self.take_snapshot(data),
            "session_recording_degraded" => self.take_degraded(data),
            "model_switched" => {
                if let Some(ModelSwitched { model_id }) = read(data) {
                    self.current_model_id = Some(model_id);
                }
            }
            "approval_mode_changed" => {
                if let Some(ModeChanged { next }) = read(data) {
                    self.current_approval_mode = Some(next);
                }
            }
            // Most updates are text, and are not looked into.
            "session_update" if data.get().contains("\"current_mode_update\"") => {
                if let Some(Updated {
                    update: ModeUpdate { kind, mode },
                }) = read(data)
                    && kind == "current_mode_update"
                {
                    self.current_approval_mode = Some(mode);
                }
            }
            _ => return false,
        }
        *self != before
    }

    /// A snapshot is authoritative in what it says; what it leaves out stays as it is (R23).
    fn take_snapshot(&mut self, data: &RawValue) {
        let Some(snapshot) = read::<Snapshot>(data) else {
            return;
        };
        if let Some(model) = snapshot.current_model_id {
            self.current_model_id = model;
        }
        if let Some(mode) = snapshot.current_approval_mode {
            self.current_approval_mode = mode;
        }
        if let Some(is_degraded) = snapshot.recording_degraded {
            self.recording_degraded = is_degraded;
        }
        // A word of a later version is as good as none.
        let state = snapshot.recording_state.map(RecordingState::deserialize);
        if let Some(Ok(state)) = state {
            self.recording_state = Some(state);
        }
    }

    fn take_degraded(&mut self, data: &RawValue) {
        let Some(Degraded { reason }) = read(data) else {
            return;
        };
        if reason != crate::words::REASON_WRITE_FAILED {
            return;
        }
        self.degrade();
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a RawValue) -> Option<T> {
    serde_json::from_str(data.get()).ok()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Snapshot {
    #[serde(default, deserialize_with = "present")]
    current_model_id: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    current_approval_mode: Option<Option<String>>,
    recording_degraded: Option<bool>,
    recording_state: Option<serde_json::Value>,
}

/// Tells `null` from absence.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
struct Degraded {
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelSwitched {
    model_id: String,
}

#[derive(Deserialize)]
struct ModeChanged {
    next: String,
}

#[derive(Deserialize)]
struct Updated {
    update: ModeUpdate,
}

#[derive(Deserialize)]
struct ModeUpdate {
    #[serde(rename = "sessionUpdate")]
    kind: String,
    #[serde(rename = "currentModeId")]
    mode: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn raw(data: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(data).expect("it is JSON")
    }

    fn folded(events: &[(&str, Value)]) -> SessionState {
        let mut state = SessionState::default();
        for (kind, data) in events {
            state.apply(kind, &raw(data));
        }
        state
    }

    #[test]
    fn models_and_modes_follow_their_events() {
        let state = folded(&[
            ("model_switched", json!({"sessionId": "s", "modelId": "m"})),
            (
                "approval_mode_changed",
                json!({"previous": "auto", "next": "plan"}),
            ),
            (
                "session_update",
                json!({"sessionId": "s", "update": {
                "sessionUpdate": "current_mode_update", "currentModeId": "yolo"}}),
            ),
            (
                "session_update",
                json!({"sessionId": "s", "update": {
                "sessionUpdate": "agent_message_chunk",
                "content": {"type": "text", "text": "\"current_mode_update\""}}}),
            ),
            ("approval_mode_changed", json!({"next": 1})),
            ("unheard_of", json!({"modelId": "n"})),
        ]);
        assert_eq!(state.current_model_id.as_deref(), Some("m"));
        assert_eq!(state.current_approval_mode.as_deref(), Some("yolo"));
    }

    /// R23: the live event is sticky, a snapshot decides in both directions, and absence preserves.
    #[test]
    fn a_failed_record_is_sticky_until_a_snapshot_says_otherwise() {
        let degraded = (
            "session_recording_degraded",
            json!({"reason": "write_failed"}),
        );
        let mut state = folded(std::slice::from_ref(&degraded));
        assert!(state.recording_degraded);
        assert_eq!(state.recording_state, None);
        state.apply("session_snapshot", &raw(&json!({"currentModelId": "m"})));
        assert!(state.recording_degraded);
        let fresh =
            json!({"currentModelId": null, "recordingDegraded": false, "recordingState": "saved"});
        assert!(state.apply("session_snapshot", &raw(&fresh)));
        assert!(!state.recording_degraded);
        assert_eq!(state.current_model_id, None);
        state.apply(degraded.0, &raw(&degraded.1));
        assert_eq!(state.recording_state, Some(RecordingState::Degraded));
    }

    /// R22: what does not fit the shape changes nothing.
    #[test]
    fn a_malformed_event_changes_nothing() {
        for (kind, data) in [
            ("session_recording_degraded", json!({"reason": "other"})),
            ("session_recording_degraded", json!({})),
            ("session_snapshot", json!({"recordingDegraded": "yes"})),
            ("session_snapshot", json!([])),
            ("model_switched", json!({"modelId": null})),
        ] {
            assert!(
                !SessionState::default().apply(kind, &raw(&data)),
                "{kind} {data}"
            );
        }
    }

    #[test]
    fn a_snapshot_is_what_the_state_says() {
        let said = serde_json::to_value(SessionState::default()).expect("it is JSON");
        assert_eq!(
            said,
            json!({"currentModelId": null, "currentApprovalMode": null, "recordingDegraded": false})
        );
    }
}
