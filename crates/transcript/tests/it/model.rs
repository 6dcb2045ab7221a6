//! The recorder against a model of it, through random histories (R1–R5, B1–B3).
//!
//! Every step settles before the next, so that the model is plain sequential code: a list of lines,
//! ours and others', and whether the recorder still lives.

use std::{
    fs::{self, OpenOptions},
    io::Write,
};

use proptest::prelude::*;
use rustix::io::Errno;
use testkit::fault_disk::Fault;
use transcript::{
    record::{Title, TitleSource},
    recorder::{Recorder, Start},
};
use wire::{
    limits::TITLE_ANCHOR_BYTES,
    recording::{FaultClass, RecordingState},
};

use crate::rig::{Rig, answer, assert_chain, lines_of, user, uuids_of};

/// Something that happens to a session.
#[derive(Debug, Clone)]
enum Step {
    /// Records of these sizes, and a flush.
    Append(Vec<usize>),
    Flush,
    Rename,
    /// The next write fails, after this many bytes.
    WriteFails(usize),
    /// Another writer appends a whole record.
    OtherAppends,
    /// Another writer leaves a torn record.
    OtherTears,
    /// Somebody cuts the file by this many bytes.
    Cut(u64),
    Unlink,
    /// The recorder is closed and the session is resumed from what the reader finds.
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(0..3_000_usize, 1..5).prop_map(Step::Append),
        2 => Just(Step::Flush),
        2 => Just(Step::Rename),
        // A write of nothing is another failure, with a test of its own.
        1 => (1..8_000_usize).prop_map(Step::WriteFails),
        2 => Just(Step::OtherAppends),
        1 => Just(Step::OtherTears),
        1 => (1..200_u64).prop_map(Step::Cut),
        1 => Just(Step::Unlink),
        2 => Just(Step::Reopen),
    ]
}

/// A line of the file, as the model has it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Ours(String),
    Title,
    Others,
    Torn,
}

const OTHERS: &[u8] = b"{\"uuid\":\"other\",\"sessionId\":\"s\",\"type\":\"system\"}\n";
const TORN: &[u8] = b"{\"uuid\":\"oth";

struct World {
    rig: Rig,
    recorder: Recorder,
    lines: Vec<Line>,
    n_notices: usize,
    /// The recorder has failed, or will with the next look at its file.
    is_doomed: bool,
    /// The next write fails.
    is_armed: bool,
    /// The model does not know what is left of the file.
    is_lost: bool,
    is_named: bool,
    is_followed: bool,
    n_bytes_since_title: u64,
    /// Bytes of a line but for its text and its parent.
    n_bytes_fixed: usize,
}

impl World {
    fn new() -> Self {
        let rig = Rig::new();
        let recorder = rig.begin();
        answer(recorder.append_strict(user(""))).unwrap();
        let n_bytes_fixed = rig.bytes().len() - "null".len();
        let rig = Rig::new();
        let recorder = rig.begin();
        Self {
            rig,
            recorder,
            lines: Vec::new(),
            n_notices: 0,
            is_doomed: false,
            is_armed: false,
            is_lost: false,
            is_named: false,
            is_followed: false,
            n_bytes_since_title: 0,
            n_bytes_fixed,
        }
    }

    fn is_degraded(&self) -> bool {
        self.recorder.report().state == RecordingState::Degraded
    }

    fn take(&mut self, step: Step) {
        let exists = self.rig.path().exists();
        match step {
            Step::Append(sizes) => self.append(&sizes),
            Step::Flush => self.flush(),
            Step::Rename => self.rename(),
            Step::WriteFails(n_bytes) => {
                self.rig
                    .disk
                    .fail_write(1, Fault::ShortWrite(n_bytes, Errno::NOSPC));
                self.is_armed = true;
            }
            Step::OtherAppends if exists => self.other(OTHERS, Line::Others),
            Step::OtherTears if exists => self.other(TORN, Line::Torn),
            Step::Cut(n_bytes) if exists => self.cut(n_bytes),
            Step::Unlink if exists => {
                fs::remove_file(self.rig.path()).unwrap();
                (self.is_doomed, self.is_lost) = (true, true);
            }
            Step::OtherAppends | Step::OtherTears | Step::Cut(_) | Step::Unlink => {}
            Step::Reopen => self.reopen(),
        }
    }

    fn append(&mut self, sizes: &[usize]) {
        let was_degraded = self.is_degraded();
        let sent: Vec<_> = sizes
            .iter()
            .map(|&size| self.recorder.append(user(&"x".repeat(size))))
            .collect();
        let flushed = answer(self.recorder.flush());
        if was_degraded || self.is_doomed {
            return assert!(flushed.is_err());
        }
        let mut expected = self.expect(&sent, sizes);
        if flushed.is_err() {
            // How the records were spread over writes is the recorder's affair; some of the first may
            // be there, and the notice says which is not.
            assert!(self.is_armed, "nothing fails without a reason: {flushed:?}");
            let n_there = self.found().len() - self.lines.len();
            let notice = self.rig.notices.lock().unwrap().last().unwrap().clone();
            if let Line::Ours(first_lost) = &expected[n_there] {
                assert_eq!(notice.first_lost_uuid.as_ref(), Some(first_lost));
            }
            expected.truncate(n_there);
            self.is_doomed = true;
        } else {
            assert!(!self.is_armed, "an armed write fails");
        }
        self.lines.extend(expected);
    }

    /// The lines of these records, the title among them where it is repeated.
    fn expect(&mut self, sent: &[String], sizes: &[usize]) -> Vec<Line> {
        let mut lines = Vec::new();
        for (uuid, size) in sent.iter().zip(sizes) {
            let n_before = self.lines.len() + lines.len();
            let parent = if n_before == 0 { 4 } else { 38 };
            lines.push(Line::Ours(uuid.clone()));
            self.is_followed = true;
            self.n_bytes_since_title += (self.n_bytes_fixed + parent + size) as u64;
            if self.is_named && self.n_bytes_since_title >= TITLE_ANCHOR_BYTES {
                lines.push(Line::Title);
                (self.is_followed, self.n_bytes_since_title) = (false, 0);
            }
        }
        lines
    }

    /// What is in the file.
    fn found(&self) -> Vec<Line> {
        self.rig
            .bytes()
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(kind)
            .collect()
    }

    fn flush(&mut self) {
        let flushed = answer(self.recorder.flush());
        assert_eq!(flushed.is_err(), self.must_fail(), "{flushed:?}");
    }

    fn rename(&mut self) {
        let title = Title {
            text: "name".to_owned(),
            source: TitleSource::Auto,
        };
        let renamed = answer(self.recorder.rename(title));
        if self.must_fail() {
            return assert!(renamed.is_err());
        }
        assert_eq!(renamed.is_err(), self.is_armed);
        if self.is_armed {
            self.is_doomed = true;
        } else {
            self.lines.push(Line::Title);
            (self.is_named, self.is_followed) = (true, false);
            self.n_bytes_since_title = 0;
        }
    }

    /// Before the first record, nothing is looked at.
    fn must_fail(&self) -> bool {
        self.is_doomed
    }

    fn other(&mut self, bytes: &[u8], line: Line) {
        let before = fs::read(self.rig.path()).unwrap();
        let mut file = OpenOptions::new()
            .append(true)
            .open(self.rig.path())
            .unwrap();
        // A careful stranger, so that lines stay lines.
        if !before.is_empty() && !before.ends_with(b"\n") {
            file.write_all(b"\n").unwrap();
        }
        file.write_all(bytes).unwrap();
        self.lines.push(line);
    }

    /// The recorder looks before and after: what others make up for in between, nobody can know.
    fn cut(&mut self, n_bytes: u64) {
        let was_sound = answer(self.recorder.flush()).is_ok();
        let file = OpenOptions::new()
            .write(true)
            .open(self.rig.path())
            .unwrap();
        let size = file.metadata().unwrap().len();
        file.set_len(size.saturating_sub(n_bytes)).unwrap();
        self.is_lost = true;
        if was_sound && size > 0 {
            assert!(answer(self.recorder.flush()).is_err());
            self.is_doomed = true;
        }
    }

    fn reopen(&mut self) {
        let was_sound = !self.is_degraded() && !self.is_doomed;
        let has_written = !self.lines.is_empty();
        let closed = answer(self.recorder.close());
        if was_sound && has_written && self.is_named && self.is_followed {
            // The last title is a write as well.
            assert_eq!(closed.is_err(), self.is_armed);
            if !self.is_armed {
                self.lines.push(Line::Title);
            }
        }
        self.check();
        if self.is_lost || !self.rig.path().exists() || self.is_degraded() {
            // A new session in a new place.
            *self = Self::new();
            return;
        }
        if self.is_armed {
            self.rig
                .disk
                .fail_write(1_000_000, Fault::Fails(Errno::NOSPC));
            self.is_armed = false;
        }
        let loaded = transcript::reader::load(&self.rig.path()).unwrap();
        // A torn tail is cut when the session goes on; the reader has passed over it.
        let is_torn = self.lines.last() == Some(&Line::Torn);
        self.recorder = self.rig.start(Start::Resume {
            tail: loaded.tail,
            title: None,
            lock: None,
        });
        (self.is_named, self.is_followed) = (false, false);
        let first = answer(self.recorder.append_strict(user("first")));
        first.unwrap();
        if is_torn {
            self.lines.pop();
        }
        let uuid = self.recorder.report().last_record_uuid.unwrap();
        self.lines.push(Line::Ours(uuid));
        self.is_followed = true;
    }

    fn check(&mut self) {
        let report = self.recorder.report();
        let is_degraded = report.state == RecordingState::Degraded;
        self.n_notices = self.rig.n_notices();
        assert_eq!(self.n_notices, usize::from(is_degraded), "{report:?}");
        if is_degraded {
            self.is_doomed = true;
        }
        if self.is_lost {
            return;
        }
        let found = self.found();
        assert_eq!(found, self.lines);
        let bytes = self.rig.bytes();
        let whole: Vec<u8> = bytes
            .split_inclusive(|&byte| byte == b'\n')
            .filter(|line| kind(line.trim_ascii_end()) != Line::Torn)
            .filter(|line| kind(line.trim_ascii_end()) != Line::Others)
            .flatten()
            .copied()
            .collect();
        let ours = lines_of(&whole);
        assert_eq!(
            report.last_record_uuid,
            uuids_of(&ours).pop(),
            "the last record of ours"
        );
        if !found.contains(&Line::Others) {
            assert_chain(&ours);
        }
    }
}

/// What a line of the file is.
fn kind(line: &[u8]) -> Line {
    if line == TORN {
        return Line::Torn;
    }
    if line == OTHERS.trim_ascii_end() {
        return Line::Others;
    }
    let line = &lines_of(&[line, b"\n"].concat())[0];
    if line["subtype"] == "custom_title" {
        return Line::Title;
    }
    Line::Ours(line["uuid"].as_str().unwrap().to_owned())
}

proptest! {
    // What failed is printed; nothing is written into the tree.
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_recorder_does_what_its_model_does(steps in prop::collection::vec(step(), 1..25)) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
            world.check();
        }
        // Dropped: how it ended is what the check judges.
        _ = answer(world.recorder.close());
        let report = world.recorder.report();
        prop_assert_ne!(report.state, RecordingState::Pending);
        prop_assert_ne!(report.class, Some(FaultClass::Other));
    }
}
