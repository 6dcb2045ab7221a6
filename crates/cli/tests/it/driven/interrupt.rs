//! Ending the turn that runs, and going on with one that was left.

use std::{
    fs,
    io::Write,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use testkit::{
    driven::{WAIT_MAX, lines_of},
    home::Home,
    run::run,
    stub_model::{Gate, Reply, StubModel},
};

use super::{DRIVEN, Host, of_type, results, tool_results, user};
use crate::world::{command, messages, shell, transcript, valid_prefix};

/// B7: the cancel is answered at once, the result follows within the 2 s of R13 (3 s in all).
#[test]
fn an_interrupt_ends_the_running_turn_and_only_that() {
    let gate = Gate::new();
    let hangs = Reply::stream().text("half an ").gate(&gate);
    let stub = StubModel::replies(vec![hangs, Reply::says("next")]);
    let home = Home::new();
    let mut host = Host::of_stub(&home, &stub, &["--include-partial-messages"]);
    host.prompt("first");
    host.prompt("second");
    host.until("a delta", |m| m["event"]["type"] == "content_block_delta");
    let began = Instant::now();
    let answer = host.ask(&json!({"subtype": "interrupt"}));
    assert_eq!(answer["response"], json!({"subtype": "interrupt"}));
    assert_eq!(
        results(host.seen()).len(),
        0,
        "the acknowledgement comes first"
    );
    let cancelled = host.result();
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(cancelled["subtype"], "error_during_execution");
    assert_eq!(
        cancelled["error"],
        json!({"message": "Operation cancelled."})
    );
    assert_eq!(cancelled["recording"]["state"], "saved");
    let next = host.result();
    assert_eq!(
        (&next["subtype"], &next["result"]),
        (&json!("success"), &json!("next"))
    );
    assert_eq!(host.end().code, 0);
    let texts: Vec<Value> = valid_prefix(&transcript(&home))
        .iter()
        .map(|record| record["message"]["parts"][0]["text"].clone())
        .collect();
    assert_eq!(texts, ["first", "half an ", "second", "next"]);
}

#[test]
fn an_interrupt_ends_a_running_command() {
    let home = Home::new();
    let mut host = Host::offline(&home, &["--yolo"]);
    // Progress shows that it runs.
    host.prompt(&shell("echo running; touch began; exec tail -f /dev/null"));
    while !home.workspace().join("began").exists() {
        host.ask(&json!({"subtype": "mcp_server_status"}));
    }
    host.ask(&json!({"subtype": "interrupt"}));
    let result = host.result();
    assert_eq!(result["error"]["message"], "Operation cancelled.");
    let messages = host.seen().to_vec();
    let call = tool_results(&messages);
    assert_eq!(call.len(), 1);
    assert_eq!(call[0]["is_error"], true);
    assert_eq!(host.turn("SAY 1 chunks")["subtype"], "success");
    assert_eq!(host.end().code, 0);
    let records = valid_prefix(&transcript(&home));
    assert_eq!(records.len(), 5, "prompt, call, its result, prompt, answer");
}

#[test]
fn an_interrupt_of_nothing_does_nothing() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    for _ in 0..2 {
        assert_eq!(
            host.ask(&json!({"subtype": "interrupt"}))["subtype"],
            "success"
        );
        assert_eq!(host.turn("SAY 1 chunks")["subtype"], "success");
    }
    let ran = host.end();
    assert_eq!((ran.code, results(&messages(&ran)).len()), (0, 2));
}

#[test]
fn an_interrupt_right_behind_its_prompt_ends_that_turn() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    let interrupt = json!({
        "type": "control_request",
        "request_id": "now",
        "request": {"subtype": "interrupt"},
    });
    for _ in 0..20 {
        let both = format!("{}\n{interrupt}\n", user("SAY 100000 chunks every 5"));
        host.send_bytes(both.as_bytes());
        assert_eq!(host.result()["error"]["message"], "Operation cancelled.");
    }
    assert_eq!(host.turn("SAY 1 chunks")["subtype"], "success");
    assert_eq!(host.end().code, 0);
    valid_prefix(&transcript(&home));
}

/// A session that was left before its prompt was answered.
fn left_unanswered(home: &Home) -> String {
    let stub = StubModel::replies(vec![Reply::json(401, r#"{"error":{"message":"no"}}"#)]);
    let ran = run(command(home).env("OPENAI_BASE_URL", stub.base_url()).args([
        "--model",
        "stub",
        "-o",
        "json",
        "-p",
        "the unanswered prompt",
    ]));
    assert_eq!(ran.code, 1, "{ran:?}");
    let path = transcript(home);
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_prompt_that_was_left_unanswered_is_taken_up_without_being_said_again() {
    let home = Home::new();
    let id = left_unanswered(&home);
    let stub = StubModel::replies(vec![Reply::says("the late answer")]);
    let mut host = Host::of_stub(&home, &stub, &["--resume", &id]);
    let go_on = json!({"subtype": "continue_last_turn"});
    let answer = host.ask(&go_on);
    assert_eq!(
        answer["response"],
        json!({"subtype": "continue_last_turn", "accepted": true, "interruption": "interrupted_prompt"})
    );
    let result = host.result();
    assert_eq!(
        (&result["result"], &result["session_id"]),
        (&json!("the late answer"), &json!(id))
    );
    assert_eq!(
        stub.requests()[0].last_text().unwrap(),
        "the unanswered prompt"
    );
    let again = host.ask(&go_on);
    assert_eq!(again["response"]["accepted"], false);
    assert_eq!(again["response"]["interruption"], "none");
    assert_eq!(host.end().code, 0);
    let kinds: Vec<Value> = valid_prefix(&transcript(&home))
        .iter()
        .map(|record| record["type"].clone())
        .collect();
    assert_eq!(kinds, ["user", "assistant"]);
}

#[test]
fn a_turn_is_not_continued_while_another_runs_or_waits() {
    let home = Home::new();
    let id = left_unanswered(&home);
    let gate = Gate::new();
    let stub = StubModel::replies(vec![
        Reply::stream().text("x").gate(&gate).finish("stop").done(),
    ]);
    let mut host = Host::of_stub(&home, &stub, &["--resume", &id]);
    host.prompt("another prompt");
    let answer = host.ask(&json!({"subtype": "continue_last_turn"}));
    assert_eq!(answer["response"]["accepted"], false);
    assert!(gate.wait_until_reached(WAIT_MAX));
    let answer = host.ask(&json!({"subtype": "continue_last_turn"}));
    assert_eq!(answer["response"]["accepted"], false);
    gate.open();
    let ran = host.end();
    assert_eq!((ran.code, results(&messages(&ran)).len()), (0, 1));
    assert_eq!(stub.requests().len(), 1);
}

#[test]
fn a_turn_that_was_left_at_its_results_is_taken_up_there() {
    let home = Home::new();
    fs::write(home.workspace().join("a"), "the text").unwrap();
    let read = json!({"file_path": home.workspace().join("a")}).to_string();
    let refused = Reply::json(401, r#"{"error":{"message":"no"}}"#);
    let stub = StubModel::replies(vec![
        Reply::call("read_file", &read),
        refused,
        Reply::says("the late answer"),
    ]);
    let mut host = Host::of_stub(&home, &stub, &[]);
    assert_eq!(host.turn("what is in a?")["is_error"], true);
    let answer = host.ask(&json!({"subtype": "continue_last_turn"}));
    assert_eq!(answer["response"]["interruption"], "interrupted_turn");
    assert_eq!(host.result()["result"], "the late answer");
    assert_eq!(host.end().code, 0);
    let requests = stub.requests();
    assert!(requests[2].last_is_result());
    assert!(requests[2].last_text().unwrap().contains("the text"));
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4);
}

#[test]
fn a_prompt_that_was_interrupted_can_be_taken_up() {
    let gate = Gate::new();
    let hangs = Reply::stream().gate(&gate);
    let stub = StubModel::replies(vec![hangs, Reply::says("the late answer")]);
    let home = Home::new();
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.prompt("the interrupted prompt");
    assert!(gate.wait_until_reached(WAIT_MAX));
    host.ask(&json!({"subtype": "interrupt"}));
    assert_eq!(host.result()["is_error"], true);
    let answer = host.ask(&json!({"subtype": "continue_last_turn"}));
    assert_eq!(answer["response"]["interruption"], "interrupted_prompt");
    assert_eq!(host.result()["result"], "the late answer");
    assert_eq!(
        stub.requests()[1].last_text().unwrap(),
        "the interrupted prompt"
    );
    assert_eq!(host.end().code, 0);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 2);
}

/// More than pipe and queue hold, so that the session waits for its reader in mid-answer.
const N_CHUNKS: usize = 20_000;

/// What a host is shown of an answer that it interrupted is what is recorded of it, also where it did
/// not read as fast as the model spoke.
#[test]
fn an_interrupted_answer_is_shown_as_it_is_recorded() {
    let gate = Gate::new();
    let chunks = (0..N_CHUNKS).fold(Reply::stream(), |reply, n| reply.text(&format!("<{n}>")));
    let stub = StubModel::replies(vec![chunks.gate(&gate)]);
    let home = Home::new();
    let mut child = command(&home)
        .env("OPENAI_BASE_URL", stub.base_url())
        .args(["--model", "stub", "--include-partial-messages"])
        .args(DRIVEN)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let stdout = child.stdout.take().unwrap();
    writeln!(stdin, "{}", user("much")).unwrap();
    // Nothing is read, so it comes to a stand long before the end of the answer.
    // Dropped: how far the model itself got changes nothing.
    _ = gate.wait_until_reached(Duration::from_millis(500));
    let interrupt = json!({"subtype": "interrupt"});
    let request = json!({"type": "control_request", "request_id": "now", "request": interrupt});
    writeln!(stdin, "{request}").unwrap();
    drop(stdin);
    // The record does not wait for the reader.
    while valid_records(&home) < 2 {
        std::thread::yield_now();
    }
    let lines = lines_of(stdout);
    let mut messages: Vec<Value> = Vec::new();
    while let Ok(line) = lines.recv_timeout(WAIT_MAX) {
        messages.push(serde_json::from_str(&line).unwrap());
    }
    assert!(child.wait().unwrap().success());
    let shown = of_type(&messages, "assistant")[0]["message"]["content"][0]["text"].clone();
    let records = valid_prefix(&transcript(&home));
    assert_eq!(shown, records[1]["message"]["parts"][0]["text"]);
    let deltas = messages
        .iter()
        .filter_map(|m| m["event"]["delta"]["text"].as_str());
    assert_eq!(shown, deltas.collect::<String>());
    assert_eq!(results(&messages).len(), 1);
}

fn valid_records(home: &Home) -> usize {
    let transcripts = home.transcripts();
    let text = transcripts
        .first()
        .and_then(|path| fs::read_to_string(path).ok());
    text.unwrap_or_default().matches('\n').count()
}
