//! What the recorder's tests stand on: a recorder over a disk that can fail, and what is left behind.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, value::RawValue};
use tempfile::TempDir;
use testkit::fault_disk::{FaultDisk, Plan};
use transcript::{
    local_log::LocalLog,
    record::{Body, Content, Part},
    recorder::{Bounds, Options, Recorder, RecordingFailure, Start, Ticket},
};

/// Far more than anything here takes, so that a hang fails instead of hanging.
pub(crate) const WAIT: Duration = Duration::from_secs(10);

pub(crate) const SESSION: &str = "5e551014-0000-4000-8000-000000000001";

/// A place for one session, a disk beneath it, and the notices that were given.
pub(crate) struct Rig {
    folder: TempDir,
    pub(crate) disk: FaultDisk,
    pub(crate) bounds: Bounds,
    pub(crate) notices: Arc<Mutex<Vec<RecordingFailure>>>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with_plan(Plan::Sound)
    }

    pub(crate) fn with_plan(plan: Plan) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            disk: FaultDisk::new(plan),
            bounds: Bounds::default(),
            notices: Arc::default(),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder().join("projects/p/chats/session.jsonl")
    }

    pub(crate) fn log(&self) -> LocalLog {
        LocalLog::new(vec![self.folder().join("log")])
    }

    pub(crate) fn options(&self, start: Start) -> Options {
        Options {
            path: Some(self.path()),
            session_id: SESSION.to_owned(),
            cwd: "/home/user/project".to_owned(),
            version: "0.0.0".to_owned(),
            start,
            log: self.log(),
            disk: Arc::new(self.disk.clone()),
            clock: Arc::new(|| "2026-11-30T10:00:00.123456Z".parse().unwrap()),
            bounds: self.bounds,
        }
    }

    pub(crate) fn start(&self, start: Start) -> Recorder {
        self.start_with(self.options(start))
    }

    pub(crate) fn start_with(&self, options: Options) -> Recorder {
        let notices = Arc::clone(&self.notices);
        Recorder::start(options, move |failure| {
            notices.lock().unwrap().push(failure.clone());
        })
    }

    /// A recorder of a new session.
    pub(crate) fn begin(&self) -> Recorder {
        self.start(Start::New)
    }

    pub(crate) fn n_notices(&self) -> usize {
        self.notices.lock().unwrap().len()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap_or_default()
    }

    /// The lines of the transcript, all of which must be whole.
    pub(crate) fn lines(&self) -> Vec<Value> {
        lines_of(&self.bytes())
    }

    pub(crate) fn uuids(&self) -> Vec<String> {
        uuids_of(&self.lines())
    }

    /// Puts a transcript there as another run left it.
    pub(crate) fn put(&self, bytes: &[u8]) {
        fs::create_dir_all(self.path().parent().unwrap()).unwrap();
        fs::write(self.path(), bytes).unwrap();
    }
}

pub(crate) fn lines_of(bytes: &[u8]) -> Vec<Value> {
    assert!(
        bytes.is_empty() || bytes.ends_with(b"\n"),
        "the last line is whole"
    );
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

pub(crate) fn uuids_of(lines: &[Value]) -> Vec<String> {
    let uuids = lines.iter().map(|line| line["uuid"].as_str().unwrap());
    uuids.map(str::to_owned).collect()
}

/// Every parent is a record before it.
pub(crate) fn assert_chain(lines: &[Value]) {
    let mut seen = HashSet::new();
    for line in lines {
        if let Some(parent) = line["parentUuid"].as_str() {
            assert!(seen.contains(parent), "{parent} is before its child");
        }
        assert!(
            seen.insert(line["uuid"].as_str().unwrap()),
            "ids are unique"
        );
    }
}

pub(crate) fn is_title(line: &Value) -> bool {
    line["subtype"] == "custom_title"
}

pub(crate) fn user(text: &str) -> Body {
    Body::User {
        message: Content {
            role: "user".to_owned(),
            parts: vec![Part::text(text)],
        },
        media: Vec::new(),
    }
}

pub(crate) fn assistant(text: &str) -> Body {
    Body::Assistant {
        model: "m".to_owned(),
        message: Content {
            role: "model".to_owned(),
            parts: vec![Part::text(text)],
        },
        usage: None,
    }
}

pub(crate) fn note(json: &str) -> Body {
    Body::System {
        subtype: "note",
        payload: RawValue::from_string(json.to_owned()).unwrap(),
    }
}

/// The answer, which must come.
pub(crate) fn answer(ticket: Ticket) -> Result<(), transcript::recorder::NotSaved> {
    ticket.wait_blocking(WAIT).expect("an answer comes in time")
}
