//! The file is the one at its path (B2), its end is mended (B3), and another writer's bytes are left
//! alone (R5).

use std::{
    fs::{self, OpenOptions},
    io::Write,
};

use rustix::io::Errno;
use testkit::fault_disk::Fault;
use transcript::{
    local_log::LocalLog,
    recorder::{NotSaved, Recorder, Start},
};
use wire::{
    limits::FRAGMENT_BYTES_MAX,
    recording::{FaultClass, RecordingState},
};

use crate::rig::{Rig, SESSION, answer, lines_of, user};

/// A recorder that has written one record.
fn begun() -> (Rig, Recorder) {
    let rig = Rig::new();
    let recorder = rig.begin();
    answer(recorder.append_strict(user("one"))).unwrap();
    (rig, recorder)
}

fn assert_gone(rig: &Rig, recorder: &Recorder) {
    let failed = answer(recorder.flush());
    assert!(matches!(failed, Err(NotSaved::Failed(_))), "{failed:?}");
    let report = recorder.report();
    assert_eq!(report.state, RecordingState::Degraded);
    assert_eq!(report.class, Some(FaultClass::Gone));
    assert_eq!(report.last_record_uuid, None, "nobody knows what is left");
    assert_eq!(rig.n_notices(), 1);
    assert!(answer(recorder.close()).is_err());
    assert_eq!(rig.n_notices(), 1);
}

fn append(rig: &Rig, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(rig.path()).unwrap();
    file.write_all(bytes).unwrap();
}

const OTHERS: &str = "{\"uuid\":\"other\",\"sessionId\":\"s\",\"type\":\"user\"}\n";

fn resume(rig: &Rig) -> Recorder {
    rig.start(Start::Resume {
        tail: None,
        title: None,
        lock: None,
    })
}

#[test]
fn an_unlinked_file_is_a_failed_write() {
    let (rig, recorder) = begun();
    fs::remove_file(rig.path()).unwrap();
    let lost = recorder.append(user("two"));
    assert_gone(&rig, &recorder);
    assert_eq!(rig.notices.lock().unwrap()[0].first_lost_uuid, Some(lost));
    assert!(!rig.path().exists());
}

#[test]
fn a_flush_alone_finds_that_the_file_is_gone() {
    let (rig, recorder) = begun();
    fs::remove_file(rig.path()).unwrap();
    assert_gone(&rig, &recorder);
}

#[test]
fn a_close_alone_finds_that_the_file_is_gone() {
    let (rig, recorder) = begun();
    fs::remove_file(rig.path()).unwrap();
    assert!(answer(recorder.close()).is_err());
    assert_eq!(rig.n_notices(), 1);
}

#[test]
fn a_removed_folder_is_a_failed_write() {
    let (rig, recorder) = begun();
    fs::remove_dir_all(rig.folder().join("projects")).unwrap();
    recorder.append(user("two"));
    assert_gone(&rig, &recorder);
}

#[test]
fn a_file_moved_away_is_a_failed_write() {
    let (rig, recorder) = begun();
    let elsewhere = rig.folder().join("elsewhere.jsonl");
    fs::rename(rig.path(), &elsewhere).unwrap();
    recorder.append(user("two"));
    assert_gone(&rig, &recorder);
    assert_eq!(lines_of(&fs::read(elsewhere).unwrap()).len(), 1);
}

#[test]
fn a_file_renamed_over_ours_is_a_failed_write_and_is_left_alone() {
    let (rig, recorder) = begun();
    let other = rig.folder().join("other.jsonl");
    fs::write(&other, OTHERS).unwrap();
    fs::rename(&other, rig.path()).unwrap();
    recorder.append(user("two"));
    assert_gone(&rig, &recorder);
    assert_eq!(rig.bytes(), OTHERS.as_bytes());
}

/// B2: both files have a name and a link.
#[test]
fn another_file_in_its_place_is_a_failed_write_and_is_left_alone() {
    let (rig, recorder) = begun();
    fs::rename(rig.path(), rig.folder().join("elsewhere.jsonl")).unwrap();
    fs::write(rig.path(), OTHERS.repeat(10)).unwrap();
    recorder.append(user("two"));
    assert_gone(&rig, &recorder);
    assert_eq!(rig.bytes(), OTHERS.repeat(10).as_bytes());
}

/// B2, R27: a flush answers for the file at the path, not for the write.
#[test]
fn a_file_that_goes_during_the_write_is_found_before_the_answer() {
    let (rig, recorder) = begun();
    rig.disk.hold_writes();
    let lost = recorder.append(user("two"));
    let flush = recorder.flush();
    rig.disk.wait_for_held_write();
    fs::remove_file(rig.path()).unwrap();
    rig.disk.release_writes();
    assert!(answer(flush).is_err());
    assert_gone(&rig, &recorder);
    assert_eq!(rig.notices.lock().unwrap()[0].first_lost_uuid, Some(lost));
}

#[test]
fn a_folder_in_its_place_is_a_failed_write() {
    let (rig, recorder) = begun();
    fs::remove_file(rig.path()).unwrap();
    fs::create_dir(rig.path()).unwrap();
    recorder.append(user("two"));
    assert_gone(&rig, &recorder);

    let rig = Rig::new();
    fs::create_dir_all(rig.path()).unwrap();
    let recorder = resume(&rig);
    recorder.append(user("two"));
    assert_gone(&rig, &recorder);
}

#[test]
fn a_truncated_file_is_a_failed_write() {
    let (rig, recorder) = begun();
    let file = OpenOptions::new().write(true).open(rig.path()).unwrap();
    file.set_len(10).unwrap();
    recorder.append(user("two"));
    assert_gone(&rig, &recorder);
    assert_eq!(rig.bytes().len(), 10);
}

#[test]
fn a_resumed_file_that_is_not_there_is_a_failed_write() {
    let rig = Rig::new();
    let recorder = resume(&rig);
    recorder.append(user("one"));
    assert_gone(&rig, &recorder);
    assert!(!rig.path().exists(), "none is made in its place");
}

#[test]
fn a_fifo_in_the_file_s_place_holds_nobody() {
    let rig = Rig::new();
    fs::create_dir_all(rig.path().parent().unwrap()).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        rig.path(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let recorder = resume(&rig);
    recorder.append(user("one"));
    assert_gone(&rig, &recorder);
}

/// R5.
#[test]
fn another_writer_s_records_are_no_failure() {
    let (rig, recorder) = begun();
    append(&rig, OTHERS.as_bytes());
    answer(recorder.append_strict(user("two"))).unwrap();
    append(&rig, OTHERS.as_bytes());
    answer(recorder.flush()).unwrap();
    answer(recorder.append_strict(user("three"))).unwrap();
    let lines = rig.lines();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[4]["parentUuid"], lines[2]["uuid"]);
    answer(recorder.close()).unwrap();
}

#[test]
fn what_another_writer_left_torn_swallows_no_record() {
    let (rig, recorder) = begun();
    append(&rig, b"{\"uuid\":\"tor");
    recorder.append(user("two"));
    recorder.append(user("three"));
    answer(recorder.close()).unwrap();
    let text = String::from_utf8(rig.bytes()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[1], "{\"uuid\":\"tor");
}

/// B3.
#[test]
fn a_torn_tail_is_cut_back_to_the_last_whole_record() {
    let (rig, recorder) = begun();
    let before = rig.bytes();
    rig.disk.fail_write(1, Fault::ShortWrite(50, Errno::NOSPC));
    let lost = recorder.append(user("two"));
    recorder.append(user("three"));
    assert!(answer(recorder.close()).is_err());
    assert_eq!(rig.bytes(), before);
    let notice = rig.notices.lock().unwrap()[0].clone();
    assert_eq!(notice.class, FaultClass::StorageFull);
    assert_eq!(notice.first_lost_uuid, Some(lost));
    assert_eq!(notice.last_record_uuid, rig.uuids().pop());
}

/// B3: every record of a batch that is on disk in full stays, and counts.
#[test]
fn a_batch_that_breaks_in_the_middle_keeps_its_whole_records() {
    let (rig, recorder) = begun();
    rig.disk.hold_writes();
    recorder.append(user("held"));
    rig.disk.wait_for_held_write();
    let sent: Vec<_> = (0..5)
        .map(|_| recorder.append(user(&"x".repeat(45_000))))
        .collect();
    rig.disk
        .fail_write(2, Fault::ShortWrite(100_000, Errno::IO));
    rig.disk.release_writes();
    assert!(answer(recorder.close()).is_err());
    assert_eq!(rig.uuids()[2..], sent[..2]);
    let notice = rig.notices.lock().unwrap()[0].clone();
    assert_eq!(notice.last_record_uuid.as_ref(), Some(&sent[1]));
    assert_eq!(notice.first_lost_uuid.as_ref(), Some(&sent[2]));
}

/// B3: what another process appended behind a torn tail is not cut away.
#[test]
fn a_torn_tail_with_a_stranger_behind_it_is_not_cut() {
    let (rig, recorder) = begun();
    answer(recorder.flush()).unwrap();
    rig.disk.hold_writes();
    recorder.append(user("two"));
    rig.disk.wait_for_held_write();
    // The look before the write is over.
    append(&rig, OTHERS.as_bytes());
    rig.disk.fail_write(1, Fault::ShortWrite(50, Errno::IO));
    rig.disk.release_writes();
    assert!(answer(recorder.flush()).is_err());
    let bytes = rig.bytes();
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    assert_eq!(lines[1], OTHERS, "the stranger's record is whole");
    assert_eq!(lines[2].len(), 51, "the fragment is ended by a line end");
}

/// B3.
#[test]
fn a_whole_last_record_gets_its_line_end_before_anything_is_appended() {
    let rig = Rig::new();
    rig.put(OTHERS.trim_end().as_bytes());
    let recorder = resume(&rig);
    answer(recorder.append_strict(user("one"))).unwrap();
    assert!(rig.bytes().starts_with(OTHERS.as_bytes()));
    assert_eq!(rig.lines().len(), 2);
}

/// B3.
#[test]
fn a_fragment_is_cut_at_open_and_kept_beside_the_log() {
    let rig = Rig::new();
    let fragment = format!("{{\"uuid\":\"{}", "f".repeat(100_000));
    rig.put(format!("{OTHERS}{fragment}").as_bytes());
    let recorder = resume(&rig);
    answer(recorder.append_strict(user("one"))).unwrap();
    assert!(rig.bytes().starts_with(OTHERS.as_bytes()));
    assert_eq!(rig.lines().len(), 2);
    let kept: Vec<_> = fs::read_dir(rig.folder().join("log/fragments"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .collect();
    assert_eq!(kept.len(), 1);
    let name = kept[0].file_name().into_string().unwrap();
    assert!(name.starts_with(&format!("{SESSION}-")), "{name}");
    assert_eq!(fs::read(kept[0].path()).unwrap(), fragment.as_bytes());
    assert_eq!(rig.n_notices(), 0);
}

#[test]
fn a_fragment_alone_in_its_file_is_cut_too() {
    let rig = Rig::new();
    rig.put(b"{\"uuid\":\"torn");
    let recorder = resume(&rig);
    answer(recorder.append_strict(user("one"))).unwrap();
    assert_eq!(rig.lines().len(), 1);
}

#[test]
fn a_long_fragment_is_kept_in_part() {
    let rig = Rig::new();
    rig.put(&vec![b'x'; FRAGMENT_BYTES_MAX + 10]);
    let recorder = resume(&rig);
    answer(recorder.append_strict(user("one"))).unwrap();
    let mut kept = fs::read_dir(rig.folder().join("log/fragments")).unwrap();
    let kept = kept.next().unwrap().unwrap();
    assert_eq!(kept.metadata().unwrap().len(), FRAGMENT_BYTES_MAX as u64);
}

/// B3: the last copy of a fragment is not destroyed.
#[test]
fn a_fragment_that_cannot_be_kept_is_ended_instead_of_cut() {
    let rig = Rig::new();
    rig.put(b"{\"uuid\":\"torn");
    let mut options = rig.options(Start::Resume {
        tail: None,
        title: None,
        lock: None,
    });
    options.log = LocalLog::new(Vec::new());
    let recorder = rig.start_with(options);
    answer(recorder.append_strict(user("one"))).unwrap();
    assert!(rig.bytes().starts_with(b"{\"uuid\":\"torn\n{\"uuid\":\""));
}

/// B3: what the reader can save of a broken line stays.
#[test]
fn a_record_glued_to_a_fragment_is_not_cut() {
    let rig = Rig::new();
    let glued = format!("{{\"uuid\":\"torn{}", OTHERS.trim_end());
    rig.put(glued.as_bytes());
    let recorder = resume(&rig);
    answer(recorder.append_strict(user("one"))).unwrap();
    assert!(rig.bytes().starts_with(format!("{glued}\n").as_bytes()));
}
