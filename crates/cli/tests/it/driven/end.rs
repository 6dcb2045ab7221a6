//! How a driven session ends.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{ChildStdout, Stdio},
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{
    driven::WAIT_MAX,
    home::Home,
    stub_model::{Gate, Reply, StubModel},
};

use super::{DRIVEN, Host, results, user};
use crate::world::{command, messages, transcript, valid_prefix};

#[test]
fn prompts_that_wait_when_the_input_ends_are_still_run() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    for n in 1..=5 {
        host.prompt(&format!("SAY {n} chunks"));
    }
    let ran = host.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(results(&messages(&ran)).len(), 5);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 10);
}

#[test]
fn an_input_without_a_prompt_is_a_session_without_a_turn() {
    let home = Home::new();
    let ran = Host::offline(&home, &[]).end();
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (0, "", "")
    );
    assert!(
        home.transcripts().is_empty(),
        "nothing was said, so nothing is recorded"
    );
}

#[test]
fn a_session_whose_last_turn_failed_ends_well() {
    let home = Home::new();
    let stub = StubModel::replies(vec![Reply::json(401, r#"{"error":{"message":"no"}}"#)]);
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.prompt("hello");
    let ran = host.end();
    assert_eq!(ran.code, 0);
    assert_eq!(results(&messages(&ran))[0]["is_error"], true);
}

#[test]
fn a_limit_ends_its_turn_and_not_the_session() {
    let home = Home::new();
    let mut host = Host::offline(&home, &["--yolo", "--max-session-turns", "1"]);
    let limited = host.turn(&crate::world::shell("echo hi"));
    assert_eq!(limited["subtype"], "error_during_execution");
    assert!(
        limited["error"]["message"]
            .as_str()
            .unwrap()
            .contains("--max-session-turns")
    );
    assert_eq!(host.turn("SAY 1 chunks")["subtype"], "success");
    assert_eq!(host.end().code, 0);
}

/// A session in mid-turn, with two more prompts waiting.
fn in_mid_turn(home: &Home) -> (Host, StubModel) {
    let gate = Gate::new();
    let stub = StubModel::replies(vec![Reply::stream().text("half").gate(&gate)]);
    let mut host = Host::of_stub(home, &stub, &[]);
    for prompt in ["first", "second", "third"] {
        host.prompt(prompt);
    }
    // Its answer shows that all lines before it were read.
    host.ask(&json!({"subtype": "mcp_server_status"}));
    assert!(gate.wait_until_reached(WAIT_MAX));
    (host, stub)
}

/// Every prompt that was taken has its result, also where it was never begun.
#[test]
fn a_signal_in_mid_turn_gives_every_prompt_a_result() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 130), (Signal::HUP, 129)] {
        let home = Home::new();
        let (mut host, stub) = in_mid_turn(&home);
        host.process().signal(signal);
        let ran = host.wait();
        assert_eq!((ran.code, ran.stderr.as_str()), (code, ""));
        let messages = messages(&ran);
        let results = results(&messages);
        assert_eq!(results.len(), 3);
        for result in results {
            assert_eq!(result["subtype"], "error_during_execution");
            assert_eq!(result["error"]["message"], "Operation cancelled.");
            assert_eq!(result["recording"]["state"], "saved");
        }
        assert_eq!(messages.last().unwrap()["type"], "result");
        assert_eq!(stub.requests().len(), 1);
        let records = valid_prefix(&transcript(&home));
        assert_eq!(records[0]["message"]["parts"][0]["text"], "first");
        assert!(records.len() <= 2, "what was never begun is not recorded");
    }
}

#[test]
fn a_signal_while_nothing_runs_ends_the_session_without_a_result() {
    for signal in [Signal::INT, Signal::TERM] {
        let home = Home::new();
        let mut host = Host::offline(&home, &[]);
        host.ask(&json!({"subtype": "mcp_server_status"}));
        host.process().signal(signal);
        let ran = host.wait();
        assert_eq!((ran.code, ran.stderr.as_str()), (130, ""));
        assert!(results(&messages(&ran)).is_empty());

        let mut host = Host::offline(&home, &[]);
        host.turn("SAY 1 chunks");
        host.process().signal(signal);
        let ran = host.wait();
        assert_eq!((ran.code, results(&messages(&ran)).len()), (130, 1));
    }
}

#[test]
fn a_signal_while_the_host_is_asked_ends_the_session() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    host.initialize(json!({}));
    host.prompt(&crate::world::shell("touch made"));
    host.question("can_use_tool");
    host.process().signal(Signal::TERM);
    let ran = host.wait();
    assert_eq!(ran.code, 130);
    let messages = messages(&ran);
    assert_eq!(results(&messages).len(), 1);
    assert_eq!(super::of_type(&messages, "control_cancel_request").len(), 1);
    assert!(!home.workspace().join("made").exists());
    assert_eq!(
        valid_prefix(&transcript(&home)).len(),
        3,
        "the call has its result"
    );
}

/// case-L08.
#[test]
fn a_reader_that_goes_away_ends_the_session_quietly() {
    let home = Home::new();
    let mut host = Host::offline(&home, &["--include-partial-messages"]);
    host.prompt("SAY 100000 chunks every 1");
    host.prompt("SAY 100000 chunks every 1");
    host.until("a delta", |m| m["event"]["type"] == "content_block_delta");
    // Its input stays open.
    host.process().close_output();
    let ran = host.wait();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    valid_prefix(&transcript(&home));
}

/// A session that says more than pipe and queue hold, of numbered chunks.
const N_CHUNKS: usize = 20_000;

fn numbered() -> Reply {
    let chunks = (0..N_CHUNKS).fold(Reply::stream(), |reply, n| reply.text(&format!("<{n}>")));
    chunks.finish("stop").done()
}

fn texts(stdout: ChildStdout) -> (Vec<String>, usize) {
    let (mut texts, mut n_results) = (Vec::new(), 0);
    for line in BufReader::new(stdout).lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        n_results += usize::from(message["type"] == "result");
        if let Some(text) = message["event"]["delta"]["text"].as_str() {
            texts.push(text.to_owned());
        }
    }
    (texts, n_results)
}

/// case-L09: the session waits for its reader.
#[test]
fn a_reader_that_pauses_loses_no_line() {
    let home = Home::new();
    let stub = StubModel::replies(vec![numbered(), Reply::says("next")]);
    let mut child = command(&home)
        .env("OPENAI_BASE_URL", stub.base_url())
        .args(["--model", "stub", "--include-partial-messages"])
        .args(DRIVEN)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}\n{}", user("much"), user("next")).unwrap();
    drop(stdin);
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 1]).unwrap();
    // As long as nothing is read, the pipe stays full and the first turn cannot end.
    while rustix::io::ioctl_fionread(&stdout).unwrap() < 32 << 10 {
        std::thread::yield_now();
    }
    assert!(!stub.wait_for_requests(2, Duration::from_millis(200)));
    let (texts, n_results) = texts_after_first_byte(stdout);
    let mut expected: Vec<String> = (0..N_CHUNKS).map(|n| format!("<{n}>")).collect();
    expected.push("next".to_owned());
    assert!(
        texts == expected,
        "{} of {} chunks",
        texts.len(),
        expected.len()
    );
    assert_eq!(n_results, 2);
    assert!(child.wait().unwrap().success());
}

/// The first byte of the first line was read before.
fn texts_after_first_byte(mut stdout: ChildStdout) -> (Vec<String>, usize) {
    let mut rest_of_line = Vec::new();
    let mut byte = [0; 1];
    while stdout.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        rest_of_line.push(byte[0]);
    }
    assert!(String::from_utf8_lossy(&rest_of_line).contains("\"init\""));
    texts(stdout)
}

/// case-L05: what hangs in the background keeps no process.
#[test]
fn a_command_left_in_the_background_does_not_keep_the_session() {
    let home = Home::new();
    let began = Instant::now();
    let mut host = Host::offline(&home, &["--yolo"]);
    host.turn(&crate::world::shell("tail -f /dev/null & echo started"));
    assert_eq!(host.end().code, 0);
    assert!(began.elapsed() < WAIT_MAX / 2);
}
