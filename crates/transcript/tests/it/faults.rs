//! Every call of the recorder to its disk fails once, and for good, in every scenario. Whatever
//! fails: the file is a valid prefix, who is told is told once, and the report is the truth (R1–R4,
//! B1, B3).

use rustix::io::Errno;
use serde_json::Value;
use testkit::fault_disk::{Call, Fault, Plan};
use transcript::{
    reader::load,
    record::{Title, TitleSource},
    recorder::{Recorder, Start},
    verify::verify,
};
use wire::recording::RecordingState;

use crate::rig::{Rig, WAIT, assert_chain, assistant, is_title, lines_of, note, user, uuids_of};

/// What an earlier run left at the end of a file.
const EARLIER_FRAGMENT: &[u8] = b"{\"uuid\":\"torn";

/// A scenario prepares the place, records, and answers the ids of what it appended, in order.
type Scenario = fn(&Rig) -> (Recorder, Vec<String>);

fn flush(recorder: &Recorder) {
    // Dropped: whether it failed is what the check finds out.
    _ = recorder.flush().wait_blocking(WAIT).unwrap();
}

fn title(text: &str) -> Title {
    Title {
        text: text.to_owned(),
        source: TitleSource::Manual,
    }
}

fn three_turns(rig: &Rig) -> (Recorder, Vec<String>) {
    let recorder = rig.begin();
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(recorder.append(user(&format!("question {n}"))));
        flush(&recorder);
        ids.push(recorder.append(assistant("answer")));
        flush(&recorder);
    }
    (recorder, ids)
}

/// What an earlier run left, as recorded by a recorder on a sound disk.
fn leave_session(rig: &Rig, tail: &[u8]) -> Option<String> {
    let earlier = Rig::new();
    let recorder = earlier.begin();
    recorder.append(user("question"));
    let last = recorder.append(assistant("answer"));
    recorder.close().wait_blocking(WAIT).unwrap().unwrap();
    rig.put(&[&earlier.bytes(), tail].concat());
    Some(last)
}

fn go_on(rig: &Rig, tail: Option<String>, title: Option<Title>) -> (Recorder, Vec<String>) {
    let recorder = rig.start(Start::Resume {
        tail,
        title,
        lock: None,
    });
    let mut ids = vec![recorder.append(user("more"))];
    flush(&recorder);
    ids.push(recorder.append(assistant("more")));
    (recorder, ids)
}

fn resumed(rig: &Rig) -> (Recorder, Vec<String>) {
    let tail = leave_session(rig, b"");
    go_on(rig, tail, Some(title("name")))
}

fn resumed_torn(rig: &Rig) -> (Recorder, Vec<String>) {
    let tail = leave_session(rig, EARLIER_FRAGMENT);
    go_on(rig, tail, None)
}

fn renamed(rig: &Rig) -> (Recorder, Vec<String>) {
    let recorder = rig.begin();
    let mut ids = vec![recorder.append(user("question"))];
    // Dropped: whether it failed is what the check finds out.
    _ = recorder.rename(title("name")).wait_blocking(WAIT).unwrap();
    ids.push(recorder.append(assistant("answer")));
    (recorder, ids)
}

fn anchored(rig: &Rig) -> (Recorder, Vec<String>) {
    let (recorder, mut ids) = renamed(rig);
    for _ in 0..5 {
        ids.push(recorder.append(user(&"x".repeat(10 << 10))));
        flush(&recorder);
    }
    (recorder, ids)
}

fn closed_at_once(rig: &Rig) -> (Recorder, Vec<String>) {
    let recorder = rig.begin();
    let ids = vec![recorder.append(user("question"))];
    (recorder, ids)
}

fn flushed_often(rig: &Rig) -> (Recorder, Vec<String>) {
    let recorder = rig.begin();
    flush(&recorder);
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(recorder.append(note(&format!("{{\"n\":{n}}}"))));
        for _ in 0..3 {
            flush(&recorder);
        }
    }
    (recorder, ids)
}

fn one_big_batch(rig: &Rig) -> (Recorder, Vec<String>) {
    let recorder = rig.begin();
    let mut ids = vec![recorder.append(user("question"))];
    flush(&recorder);
    // More than one write takes.
    ids.extend((0..6).map(|_| recorder.append(user(&"y".repeat(200_000)))));
    flush(&recorder);
    ids.push(recorder.append(assistant("answer")));
    (recorder, ids)
}

const SCENARIOS: [(&str, Scenario); 8] = [
    ("three turns", three_turns),
    ("resumed", resumed),
    ("resumed torn", resumed_torn),
    ("renamed", renamed),
    ("anchored", anchored),
    ("closed at once", closed_at_once),
    ("flushed often", flushed_often),
    ("one big batch", one_big_batch),
];

/// Runs a scenario under a plan and judges what is left; answers whether the plan was reached.
fn run(name: &str, scenario: Scenario, plan: Plan) -> bool {
    let rig = Rig::with_plan(plan);
    let (recorder, appended) = scenario(&rig);
    let closed = recorder.close().wait_blocking(WAIT);
    let closed = closed.unwrap_or_else(|| panic!("{name}, {plan:?}: close hangs"));
    let report = recorder.report();
    let failed_call = rig.disk.failed_call();
    let what = format!("{name}, {plan:?} at {failed_call:?}: {report:?}");

    let lines = whole_lines(&rig, plan, &what);
    assert_chain(&lines);
    let own: Vec<String> = uuids_of(&lines)
        .into_iter()
        .filter(|uuid| appended.contains(uuid))
        .collect();
    assert_eq!(own, appended[..own.len()], "{what}: a prefix in order");
    assert_eq!(
        report.last_record_uuid,
        uuids_of(&lines).pop(),
        "{what}: the report names the last record"
    );

    let is_all_there = own.len() == appended.len();
    match report.state {
        RecordingState::Saved => {
            assert!(is_all_there && closed.is_ok(), "{what}: all is saved");
            assert_eq!(rig.n_notices(), 0, "{what}");
        }
        RecordingState::NeverStarted => {
            assert!(own.is_empty() && closed.is_err(), "{what}");
            assert_eq!(rig.n_notices(), 0, "{what}: no notice before the start");
        }
        RecordingState::Degraded => {
            assert!(closed.is_err(), "{what}");
            assert_eq!(rig.n_notices(), 1, "{what}: one notice");
            // Where nobody can look whether a file is in its place, nobody knows that it is. A title
            // is none of the appended records.
            let may_be_whole = matches!(failed_call, Some(Call::Stat | Call::FileStat));
            let lost_title = name == "renamed" || name == "anchored" || name == "resumed";
            assert!(!is_all_there || may_be_whole || lost_title, "{what}");
        }
        RecordingState::Pending | RecordingState::Off => panic!("{what}: undecided"),
    }
    failed_call.is_some()
}

/// The lines of what is left. A torn tail may only stay where the disk refused everything after it,
/// and the one that was there before where it could not be cut.
fn whole_lines(rig: &Rig, plan: Plan, what: &str) -> Vec<Value> {
    let mut lines: Vec<Vec<u8>> = rig
        .bytes()
        .split_inclusive(|&byte| byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let n_all = lines.len();
    lines.retain(|line| !line.starts_with(EARLIER_FRAGMENT));
    if lines.last().is_some_and(|line| !line.ends_with(b"\n")) {
        assert!(
            matches!(plan, Plan::From(..)),
            "{what}: a torn tail is left behind"
        );
        lines.pop();
    }
    if lines.len() == n_all && n_all > 0 {
        assert_readable(rig, what);
    }
    lines_of(&lines.concat())
}

/// Reading finds no damage, and on the chain everything but titles repeated beside it.
fn assert_readable(rig: &Rig, what: &str) {
    assert!(verify(&rig.path()).unwrap().sound(), "{what}: it is sound");
    let loaded = load(&rig.path()).unwrap();
    let chain: Vec<_> = loaded.records.iter().map(|record| &*record.uuid).collect();
    for line in rig.lines() {
        let is_on_chain = chain.contains(&line["uuid"].as_str().unwrap());
        assert!(is_on_chain || is_title(&line), "{what}: {line}");
    }
}

fn sweep(fault: Fault, plan: fn(usize, Fault) -> Plan) {
    for (name, scenario) in SCENARIOS {
        let mut n_call = 1;
        while run(name, scenario, plan(n_call, fault)) {
            n_call += 1;
        }
        assert!(n_call > 5, "{name} makes calls");
    }
}

#[test]
fn any_call_may_fail_once() {
    sweep(Fault::Fails(Errno::NOSPC), Plan::Once);
}

#[test]
fn any_call_may_fail_for_good() {
    sweep(Fault::Fails(Errno::IO), Plan::From);
}

#[test]
fn any_write_may_be_short_once() {
    sweep(Fault::ShortWrite(100, Errno::NOSPC), Plan::Once);
}

#[test]
fn any_write_may_be_short_before_the_disk_dies() {
    sweep(Fault::ShortWrite(700, Errno::IO), Plan::From);
}
