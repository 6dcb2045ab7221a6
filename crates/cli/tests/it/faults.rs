//! Real faults through the real binary, in every output format: what is on standard output, on
//! standard error, in the file, and how often and where people are told (R1–R5, R11, R12, R13,
//! R26–R28, B1–B3).

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::Value;
use testkit::{
    faults::{Immutable, OtherUser, SmallDisk, fsize_limit, shim},
    home::{Home, transcripts_under},
    run::{Outcome, run},
};
use wire::words;

use crate::world::{
    ONRECORD, command, degraded, messages, onrecord, onrecord_under, result, shell, transcript,
    valid_prefix, yolo,
};

const FORMATS: [&str; 3] = ["text", "json", "stream-json"];

/// What a command prints that makes a record larger than a page.
const MUCH: &str = "seq 1 3000";

/// Asserts R11 or R12, R26 and R28 of a run whose record failed in mid-turn.
fn assert_told_once(format: &str, ran: &Outcome, class: &str) {
    assert_eq!(ran.code, 0, "R26: {ran:?}");
    if format == "text" {
        assert_eq!(
            ran.stderr.matches(words::DEGRADED_LINE).count(),
            1,
            "R11: {ran:?}"
        );
        assert!(
            !ran.stdout.contains("Warning"),
            "standard output holds the answer alone"
        );
        assert!(
            !ran.stdout.trim().is_empty(),
            "the answer comes all the same"
        );
    } else {
        assert!(
            !ran.stderr.contains("Warning: recording"),
            "told once: {ran:?}"
        );
        let degraded = degraded(ran);
        assert_eq!(degraded.len(), 1, "R12: {ran:?}");
        let result = result(ran);
        let notice = &degraded[0];
        assert_eq!(notice["data"]["reason"], "write_failed");
        assert_eq!(notice["data"]["class"], class);
        assert_eq!(notice["session_id"], result["session_id"]);
        assert_eq!(notice["data"]["session_id"], result["session_id"]);
        assert_eq!(result["is_error"], false, "R26");
        assert_eq!(result["recording"]["state"], "degraded", "B1");
        assert_eq!(result["recording"]["class"], class);
        // What a tool said may name what it was given; what we say must not.
        assert_no_canary(&notice.to_string());
        assert_no_canary(&result["recording"].to_string());
    }
    let said: String = ran
        .stderr
        .lines()
        .filter(|line| !line.contains("yolo"))
        .collect();
    assert_no_canary(&said);
}

/// R28.
fn assert_no_canary(text: &str) {
    for canary in [
        "onrecord-home-",
        "onrecord-disk-",
        "os error",
        "ENOSPC",
        "errno",
        "/tmp",
    ] {
        assert!(!text.contains(canary), "R28: {text}");
    }
}

/// Invariant 4: R1, R26, B3.
#[test]
fn a_disk_that_fills_in_mid_turn_is_reported_once_and_leaves_a_valid_prefix() {
    for format in FORMATS {
        let home = Home::new();
        let Some(disk) = SmallDisk::with_size_kib(64) else {
            return;
        };
        let fill = format!(
            "head -c 1M /dev/zero > '{}/.filler'; {MUCH}",
            disk.path().display()
        );
        let mut command = home.command_under(&disk.fault(), ONRECORD);
        let ran = run(command
            .env("ONRECORD_HOME", disk.path())
            .args(yolo(format, &shell(&fill))));
        assert_told_once(format, &ran, "storage_full");
        let files = transcripts_under(&disk.after());
        let records = valid_prefix(&files[0]);
        assert_eq!(records[0]["type"], "user");
        assert_eq!(
            records.last().unwrap()["type"],
            "assistant",
            "the prefix ends before the result"
        );
    }
}

/// R4, B1: no inode is left for the first folder.
#[test]
fn a_disk_that_is_full_from_the_start_saves_nothing_and_says_so_at_the_end() {
    for format in FORMATS {
        let home = Home::new();
        let Some(disk) = SmallDisk::with_inodes(1) else {
            return;
        };
        let mut command = home.command_under(&disk.fault(), ONRECORD);
        let ran = run(command
            .env("ONRECORD_HOME", disk.path())
            .args(["--model", "offline", "-o", format, "-p", "hello"]));
        assert_never_started(format, &ran);
    }
}

fn assert_never_started(format: &str, ran: &Outcome) {
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_no_canary(&ran.stderr);
    if format == "text" {
        assert_eq!(
            ran.stderr.matches(words::NEVER_STARTED_LINE).count(),
            1,
            "{ran:?}"
        );
        assert!(!ran.stdout.trim().is_empty());
    } else {
        assert!(degraded(ran).is_empty(), "R4: no event: {ran:?}");
        let result = result(ran);
        assert_eq!(result["recording"]["state"], "never_started");
        assert_eq!(result["subtype"], "success");
    }
}

/// B1: what cannot be created is told, in every way in which it cannot.
#[test]
fn a_home_that_cannot_be_used_is_never_started_not_degraded() {
    for format in FORMATS {
        let home = Home::new();
        let file = home.path().join("file");
        fs::write(&file, "in the way").unwrap();
        let run_at = |data_root: Option<&Path>| {
            let mut command = command(&home);
            command.args(["--model", "offline", "-o", format, "-p", "hello"]);
            match data_root {
                Some(data_root) => command.env("ONRECORD_HOME", data_root),
                None => command.env_remove("ONRECORD_HOME").env_remove("HOME"),
            };
            run(&mut command)
        };
        assert_never_started(format, &run_at(Some(&file)));
        assert_never_started(format, &run_at(Some(&file.join("below"))));
        assert_never_started(format, &run_at(None));
        assert_never_started(format, &run_at(Some(Path::new("/proc/no-such-place"))));
    }
}

/// A limit on file size is an ordinary failed write, not a death by signal.
#[test]
fn a_file_size_limit_is_reported_as_too_large() {
    let Some(fault) = fsize_limit(4096) else {
        return;
    };
    for format in FORMATS {
        let home = Home::new();
        let ran = onrecord_under(&home, &fault, &yolo(format, &shell(MUCH)));
        assert_told_once(format, &ran, "too_large");
        let records = valid_prefix(&transcript(&home));
        assert_eq!(
            records.len(),
            2,
            "prompt and call are whole, the large result is cut away"
        );
    }
}

/// B2: what the kernel calls a success.
#[test]
fn a_transcript_that_goes_away_in_mid_turn_is_a_failed_write() {
    let each = "for f in \"$ONRECORD_HOME\"/projects/*/chats/*.jsonl; do";
    let ways = [
        ("unlinked", format!("{each} rm $f; done")),
        (
            "folder removed",
            "rm -rf \"$ONRECORD_HOME\"/projects".to_owned(),
        ),
        ("moved away", format!("{each} mv $f $f.bak; done")),
        (
            "replaced",
            format!("{each} cp $f copy; cp copy $f.new; mv $f.new $f; done"),
        ),
        (
            "directory in its place",
            format!("{each} rm $f; mkdir $f; done"),
        ),
        ("truncated", format!("{each} truncate -s 100 $f; done")),
    ];
    for (name, command) in ways {
        for format in FORMATS {
            let home = Home::new();
            let ran = onrecord(&home, &yolo(format, &shell(&command)));
            assert_told_once(format, &ran, "gone");
            if name == "replaced" {
                let copy = fs::read(home.workspace().join("copy")).unwrap();
                let left = fs::read(transcript(&home)).unwrap();
                assert_eq!(left, copy, "a file that is not ours is not touched");
            }
        }
    }
}

/// R5: a resumed session whose file cannot be written is told at once; the file stays as it is.
#[test]
fn an_immutable_transcript_is_a_failed_write_on_resume() {
    for format in FORMATS {
        let home = Home::new();
        onrecord(&home, &["--model", "offline", "-p", "hello"]);
        let path = transcript(&home);
        let before = fs::read(&path).unwrap();
        let Some(guard) = Immutable::new(&path) else {
            return;
        };
        let args = [
            "--model",
            "offline",
            "-o",
            format,
            "--continue",
            "-p",
            "hello again",
        ];
        let ran = onrecord(&home, &args);
        drop(guard);
        assert_told_once(format, &ran, "permission");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

/// case-C03: a data root of another user, for a user whom mode bits stop.
#[test]
fn a_read_only_folder_is_never_started_for_an_ordinary_user() {
    let Some(user) = OtherUser::new(Path::new(ONRECORD)) else {
        return;
    };
    for format in FORMATS {
        let home = Home::new();
        fs::create_dir(home.data_root()).unwrap();
        for (folder, mode) in [(home.path().to_owned(), 0o755), (home.data_root(), 0o555)] {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        }
        let mut command = home.command_under(&user.fault(), user.program());
        let ran = run(command.args(["--model", "offline", "-o", format, "-p", "hello"]));
        assert_never_started(format, &ran);
    }
}

/// R27: the last record of the report is the last one in the file.
#[test]
fn the_report_names_the_last_record_on_disk() {
    let Some(fault) = fsize_limit(4096) else {
        return;
    };
    let home = Home::new();
    let ran = onrecord_under(&home, &fault, &yolo("json", &shell(MUCH)));
    let records = valid_prefix(&transcript(&home));
    let last: &Value = &records.last().unwrap()["uuid"];
    assert_eq!(&result(&ran)["recording"]["lastRecordUuid"], last);
    assert_eq!(&degraded(&ran)[0]["data"]["lastRecordUuid"], last);
}

/// B3: the next run finds a whole prefix and goes on from it.
#[test]
fn a_session_whose_record_failed_can_be_continued_from_its_prefix() {
    let Some(fault) = fsize_limit(4096) else {
        return;
    };
    let home = Home::new();
    onrecord_under(&home, &fault, &yolo("text", &shell(MUCH)));
    let path = transcript(&home);
    let before = fs::read(&path).unwrap();
    let ran = onrecord(
        &home,
        &[
            "--model",
            "offline",
            "-o",
            "json",
            "--continue",
            "-p",
            "hello",
        ],
    );
    assert_eq!(result(&ran)["recording"]["state"], "saved");
    let after = fs::read(&path).unwrap();
    assert!(after.starts_with(&before));
    assert_eq!(valid_prefix(&path).len(), 4);
}

/// case-B02: every errno is one notice with its class, none a crash.
#[test]
fn every_errno_of_a_write_has_its_class() {
    let table = [
        ("ENOSPC", "storage_full"),
        ("EDQUOT", "quota"),
        ("EFBIG", "too_large"),
        ("EROFS", "read_only"),
        ("EACCES", "permission"),
        ("EPERM", "permission"),
        ("ESTALE", "gone"),
        ("EIO", "io"),
        ("ENXIO", "other"),
    ];
    for (errno, class) in table {
        let Some(fault) = shim(&format!("write:{errno}:after=1")) else {
            return;
        };
        let home = Home::new();
        let ran = onrecord_under(&home, &fault, &yolo("json", &shell("echo hi")));
        assert_told_once("json", &ran, class);
        assert!(!messages(&ran).is_empty());
        valid_prefix(&transcript(&home));
    }
}

/// A machine that has no thread left is told in one line, not with a panic.
#[test]
fn a_run_without_a_free_thread_is_refused() {
    let Some(user) = OtherUser::new(Path::new(ONRECORD)) else {
        return;
    };
    let home = Home::new();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = home.command_under(&user.fault(), "prlimit");
    let ran = run(command
        .args(["--nproc=1", "--"])
        .arg(user.program())
        .args(["--model", "offline", "-p", "hello"]));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(ran.stderr.contains("thread"), "{ran:?}");
}

/// case-C03, C06: what one `sudo` run leaves behind does not stop the work, and what cannot be read
/// does not pass for empty.
#[test]
fn a_data_root_of_another_user_is_not_taken_for_an_empty_one() {
    let Some(user) = OtherUser::new(Path::new(ONRECORD)) else {
        return;
    };
    let home = Home::new();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    onrecord(&home, &["--model", "offline", "-p", "hello"]);
    fs::set_permissions(home.data_root(), fs::Permissions::from_mode(0o700)).unwrap();
    let as_user = |args: &[&str]| run(home.command_under(&user.fault(), user.program()).args(args));
    if user.program() == Path::new(ONRECORD) {
        // The tests run as an ordinary user, whose own folder this is.
        return;
    }
    for format in FORMATS {
        let ran = as_user(&["--model", "offline", "-o", format, "-p", "hello"]);
        assert_never_started(format, &ran);
    }
    for args in [
        &["sessions", "list"][..],
        &["sessions", "verify", "--all"],
        &["--continue", "-p", "hello"],
    ] {
        let ran = as_user(args);
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("cannot be read"), "{args:?}: {ran:?}");
    }
}
