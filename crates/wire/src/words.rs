//! The words people read about their record. Every surface says the same (R11, R12, R24, B1).
//!
//! None of them holds a path, an errno or the text of an error (R28).

use crate::recording::FaultClass;

/// `data.reason` of the degraded message, and of every notification about it.
pub const REASON_WRITE_FAILED: &str = "write_failed";

/// `data.message` of `session_recording_degraded` (R12).
pub const DEGRADED_MESSAGE: &str = "Recording of this session stopped: a write failed. Later messages of this session are not saved. Check disk space and permissions, then start a new session to record again.";

/// The one line of text output (R11).
pub const DEGRADED_LINE: &str = "Warning: recording of this session stopped after a failed write; later messages of this session are not saved. Check disk space and permissions, then start a new session to record again (`onrecord doctor` names the cause).";

/// The line of a run that ends and could never create its transcript (B1).
pub const NEVER_STARTED_LINE: &str = "Warning: nothing of this session was saved: its transcript could not be created. Check disk space and permissions (`onrecord doctor` names the cause).";

/// The line of a run that ends before its record is confirmed (R13).
pub const NOT_CONFIRMED_LINE: &str = "Warning: part of this session's record is not confirmed to be on disk; the writer did not finish in time.";

/// The line of a run whose record failed after its result was printed (R13).
pub const FAILED_SINCE_LINE: &str = "Warning: recording of this session failed after its result; part of it is not saved. Check disk space and permissions (`onrecord doctor` names the cause).";

/// The line of a run whose record failed, and whose output may not have told it.
pub const FAILED_UNHEARD_LINE: &str = "Warning: recording of this session failed, which standard output may not have told; part of it is not saved. Check disk space and permissions (`onrecord doctor` names the cause).";

/// The line of a strict run whose record was lost (B6).
pub const REQUIRED_BUT_LOST_LINE: &str = "Recording is required (--require-recording) and part of this session is not saved; check disk space and permissions (`onrecord doctor` names the cause).";

/// The line of a strict run whose prompt was not confirmed to be on disk in time (B6).
pub const REQUIRED_NOT_BEGUN_LINE: &str = "The model was not called: recording is required (--require-recording) and the prompt is not confirmed to be on disk; check disk space and permissions (`onrecord doctor` names the cause).";

/// The line about a second output whose reader is too slow.
pub const SIDE_OUTPUT_SLOW_LINE: &str = "Warning: the second output is not read fast enough and has been given up; the session goes on without it.";

/// The line about a second output whose reader went away.
pub const SIDE_OUTPUT_GONE_LINE: &str = "Warning: the second output cannot be written any more and has been given up; the session goes on without it.";

/// The line about a record that is taken up again, and is not whole.
#[must_use]
pub fn damaged(n_damage: u64, n_gaps: u64) -> String {
    format!(
        "Warning: the record of this session is damaged ({n_damage} places, {n_gaps} gaps); every whole record was kept. `onrecord sessions verify` lists them."
    )
}

/// The line about pictures of a prompt that could not be kept beside the transcript.
#[must_use]
pub fn images_not_saved(class: FaultClass) -> String {
    let mend = match class {
        FaultClass::Other | FaultClass::Gone => "check disk space and permissions of the data root",
        FaultClass::StorageFull
        | FaultClass::Quota
        | FaultClass::TooLarge
        | FaultClass::ReadOnly
        | FaultClass::Permission
        | FaultClass::Io
        | FaultClass::TooManyFiles
        | FaultClass::Stalled => remedy(class),
    };
    format!(
        "Warning: the images of this prompt are not saved with the session ({}), and will not be there when it is resumed: {mend}.",
        class.as_str()
    )
}

/// What a person can do about a class of fault; for the local `doctor` (B4).
#[must_use]
pub fn remedy(class: FaultClass) -> &'static str {
    match class {
        FaultClass::StorageFull => {
            "free disk space (or inodes) on the file system of the data root"
        }
        FaultClass::Quota => "free space within your disk quota, or have it raised",
        FaultClass::TooLarge => "raise the file size limit (`ulimit -f`), or start a new session",
        FaultClass::ReadOnly => {
            "remount the file system read-write, or point ONRECORD_HOME at a writable folder"
        }
        FaultClass::Permission => {
            "make the data root writable for this user (owner, mode, immutable attribute)"
        }
        FaultClass::Gone => {
            "the transcript was moved, replaced, cut or deleted while it was written; start a new session"
        }
        FaultClass::Io => "check the device (kernel log, SMART) before you trust it with more",
        FaultClass::TooManyFiles => "raise the limit of open files (`ulimit -n`)",
        FaultClass::Stalled => {
            "the disk did not answer in time; check the device or the network file system"
        }
        FaultClass::Other => "see the error in the local log",
    }
}
