//! The boundary at which a process learns that recording failed (R2, R3, R6–R10), and the level of
//! the record (B1).
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "set-up of tests in a folder of their own may panic and write"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use agent::config::{Config, RecordedSession, RecordingSettings};
use serde_json::value::RawValue;
use tempfile::TempDir;
use transcript::{disk::OsDisk, local_log::LocalLog, record::Body, recorder::Start};
use wire::recording::{FaultClass, RecordingState};

const WAIT: Duration = Duration::from_secs(2);

fn config(home: &Path) -> Config {
    Config::new(RecordingSettings {
        enabled: true,
        required: false,
        disk: Arc::new(OsDisk),
        log: LocalLog::new(vec![home.join("log")]),
        version: "test".to_owned(),
        clock: Arc::new(jiff::Timestamp::now),
    })
}

fn begin(config: &Config, home: &Path, session_id: &str) -> PathBuf {
    let path = home.join(format!("{session_id}.jsonl"));
    config.record_session(RecordedSession {
        path: Some(path.clone()),
        session_id: session_id.to_owned(),
        cwd: "/somewhere".to_owned(),
        start: Start::New,
    });
    path
}

fn note() -> Body {
    Body::System {
        subtype: "note",
        payload: RawValue::from_string("{}".to_owned()).unwrap(),
    }
}

/// Makes the current recorder fail for real: its file goes away (B2).
fn fail(config: &Config, path: &Path) {
    let recorder = config.recorder().unwrap();
    recorder.append(note());
    recorder.flush().wait_blocking(WAIT).unwrap().unwrap();
    fs::remove_file(path).unwrap();
    recorder.append(note());
    assert!(recorder.flush().wait_blocking(WAIT).unwrap().is_err());
}

/// Remembers which sessions it was told of.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<String>>>);

impl Ear {
    fn heard(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn hear(&self, session_id: &str) {
        self.0.lock().unwrap().push(session_id.to_owned());
    }
}

fn listen(config: &Config) -> (Ear, agent::config::Disposer) {
    let ear = Ear::default();
    let told = ear.clone();
    let disposer = config.on_chat_recording_failure(move |failure| {
        told.hear(&failure.session_id);
        Ok(())
    });
    (ear, disposer)
}

/// R2, R3, R9.
#[test]
fn every_recorder_of_a_config_is_heard_once_under_its_own_session() {
    let home = TempDir::new().unwrap();
    let config = config(home.path());
    let (ear, _disposer) = listen(&config);
    let first = begin(&config, home.path(), "first");
    fail(&config, &first);
    let recorder = config.recorder().unwrap();
    let second = begin(&config, home.path(), "second");
    recorder.append(note());
    assert!(recorder.flush().wait_blocking(WAIT).unwrap().is_err());
    assert!(recorder.close().wait_blocking(WAIT).unwrap().is_err());
    assert_eq!(ear.heard(), ["first"]);
    fail(&config, &second);
    assert_eq!(ear.heard(), ["first", "second"]);
}

/// R6.
#[test]
fn disposers_are_independent_and_work_more_than_once() {
    let home = TempDir::new().unwrap();
    let config = config(home.path());
    let (kept, _disposer) = listen(&config);
    let (gone, disposer) = listen(&config);
    disposer.dispose();
    disposer.dispose();
    let path = begin(&config, home.path(), "s");
    fail(&config, &path);
    assert_eq!(kept.heard(), ["s"]);
    assert!(gone.heard().is_empty());
}

/// R7.
#[test]
fn a_listener_added_or_removed_during_delivery_changes_nothing_for_it() {
    let home = TempDir::new().unwrap();
    let config = config(home.path());
    let late = Ear::default();
    let removed = Arc::new(Mutex::new(None::<agent::config::Disposer>));
    let (inner, ear, target) = (config.clone(), late.clone(), Arc::clone(&removed));
    config.on_chat_recording_failure(move |_| {
        let ear = ear.clone();
        inner.on_chat_recording_failure(move |failure| {
            ear.hear(&failure.session_id);
            Ok(())
        });
        if let Some(disposer) = target.lock().unwrap().as_ref() {
            disposer.dispose();
        }
        Ok(())
    });
    let (ear, disposer) = listen(&config);
    *removed.lock().unwrap() = Some(disposer);
    let first = begin(&config, home.path(), "first");
    fail(&config, &first);
    assert_eq!(ear.heard(), ["first"], "removed only for the next delivery");
    assert!(late.heard().is_empty(), "added only for the next delivery");
    let second = begin(&config, home.path(), "second");
    fail(&config, &second);
    assert_eq!(ear.heard(), ["first"]);
    assert_eq!(late.heard(), ["second"]);
}

/// R8.
#[test]
fn a_listener_that_fails_or_panics_disturbs_nobody() {
    let home = TempDir::new().unwrap();
    let config = config(home.path());
    config.on_chat_recording_failure(|_| Err("of its own".into()));
    config.on_chat_recording_failure(|_| panic!("a listener's own fault"));
    let (ear, _disposer) = listen(&config);
    let path = begin(&config, home.path(), "s");
    fail(&config, &path);
    assert_eq!(ear.heard(), ["s"]);
    let report = config.recording();
    assert_eq!(report.state, RecordingState::Degraded);
    assert_eq!(report.class, Some(FaultClass::Gone));
}

/// R10.
#[tokio::test]
async fn a_failure_found_by_the_last_flush_still_reaches_the_listeners() {
    let home = TempDir::new().unwrap();
    let config = config(home.path());
    let (ear, _disposer) = listen(&config);
    let path = begin(&config, home.path(), "s");
    let recorder = config.recorder().unwrap();
    recorder.append(note());
    recorder.flush().await.unwrap();
    fs::remove_file(path).unwrap();
    recorder.append(note());
    let report = config.shutdown(WAIT).await;
    assert_eq!(ear.heard(), ["s"]);
    assert_eq!(report.state, RecordingState::Degraded);
}

/// B1.
#[tokio::test]
async fn the_level_can_be_watched_across_recorders() {
    let home = TempDir::new().unwrap();
    let config = config(home.path());
    let mut watch = config.watch_recording();
    assert_eq!(watch.current().state, RecordingState::Saved);
    let path = begin(&config, home.path(), "first");
    assert_eq!(watch.changed().await.state, RecordingState::Saved);
    let failing = config.clone();
    tokio::task::spawn_blocking(move || fail(&failing, &path))
        .await
        .unwrap();
    let mut report = watch.changed().await;
    while report.state != RecordingState::Degraded {
        report = watch.changed().await;
    }
    begin(&config, home.path(), "second");
    assert_eq!(watch.changed().await.state, RecordingState::Saved);
}

/// B1: `off` is the person's choice, and nothing is written.
#[tokio::test]
async fn a_session_that_is_not_recorded_is_off() {
    let home = TempDir::new().unwrap();
    let config = Config::new(RecordingSettings {
        enabled: false,
        required: false,
        disk: Arc::new(OsDisk),
        log: LocalLog::new(Vec::new()),
        version: "test".to_owned(),
        clock: Arc::new(jiff::Timestamp::now),
    });
    begin(&config, home.path(), "s");
    assert!(config.recorder().is_none());
    assert_eq!(config.recording_state(), RecordingState::Off);
    assert_eq!(config.shutdown(WAIT).await.state, RecordingState::Off);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}
