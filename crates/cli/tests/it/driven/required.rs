//! A session whose record is required (`--require-recording`), and one without a record.

use std::fs;

use serde_json::{Value, json};
use testkit::{faults::fsize_limit, home::Home};
use wire::words;

use super::{
    Host,
    recording::{MUCH, assert_nothing_leaks, turn_of_the_notice},
};
use crate::world::shell;

fn assert_refused(result: &Value) {
    assert_eq!(result["subtype"], "error_during_execution");
    assert_eq!(result["is_error"], true);
    assert_eq!(result["error"]["kind"], "recording_required");
    assert_eq!(result["error"]["message"], words::REQUIRED_NOT_BEGUN_LINE);
    assert_eq!(result["num_turns"], 0, "the model was not called");
}

/// B6: the turn that failed has the result of its work; each further one is refused.
#[test]
fn a_session_whose_record_is_required_refuses_every_turn_after_a_failure() {
    let Some(fault) = fsize_limit(4096) else {
        return;
    };
    let home = Home::new();
    let mut host = Host::under(&home, &fault, &["--yolo", "--require-recording"]);
    assert_eq!(host.turn("SAY 1 chunks")["subtype"], "success");
    let failed = host.turn(&shell(MUCH));
    assert_eq!(
        (&failed["subtype"], &failed["result"]),
        (&json!("success"), &json!("done."))
    );
    for _ in 0..2 {
        assert_refused(&host.turn(&shell("touch made")));
    }
    let ran = host.end();
    assert_eq!(ran.code, 74);
    assert_eq!(turn_of_the_notice(&ran), 2);
    assert!(!home.workspace().join("made").exists());
    assert_nothing_leaks(&ran, &home);
}

/// B6: `/clear` mends the turns that follow, not what is lost.
#[test]
fn a_required_record_that_was_lost_is_lost_also_after_a_new_session() {
    let Some(fault) = fsize_limit(4096) else {
        return;
    };
    let home = Home::new();
    let mut host = Host::under(&home, &fault, &["--yolo", "--require-recording"]);
    host.turn(&shell(MUCH));
    assert_refused(&host.turn("SAY 1 chunks"));
    assert_eq!(host.turn("/clear")["subtype"], "success");
    assert_eq!(host.turn("SAY 1 chunks")["subtype"], "success");
    let ran = host.end();
    assert_eq!(ran.code, 74, "{ran:?}");
    assert_eq!(ran.stderr.matches(words::REQUIRED_BUT_LOST_LINE).count(), 1);
}

/// B6: also where nothing could ever be recorded.
#[test]
fn a_session_whose_required_record_cannot_begin_calls_no_model() {
    let home = Home::new();
    fs::write(home.data_root(), "in the way").unwrap();
    let mut host = Host::offline(&home, &["--require-recording"]);
    assert_refused(&host.turn("SAY 1 chunks"));
    fs::remove_file(home.data_root()).unwrap();
    assert_eq!(
        host.turn("SAY 1 chunks")["subtype"],
        "success",
        "as soon as it can"
    );
    let ran = host.end();
    assert_eq!(ran.code, 0, "all that was taken is saved: {ran:?}");
}

#[test]
fn a_required_record_that_is_sound_changes_nothing() {
    let home = Home::new();
    let mut host = Host::offline(&home, &["--require-recording"]);
    host.turn("SAY 1 chunks");
    host.turn("SAY 1 chunks");
    let ran = host.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

/// B1, case-O08: off is off, also after `/clear`.
#[test]
fn a_session_that_is_not_recorded_says_so_in_every_result() {
    let home = Home::new();
    let mut host = Host::offline(&home, &["--no-chat-recording"]);
    for prompt in ["SAY 1 chunks", "/clear", "SAY 1 chunks"] {
        assert_eq!(host.turn(prompt)["recording"], json!({"state": "off"}));
    }
    let ran = host.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(home.transcripts().is_empty());
}
