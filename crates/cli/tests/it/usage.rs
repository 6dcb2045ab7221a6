//! What bad input gets: one clear line, a non-zero exit, no session, nothing overwritten.

use std::fs;

use testkit::home::Home;

use crate::world::{onrecord, result, transcript};

fn assert_refused(home: &Home, args: &[&str], code: i32, names: &[&str]) {
    let before = home.transcripts().len();
    let ran = onrecord(home, args);
    assert_eq!(ran.code, code, "{args:?}: {ran:?}");
    assert!(ran.stdout.is_empty(), "{args:?}: {ran:?}");
    assert_eq!(
        ran.stderr.lines().count(),
        1,
        "one clear line for {args:?}: {ran:?}"
    );
    for name in names {
        assert!(
            ran.stderr.contains(name),
            "{args:?} must name {name}: {ran:?}"
        );
    }
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
    assert!(
        !ran.stderr.contains(home.data_root().to_str().unwrap()),
        "R28: {ran:?}"
    );
    assert_eq!(home.transcripts().len(), before, "no session is made");
}

#[test]
fn mistakes_on_the_command_line_are_named_with_their_mend() {
    let home = Home::new();
    let unknown = "123e4567-e89b-42d3-a456-426614174000";
    assert_refused(&home, &["--no-such-flag"], 1, &["--no-such-flag", "--help"]);
    assert_refused(
        &home,
        &["-o", "xml", "-p", "hi"],
        1,
        &["xml", "stream-json"],
    );
    assert_refused(
        &home,
        &["--approval-mode", "wild", "-p", "hi"],
        1,
        &["wild", "yolo"],
    );
    assert_refused(&home, &["-p", "hi", "there"], 1, &["two prompts", "-p"]);
    assert_refused(&home, &[], 1, &["no prompt", "-p"]);
    assert_refused(&home, &["-p", "  "], 1, &["no prompt"]);
    assert_refused(&home, &["--resume", unknown, "-p", "hi"], 1, &[unknown]);
    assert_refused(
        &home,
        &["--session-id", "nope", "-p", "hi"],
        1,
        &["nope", "UUID"],
    );
    assert_refused(&home, &["--fork-session", "-p", "hi"], 1, &["--resume"]);
    assert_refused(
        &home,
        &["-c", "-r", unknown, "-p", "hi"],
        1,
        &["--continue"],
    );
    assert_refused(
        &home,
        &["-y", "--approval-mode", "plan", "-p", "hi"],
        1,
        &["--yolo"],
    );
    assert_refused(
        &home,
        &["--include-partial-messages", "-p", "hi"],
        1,
        &["stream-json"],
    );
    assert_refused(&home, &["--max-session-turns", "0", "-p", "hi"], 1, &["0"]);
    assert_refused(
        &home,
        &["--max-wall-time", "soon", "-p", "hi"],
        1,
        &["soon", "5m"],
    );
    assert_refused(&home, &["--model", "x", "-p", "hi"], 1, &["OPENAI_API_KEY"]);
    assert_refused(
        &home,
        &["--include-directories", "nowhere", "-p", "hi"],
        1,
        &["nowhere"],
    );
    assert_refused(
        &home,
        &["--require-recording", "--no-chat-recording", "-p", "hi"],
        1,
        &["--require-recording"],
    );
    assert_refused(&home, &["sessions", "show", unknown], 1, &[unknown]);
    assert_refused(&home, &["sessions", "verify"], 1, &["--all"]);
}

#[test]
fn an_ambiguous_beginning_of_an_id_is_refused() {
    let home = Home::new();
    for last in ["1", "2"] {
        let id = format!("aaaaaaaa-0000-4000-8000-00000000000{last}");
        onrecord(
            &home,
            &["--model", "offline", "--session-id", &id, "-p", "hi"],
        );
    }
    assert_refused(&home, &["--resume", "aaaa", "-p", "hi"], 1, &["aaaa"]);
}

#[test]
fn an_id_that_is_taken_is_refused_and_its_session_kept() {
    let home = Home::new();
    let id = "aaaaaaaa-0000-4000-8000-000000000001";
    onrecord(
        &home,
        &["--model", "offline", "--session-id", id, "-p", "hi"],
    );
    let before = fs::read(transcript(&home)).unwrap();
    assert_refused(
        &home,
        &["--session-id", &id.to_uppercase(), "-p", "hi"],
        1,
        &[id, "--resume"],
    );
    assert_eq!(fs::read(transcript(&home)).unwrap(), before);
}

#[test]
fn a_config_file_that_cannot_be_used_is_named_with_its_line() {
    let home = Home::new();
    fs::create_dir(home.data_root()).unwrap();
    let config = home.data_root().join("config.toml");
    fs::write(&config, "[model]\nnme = \"x\"\n").unwrap();
    assert_refused(&home, &["-p", "hi"], 52, &["config.toml", "line 2", "nme"]);
    fs::write(&config, "[approval]\nmode = \"wild\"\n").unwrap();
    assert_refused(&home, &["-p", "hi"], 52, &["wild", "plan"]);
    fs::remove_file(&config).unwrap();
    fs::create_dir(&config).unwrap();
    assert_refused(&home, &["-p", "hi"], 52, &["config.toml"]);
}

#[test]
fn help_and_version_go_to_standard_output_with_zero() {
    let home = Home::new();
    for flag in ["--help", "--version"] {
        let ran = onrecord(&home, &[flag]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        assert!(ran.stdout.contains("onrecord"));
    }
}

#[test]
fn a_resumed_id_may_be_shortened_to_what_names_one() {
    let home = Home::new();
    let id = "abcdef01-0000-4000-8000-000000000001";
    onrecord(
        &home,
        &["--model", "offline", "--session-id", id, "-p", "hi"],
    );
    let ran = onrecord(
        &home,
        &[
            "--model", "offline", "-o", "json", "--resume", "abcd", "-p", "hello",
        ],
    );
    assert_eq!(result(&ran)["session_id"], id);
}

/// A FIFO must not hold a run for ever.
#[test]
fn a_config_file_that_is_no_file_is_named() {
    let home = Home::new();
    fs::create_dir(home.data_root()).unwrap();
    let fifo = home.data_root().join("config.toml");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    assert_refused(&home, &["-p", "hi"], 52, &["config.toml", "regular"]);
}

/// What was asked for and could not be written is no success.
#[test]
fn a_command_whose_output_cannot_be_written_fails() {
    let home = Home::new();
    let id = "aaaaaaaa-0000-4000-8000-000000000001";
    onrecord(
        &home,
        &["--model", "offline", "--session-id", id, "-p", "hi"],
    );
    for args in [
        &["sessions", "export", id][..],
        &["sessions", "list"],
        &["sessions", "show", id],
        &["doctor", "--json"],
        &["--version"],
    ] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let ran = testkit::run::run(crate::world::command(&home).args(args).stdout(full));
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{args:?}: {ran:?}");
    }
}

/// Text of others does not steer the terminal.
#[test]
fn control_characters_are_not_printed() {
    let home = Home::new();
    let file = home.workspace().join("\u{1b}[31mred\u{202e}.jsonl");
    fs::write(&file, "{}\n").unwrap();
    for args in [
        &["sessions", "verify", file.to_str().unwrap()][..],
        &["--session-id", "\u{1b}[31mx", "-p", "hi"],
    ] {
        let ran = onrecord(&home, args);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
    }
}
