//! The contract between the two SDKs: `spec/fixtures`, which both match byte for byte (R22 to R25).

use std::{collections::BTreeSet, fs, path::Path};

use sdk::{
    canonical::canonical,
    load::Answer,
    normalize::{recording_notice_id, view},
    validate::{self, Invalid},
};
use serde_json::{Value, json};
use wire::state::Session;

fn fixtures() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/fixtures");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .collect();
    paths.sort();
    let read = |path: &_| serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    paths.iter().map(read).collect()
}

/// What became of a fixture's steps: the session, and the steps that did not count.
pub(crate) fn run(fixture: &Value) -> (Session, Vec<Value>) {
    let id = fixture["sessionId"].as_str().unwrap();
    let mut session = Session::new(id);
    let mut invalid = Vec::new();
    let steps = fixture["snapshotsAndEventsInOrder"].as_array().unwrap();
    for (at, step) in steps.iter().enumerate() {
        if let Some(frame) = step.get("frame") {
            match validate::frame(&frame.to_string(), id) {
                Ok(event) => session.apply(event),
                Err(error) => invalid.push(told(at, &error)),
            }
        } else if let Some(load) = step.get("load") {
            let answer: Answer = serde_json::from_value(load.clone()).unwrap();
            assert_eq!(answer.begin(&mut session), []);
        } else {
            session.dismiss_notice();
        }
    }
    (session, invalid)
}

fn told(step: usize, error: &Invalid) -> Value {
    match error {
        Invalid::TooLarge => json!({"step": step, "code": "too_large"}),
        Invalid::NotAFrame => json!({"step": step, "code": "not_a_frame"}),
        Invalid::Version(_) => json!({"step": step, "code": "version"}),
        Invalid::OtherSession => json!({"step": step, "code": "other_session"}),
        Invalid::Field { kind, field } => {
            json!({"step": step, "code": "field", "kind": kind, "field": field})
        }
    }
}

#[test]
fn every_fixture_is_matched_byte_for_byte() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 60, "{}", fixtures.len());
    let mut names = BTreeSet::new();
    for fixture in &fixtures {
        let name = fixture["name"].as_str().unwrap();
        assert!(names.insert(name), "{name} is there twice");
        let (session, invalid) = run(fixture);
        assert_eq!(
            canonical(&json!(session)),
            canonical(&fixture["state"]),
            "{name}"
        );
        assert_eq!(
            canonical(&json!(view(&session))),
            canonical(&fixture["view"]),
            "{name}"
        );
        assert_eq!(json!(invalid), fixture["invalid"], "{name}");
    }
}

/// R24, R25: however it became known, it is one notice of one id with the same words.
#[test]
fn a_failed_record_is_the_same_notice_however_it_became_known() {
    let mut notices = BTreeSet::new();
    for fixture in fixtures() {
        let (session, _) = run(&fixture);
        let view = json!(view(&session));
        let id = recording_notice_id(&session.session_id);
        let told: Vec<&Value> = view["notices"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|notice| notice["id"] == id)
            .collect();
        assert!(told.len() <= 1);
        let is_due = session.current.recording_degraded && !session.is_notice_dismissed;
        assert_eq!(told.len(), usize::from(is_due), "{}", fixture["name"]);
        notices.extend(told.into_iter().map(canonical));
    }
    assert_eq!(notices.len(), 1, "{notices:?}");
}
