//! A healthy run in every format.

use std::fs;

use serde_json::{Value, json};
use testkit::{
    home::Home,
    run::{run, run_with_input},
    stub_model::{Reply, StubModel},
};

use crate::world::{
    command, messages, onrecord, result, shell, tool, transcript, valid_prefix, yolo,
};

/// B1: every result carries the level of the record.
#[test]
fn a_healthy_run_is_saved_and_says_nothing_of_it() {
    for format in ["text", "json", "stream-json"] {
        let home = Home::new();
        fs::write(home.workspace().join("a.txt"), "a").unwrap();
        let args = [
            "--model",
            "offline",
            "-o",
            format,
            "-p",
            "what is in this directory?",
        ];
        let ran = onrecord(&home, &args);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        assert!(ran.stdout.contains("a.txt"));
        let records = valid_prefix(&transcript(&home));
        assert_eq!(records.len(), 4);
        if format == "text" {
            assert!(ran.stdout.ends_with('\n'));
            continue;
        }
        let result = result(&ran);
        let last = records.last().unwrap()["uuid"].clone();
        assert_eq!(
            result["recording"],
            json!({"state": "saved", "lastRecordUuid": last})
        );
        let kinds: Vec<_> = messages(&ran).iter().map(|m| m["type"].clone()).collect();
        let expected: &[&str] = if format == "json" {
            &["system", "assistant", "user", "assistant", "result"]
        } else {
            &[
                "system",
                "stream_event",
                "assistant",
                "user",
                "assistant",
                "result",
            ]
        };
        assert_eq!(kinds, expected);
        assert_eq!(result.get("stats").is_some(), format == "json");
    }
}

#[test]
fn the_built_in_model_is_named_once_where_nothing_is_configured() {
    let home = Home::new();
    let ran = onrecord(&home, &["-p", "hello"]);
    assert_eq!(ran.code, 0);
    assert_eq!(ran.stderr.lines().count(), 1);
    assert!(ran.stderr.contains("offline") && ran.stderr.contains("OPENAI_API_KEY"));
}

#[test]
fn partial_messages_announce_the_message_they_make() {
    let home = Home::new();
    let ran = onrecord(
        &home,
        &[
            "--model",
            "offline",
            "-o",
            "stream-json",
            "--include-partial-messages",
            "-p",
            "SAY 3 chunks",
        ],
    );
    let messages = messages(&ran);
    let events: Vec<&Value> = messages
        .iter()
        .filter(|m| m["type"] == "stream_event")
        .map(|m| &m["event"])
        .collect();
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "goal_state",
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_stop"
        ]
    );
    let assistant = messages.iter().find(|m| m["type"] == "assistant").unwrap();
    assert_eq!(assistant["uuid"], events[1]["message"]["id"]);
    assert_eq!(assistant["message"]["id"], assistant["uuid"]);
    let text: String = events
        .iter()
        .filter_map(|event| event["delta"]["text"].as_str())
        .collect();
    assert_eq!(assistant["message"]["content"][0]["text"], text.as_str());
}

#[test]
fn a_limit_ends_a_run_with_its_code_and_a_result() {
    let prompt = shell("echo hi");
    for (limit, value, code) in [
        ("--max-session-turns", "1", 53),
        ("--max-tool-calls", "0", 55),
        ("--max-wall-time", "50ms", 55),
    ] {
        for format in ["text", "json", "stream-json"] {
            let home = Home::new();
            let slow = "SAY 1000 chunks every 20".to_owned();
            let prompt = if limit == "--max-wall-time" {
                &slow
            } else {
                &prompt
            };
            let mut args = yolo(format, prompt);
            args.extend([limit, value]);
            let ran = onrecord(&home, &args);
            assert_eq!(ran.code, code, "{limit} {format}: {ran:?}");
            if format == "text" {
                assert!(ran.stderr.contains(limit), "the mend is named: {ran:?}");
            } else {
                let result = result(&ran);
                assert_eq!(result["subtype"], "error_during_execution");
                assert_eq!(result["recording"]["state"], "saved");
            }
            valid_prefix(&transcript(&home));
        }
    }
}

#[test]
fn what_needs_approval_is_denied_and_listed() {
    let home = Home::new();
    let prompt = shell("touch made");
    let ran = onrecord(&home, &["--model", "offline", "-o", "json", "-p", &prompt]);
    assert_eq!(ran.code, 0);
    assert!(!home.workspace().join("made").exists());
    let denials = &result(&ran)["permission_denials"];
    assert_eq!(denials.as_array().unwrap().len(), 1);
    assert_eq!(denials[0]["tool_name"], "run_shell_command");
    assert_eq!(denials[0]["tool_input"]["command"], "touch made");
}

#[test]
fn a_path_outside_the_workspace_needs_to_be_allowed() {
    let home = Home::new();
    let outside = home.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let file = outside.join("new.txt");
    let prompt = tool("write_file", &json!({"file_path": file, "content": "x"}));
    let mut args = yolo("json", &prompt);
    onrecord(&home, &args);
    assert!(!file.exists());
    let allowed = outside.to_str().unwrap().to_owned();
    args.extend(["--include-directories", &allowed]);
    onrecord(&home, &args);
    assert_eq!(fs::read_to_string(file).unwrap(), "x");
}

#[test]
fn a_piped_text_comes_before_the_prompt() {
    let home = Home::new();
    let ran = run_with_input(
        command(&home).args(["--model", "offline", "-p", "hello"]),
        b"context\n",
    );
    assert_eq!(ran.code, 0);
    let text = valid_prefix(&transcript(&home))[0]["message"]["parts"][0]["text"].clone();
    assert_eq!(text, "context\n\nhello");
}

#[test]
fn a_piped_text_alone_is_the_prompt() {
    let home = Home::new();
    let ran = run_with_input(command(&home).args(["--model", "offline"]), b"hello\n");
    assert_eq!(ran.code, 0);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 2);
}

/// case-E04: readers that split at other line ends must not split ours.
#[test]
fn line_separators_are_escaped_on_the_wire_and_kept_in_the_record() {
    let home = Home::new();
    let prompt = shell("printf 'a\\342\\200\\250b\\302\\205c'");
    let ran = onrecord(&home, &yolo("stream-json", &prompt));
    assert!(!ran.stdout.contains('\u{2028}') && !ran.stdout.contains('\u{85}'));
    let said = messages(&ran)
        .iter()
        .any(|m| m.to_string().contains("a\u{2028}b\u{85}c"));
    assert!(said, "{ran:?}");
    assert!(
        fs::read_to_string(transcript(&home))
            .unwrap()
            .contains('\u{2028}')
    );
}

/// case-L06: a failed model call is a failed run, with the record of its prompt.
#[test]
fn a_provider_that_cannot_be_reached_is_a_failure_with_a_result() {
    for format in ["text", "json", "stream-json"] {
        let home = Home::new();
        let stub = StubModel::replies(vec![Reply::json(
            401,
            r#"{"error":{"message":"Incorrect API key provided"}}"#,
        )]);
        let ran = run(command(&home)
            .env("OPENAI_BASE_URL", stub.base_url())
            .env("OPENAI_API_KEY", "sk-zz-secret")
            .args(["--model", "m", "-o", format, "-p", "hello"]));
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(
            !format!("{ran:?}").contains("zz-secret"),
            "a key is never shown"
        );
        if format == "text" {
            assert!(ran.stdout.is_empty());
            assert!(
                ran.stderr.contains("OPENAI_API_KEY"),
                "the mend is named: {ran:?}"
            );
        } else {
            assert_eq!(result(&ran)["is_error"], true);
        }
        assert_eq!(valid_prefix(&transcript(&home)).len(), 1);
        assert!(
            !fs::read_to_string(transcript(&home))
                .unwrap()
                .contains("zz-secret")
        );
    }
}

#[test]
fn a_real_endpoint_answers_with_tools() {
    let home = Home::new();
    let stub = StubModel::prompts(3);
    let ran = run(command(&home)
        .env("OPENAI_BASE_URL", stub.base_url())
        .args([
            "--model",
            "m",
            "--yolo",
            "-o",
            "json",
            "-p",
            &shell("echo from-the-tool"),
        ]));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("from-the-tool"));
    assert_eq!(result(&ran)["num_turns"], 2);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4);
}

/// A proxy of the environment is used, and left out where it is told to be.
#[test]
fn a_proxy_of_the_environment_takes_the_request() {
    let home = Home::new();
    let proxy = StubModel::prompts(3);
    let ask = |none: &str, wall_time: &str| {
        run(command(&home)
            .env("OPENAI_BASE_URL", "http://model.invalid/v1")
            .env("http_proxy", format!("http://{}", proxy.address()))
            .env("NO_PROXY", none)
            .args([
                "--model",
                "m",
                "-o",
                "json",
                "--max-wall-time",
                wall_time,
                "-p",
                "hello",
            ]))
    };
    let through = ask("", "30s");
    assert_eq!(through.code, 0, "{through:?}");
    let n_requests = proxy.requests().len();
    assert_eq!(n_requests, 1);
    assert_ne!(
        ask("model.invalid", "300ms").code,
        0,
        "there is no such host"
    );
    assert_eq!(proxy.requests().len(), n_requests);
}

/// The first bytes say what a picture is; eight are enough here.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

#[test]
fn a_picture_of_the_project_that_a_prompt_mentions_is_shown_to_the_model_and_kept() {
    let home = Home::new();
    let stub = StubModel::hello(1);
    fs::write(home.workspace().join("a.png"), PNG).unwrap();
    fs::write(home.workspace().join("b.png"), "no picture").unwrap();
    fs::write(home.path().join("outside.png"), PNG).unwrap();
    let outside = home.path().join("outside.png");
    let prompt = format!(
        "compare @a.png with @b.png, @{} and @none.png.",
        outside.display()
    );
    let mut command = command(&home);
    command
        .env("OPENAI_BASE_URL", stub.base_url())
        .args(["--model", "stub", "-p", &prompt]);
    let ran = run(&mut command);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    let requests = stub.requests();
    let messages = requests[0].body["messages"].as_array().unwrap();
    let content = messages.last().unwrap()["content"].as_array().unwrap();
    assert_eq!(content.len(), 2, "{content:?}");
    assert_eq!(
        content[1]["image_url"]["url"],
        "data:image/png;base64,iVBORw0KGgo="
    );
    let text = content[0]["text"].as_str().unwrap();
    for said in [
        prompt.as_str(),
        "[image 1 (a.png): image/png, 8 bytes]",
        "[b.png is not shown: it is no PNG, JPEG, GIF or WebP]",
        "is outside the workspace",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains("[none.png"), "{text}");
    let transcript = transcript(&home);
    assert_eq!(valid_prefix(&transcript)[0]["media"][0]["bytes"], 8);
    assert!(transcript.with_extension("media").is_dir());
}
