//! What a failure does, to whom, and in which order (R1–R3, R8, R28, B4, B7).

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver},
    },
    time::{Duration, Instant},
};

use rustix::io::Errno;
use testkit::fault_disk::{Fault, Plan};
use tokio::runtime;
use transcript::{
    local_log::{Entry, LocalLog},
    recorder::{NotSaved, Recorder, RecordingFailure, Start},
};
use wire::{
    limits::LOCAL_LOG_BYTES_MAX,
    recording::{FaultClass, RecordingState},
};

use crate::rig::{Rig, SESSION, WAIT, answer, user};

/// A recorder that has written one record, and writes no other.
fn broken() -> (Rig, Recorder) {
    let rig = Rig::new();
    let recorder = rig.begin();
    answer(recorder.append_strict(user("one"))).unwrap();
    rig.disk.set_plan(Plan::From(1, Fault::Fails(Errno::NOSPC)));
    (rig, recorder)
}

fn failure(answer: Result<(), NotSaved>) -> Arc<RecordingFailure> {
    match answer {
        Err(NotSaved::Failed(failure)) => failure,
        other => panic!("{other:?} is no failure"),
    }
}

/// Waits until the writer has let go of the disk.
fn wait_for_writer(rig: &Rig) {
    let began = Instant::now();
    while rig.disk.is_in_use() {
        assert!(began.elapsed() < WAIT, "the writer ends");
        std::thread::yield_now();
    }
}

/// Invariant 1: R1, R3.
#[test]
fn the_first_failed_write_is_the_last_and_is_told_once() {
    let (rig, recorder) = broken();
    let before = rig.bytes();
    let lost = recorder.append(user("two"));
    recorder.append(user("three"));
    let first = failure(answer(recorder.flush()));
    assert_eq!(first.session_id, SESSION, "R2");
    assert_eq!(first.class, FaultClass::StorageFull);
    assert_eq!(first.first_lost_uuid, Some(lost));

    // The disk heals; the recorder does not.
    rig.disk.set_plan(Plan::Sound);
    let n_calls = rig.disk.calls().len();
    assert!(!recorder.append(user("four")).is_empty());
    recorder.finalize();
    for ticket in [
        recorder.append_strict(user("five")),
        recorder.flush(),
        recorder.flush(),
        recorder.close(),
        recorder.close(),
        recorder.flush(),
    ] {
        assert!(Arc::ptr_eq(&failure(answer(ticket)), &first));
    }
    assert_eq!(rig.disk.calls().len(), n_calls);
    assert_eq!(rig.bytes(), before);
    assert_eq!(*rig.notices.lock().unwrap(), [(*first).clone()]);
    assert_eq!(recorder.report().state, RecordingState::Degraded);
    assert_eq!(recorder.report().last_record_uuid, rig.uuids().pop());
}

/// Invariant 2: R3, R10.
#[test]
fn the_state_comes_first_then_the_listener_then_the_answers_then_the_log() {
    let rig = Rig::new();
    let (told, news) = mpsc::channel();
    let (go_on, held): (_, Receiver<()>) = mpsc::channel();
    let recorder = Recorder::start(rig.options(Start::New), move |_failure| {
        told.send(()).unwrap();
        held.recv().unwrap();
    });
    answer(recorder.append_strict(user("one"))).unwrap();
    rig.disk.set_plan(Plan::From(1, Fault::Fails(Errno::IO)));
    let states = recorder.watch();
    let flush = recorder.append_strict(user("two"));
    news.recv_timeout(WAIT).unwrap();
    assert_eq!(*states.borrow(), RecordingState::Degraded);
    let late = recorder.flush();
    assert!(
        recorder.flush().wait_blocking(Duration::ZERO).is_none(),
        "nobody is answered before the listener is done"
    );
    assert!(rig.log().read_all().is_empty());
    go_on.send(()).unwrap();
    failure(answer(flush));
    failure(answer(late));
    failure(answer(recorder.close()));
    assert_eq!(rig.log().read_all().len(), 1, "closed means logged as well");
}

/// R8.
#[test]
fn a_panic_of_the_listener_disturbs_nobody() {
    let rig = Rig::new();
    let recorder = Recorder::start(rig.options(Start::New), |_failure| {
        // No message, so that the test's output stays quiet.
        std::panic::resume_unwind(Box::new(()));
    });
    answer(recorder.append_strict(user("one"))).unwrap();
    rig.disk.set_plan(Plan::From(1, Fault::Fails(Errno::IO)));
    recorder.append(user("two"));
    failure(answer(recorder.flush()));
    failure(answer(recorder.close()));
    assert_eq!(rig.log().read_all().len(), 1);
}

/// A strict record that is on disk is not called lost because of another one.
#[test]
fn a_record_on_disk_is_confirmed_though_a_later_one_fails() {
    let rig = Rig::new();
    let recorder = rig.begin();
    answer(recorder.append_strict(user("one"))).unwrap();
    rig.disk.hold_writes();
    recorder.append(user("held"));
    rig.disk.wait_for_held_write();
    let kept = recorder.append_strict(user("kept"));
    let lost = recorder.append_strict(user(&"x".repeat(5_000)));
    rig.disk.fail_write(2, Fault::ShortWrite(2_000, Errno::IO));
    rig.disk.release_writes();
    answer(kept).unwrap();
    failure(answer(lost));
}

/// An interrupted write is repeated, but not for ever.
#[test]
fn interruptions_are_no_failure_unless_they_never_end() {
    let rig = Rig::new();
    let recorder = rig.begin();
    rig.disk.fail_write(1, Fault::Fails(Errno::INTR));
    answer(recorder.append_strict(user("one"))).unwrap();
    assert_eq!(rig.lines().len(), 1);
    rig.disk.set_plan(Plan::From(1, Fault::Fails(Errno::INTR)));
    recorder.append(user("two"));
    failure(answer(recorder.flush()));
}

#[test]
fn a_write_of_nothing_is_a_failure() {
    let rig = Rig::new();
    let recorder = rig.begin();
    answer(recorder.append_strict(user("one"))).unwrap();
    rig.disk.fail_write(1, Fault::ShortWrite(0, Errno::NOSPC));
    recorder.append(user("two"));
    failure(answer(recorder.flush()));
    assert_eq!(rig.lines().len(), 1);
}

/// B7.
#[test]
fn a_queue_that_stays_full_stalls_the_recorder() {
    let mut rig = Rig::new();
    rig.bounds.queue_bytes_max = 10_000;
    rig.bounds.append_wait_max = Duration::from_millis(50);
    let recorder = rig.begin();
    answer(recorder.append_strict(user("one"))).unwrap();
    rig.disk.hold_writes();
    let in_flight = recorder.append(user("two"));
    rig.disk.wait_for_held_write();
    let flush = recorder.flush();
    let began = Instant::now();
    while recorder.report().state == RecordingState::Pending {
        recorder.append(user(&"x".repeat(3_000)));
        assert!(began.elapsed() < WAIT);
    }
    assert!(began.elapsed() >= rig.bounds.append_wait_max);
    // The writer is stuck all the while.
    let failure = failure(answer(flush));
    assert_eq!(failure.class, FaultClass::Stalled);
    assert_eq!(failure.first_lost_uuid.as_deref(), Some(&*in_flight));
    assert_eq!(rig.n_notices(), 1);
    assert!(answer(recorder.close()).is_err());
    assert_eq!(rig.log().read_all().len(), 1);

    rig.disk.release_writes();
    drop(recorder);
    wait_for_writer(&rig);
    // What was in the writer's hands is whole; nothing follows it.
    assert_eq!(rig.lines().len(), 2);
    assert_eq!(rig.n_notices(), 1);
}

/// A recorder whose writer is stuck in a write, and which has given it up.
fn stalled() -> (Rig, Recorder) {
    let mut rig = Rig::new();
    rig.bounds.queue_bytes_max = 1;
    rig.bounds.append_wait_max = Duration::from_millis(20);
    let recorder = rig.begin();
    answer(recorder.append_strict(user("one"))).unwrap();
    rig.disk.hold_writes();
    recorder.append(user("two"));
    rig.disk.wait_for_held_write();
    recorder.append(user("three"));
    assert_eq!(recorder.report().class, Some(FaultClass::Stalled));
    (rig, recorder)
}

/// B7: a stalled writer that comes back cuts its torn tail and writes nothing more.
#[test]
fn a_writer_that_comes_back_too_late_only_cleans_up() {
    let (rig, _recorder) = stalled();
    rig.disk.fail_write(1, Fault::Short(50));
    rig.disk.release_writes();
    wait_for_writer(&rig);
    assert_eq!(rig.lines().len(), 1);
}

/// R3: the stall was first.
#[test]
fn a_writer_that_fails_too_late_changes_nothing() {
    let (rig, recorder) = stalled();
    rig.disk.fail_write(1, Fault::Fails(Errno::NOSPC));
    rig.disk.release_writes();
    wait_for_writer(&rig);
    assert_eq!(failure(answer(recorder.flush())).class, FaultClass::Stalled);
    assert!(answer(recorder.close()).is_err());
    assert_eq!(rig.n_notices(), 1);
    assert_eq!(rig.log().read_all().len(), 1);
}

#[test]
fn a_disk_that_takes_a_few_bytes_at_a_time_is_no_failure() {
    let rig = Rig::with_plan(Plan::From(1, Fault::Short(100)));
    let recorder = rig.begin();
    for n in 0..20 {
        recorder.append(user(&n.to_string()));
    }
    answer(recorder.close()).unwrap();
    assert_eq!(rig.lines().len(), 20);
}

/// B7: a slow disk that takes something again is no stall.
#[test]
fn a_full_queue_that_drains_lets_the_caller_go_on() {
    let mut rig = Rig::new();
    rig.bounds.queue_bytes_max = 2_000;
    let recorder = rig.begin();
    rig.disk.hold_writes();
    recorder.append(user("one"));
    rig.disk.wait_for_held_write();
    recorder.append(user(&"x".repeat(1_000)));
    let (waiting, disk) = (recorder.clone(), rig.disk.clone());
    let waiter = std::thread::spawn(move || waiting.append(user(&"y".repeat(1_000))));
    disk.release_writes();
    waiter.join().unwrap();
    // One that is larger than the whole queue is accepted when it is alone.
    answer(recorder.flush()).unwrap();
    answer(recorder.append_strict(user(&"z".repeat(5_000)))).unwrap();
    assert_eq!(rig.lines().len(), 4);
}

/// B7: a task that waits for room is not kept waiting for ever either.
#[test]
fn room_is_there_at_once_or_comes_or_the_recorder_stalls() {
    let mut rig = Rig::new();
    rig.bounds.queue_bytes_max = 4_000;
    rig.bounds.append_wait_max = Duration::from_millis(50);
    let recorder = rig.begin();
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(recorder.room());
    rig.disk.hold_writes();
    recorder.append(user("one"));
    rig.disk.wait_for_held_write();
    recorder.append(user(&"x".repeat(3_000)));
    runtime.block_on(recorder.room());
    assert_eq!(recorder.report().class, Some(FaultClass::Stalled));
    runtime.block_on(recorder.room());
    rig.disk.release_writes();
}

/// R28.
#[test]
fn what_is_shown_of_a_failure_holds_no_path_and_no_words_of_the_system() {
    let (rig, recorder) = broken();
    recorder.append(user("two"));
    let failure = failure(answer(recorder.flush()));
    let not_saved = NotSaved::Failed(Arc::clone(&failure));
    for text in [
        format!("{failure:?}"),
        format!("{failure}"),
        format!("{not_saved}"),
        format!("{not_saved:?}"),
    ] {
        assert!(text.contains("storage_full") || text.contains("StorageFull"));
        for secret in [
            rig.folder().to_str().unwrap(),
            "No space",
            "os error",
            ".jsonl",
        ] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

/// B4.
#[test]
fn the_local_log_has_what_the_notice_leaves_out() {
    let (rig, recorder) = broken();
    let lost = recorder.append(user("two"));
    answer(recorder.close()).unwrap_err();
    let entries = rig.log().read_all();
    assert_eq!(
        entries,
        [Entry {
            time: "2026-11-30T10:00:00.123Z".to_owned(),
            session_id: SESSION.to_owned(),
            state: RecordingState::Degraded,
            class: FaultClass::StorageFull,
            error: "No space left on device (os error 28)".to_owned(),
            errno: Some(28),
            path: Some(rig.path()),
            first_lost_uuid: Some(lost),
            last_record_uuid: rig.uuids().pop(),
        }]
    );
    let log = rig.folder().join("log");
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(log.join("recording.jsonl")), 0o600);
    assert_eq!(mode(log), 0o700);
}

fn entry(n: usize) -> Entry {
    Entry {
        time: format!("2026-11-30T10:00:00.{n:06}Z"),
        session_id: SESSION.to_owned(),
        state: RecordingState::NeverStarted,
        class: FaultClass::Other,
        error: "x".repeat(5_000),
        errno: None,
        path: None,
        first_lost_uuid: None,
        last_record_uuid: None,
    }
}

/// B4: the log often lies on the disk that failed.
#[test]
fn the_log_goes_to_the_first_folder_that_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    let blocked = folder.path().join("file");
    fs::write(&blocked, "").unwrap();
    let open = folder.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let target = folder.path().join("target");
    fs::create_dir(&target).unwrap();
    let linked = folder.path().join("linked");
    symlink(&target, &linked).unwrap();
    let private = folder.path().join("a/b");
    let log = LocalLog::new(vec![
        blocked.join("log"),
        open.clone(),
        linked,
        private.clone(),
    ]);
    assert!(log.append(&entry(1)));
    assert_eq!(log.read_all().len(), 1);
    assert!(private.join("recording.jsonl").exists());
    for unused in [open, target] {
        assert_eq!(fs::read_dir(unused).unwrap().count(), 0);
    }
    assert!(!LocalLog::new(Vec::new()).append(&entry(1)));
}

#[test]
fn a_log_that_is_a_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let log = folder.path().join("log");
    fs::create_dir(&log).unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&precious, log.join("recording.jsonl")).unwrap();
    assert!(!LocalLog::new(vec![log]).append(&entry(1)));
    assert_eq!(fs::read(precious).unwrap(), b"precious");
}

/// B4.
#[test]
fn the_log_is_bounded_and_keeps_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let log = LocalLog::new(vec![folder.path().join("log")]);
    let n_entries = 1_500;
    for n in 0..n_entries {
        assert!(log.append(&entry(n)));
        let size = fs::metadata(folder.path().join("log/recording.jsonl"));
        assert!(size.unwrap().len() <= LOCAL_LOG_BYTES_MAX);
    }
    let entries = log.read_all();
    assert!(entries.len() > 300);
    let times: Vec<_> = entries.into_iter().map(|entry| entry.time).collect();
    let newest: Vec<_> = (n_entries - times.len()..n_entries)
        .map(|n| entry(n).time)
        .collect();
    assert_eq!(times, newest);
    assert_eq!(fs::read_dir(folder.path().join("log")).unwrap().count(), 1);
}

/// The listener is called on the thread that found the failure, and may use the recorder.
#[test]
fn a_listener_may_ask_the_recorder() {
    let rig = Rig::new();
    let handle: Arc<Mutex<Option<Recorder>>> = Arc::default();
    let (own, heard) = (Arc::clone(&handle), Arc::new(Mutex::new(None)));
    let report = Arc::clone(&heard);
    let recorder = Recorder::start(rig.options(Start::New), move |_failure| {
        // Taken out, so that the last handle may go on the writer's own thread.
        let recorder = own.lock().unwrap().take().unwrap();
        recorder.append(user("unheard"));
        *report.lock().unwrap() = Some(recorder.report());
    });
    rig.disk.hold_writes();
    rig.disk.fail_write(1, Fault::Fails(Errno::IO));
    let flush = recorder.append_strict(user("one"));
    *handle.lock().unwrap() = Some(recorder);
    rig.disk.release_writes();
    failure(answer(flush));
    let report = heard.lock().unwrap().clone().unwrap();
    assert_eq!(report.state, RecordingState::Degraded);
}
