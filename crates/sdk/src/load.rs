//! What a load answers, and the session that begins anew with it.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use wire::{
    event::Frame,
    recording::RecordingState,
    state::{Session, SessionState},
};

use crate::validate::{Invalid, checked};

/// The part of the answer to `load` that a session is made of.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Who we are in the session; absent in answers that say it elsewhere.
    pub client_id: Option<String>,
    /// Finished turns, folded.
    #[serde(default)]
    pub compacted_replay: Vec<Frame>,
    /// What came since.
    #[serde(default)]
    pub live_journal: Vec<Frame>,
    /// Where the stream goes on.
    pub last_event_id: u64,
    /// Of the bus.
    pub event_epoch: String,
    /// Whether the record failed; absent where an older daemon says nothing.
    pub recording_degraded: Option<bool>,
    /// Its level; absent where nobody told it, or in a word that is not known.
    #[serde(default, deserialize_with = "known_word")]
    pub recording_state: Option<RecordingState>,
}

fn known_word<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<RecordingState>, D::Error> {
    let word = Value::deserialize(deserializer)?;
    Ok(RecordingState::deserialize(&word).ok())
}

impl Answer {
    /// Makes the session of it; frames that do not count are left out and answered.
    pub fn begin(self, session: &mut Session) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        let id = session.session_id.clone();
        let frames = self.compacted_replay.into_iter().chain(self.live_journal);
        let events: Vec<_> = frames
            .filter_map(|frame| {
                checked(frame, &id)
                    .map_err(|error| invalid.push(error))
                    .ok()
            })
            .collect();
        let recording = SessionState {
            recording_degraded: self.recording_degraded.unwrap_or_default(),
            recording_state: self.recording_state,
            ..SessionState::default()
        };
        let is_told = self.recording_degraded.is_some();
        session.load(
            events,
            self.last_event_id,
            &self.event_epoch,
            &recording,
            is_told,
        );
        invalid
    }
}
