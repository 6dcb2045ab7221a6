//! Commands of a second program: which are obeyed, and when.

use std::fs;

use serde_json::{Value, json};
use testkit::{
    driven::WAIT_MAX,
    home::Home,
    stub_model::{Gate, Reply, StubModel},
};

use super::{Watcher, begin, end};
use crate::{
    driven::{Host, of_subtype, of_type},
    world::{command, messages},
};

fn submit(text: &str) -> Value {
    json!({"type": "submit", "text": text})
}

/// A driven session that does nothing until somebody says something.
fn idle(home: &Home, watcher: &Watcher) -> Host {
    let mut host = Host::offline(home, &watcher.flags());
    host.ask(&json!({"subtype": "mcp_server_status"}));
    host
}

#[test]
fn a_prompt_that_is_submitted_is_a_turn_that_both_see() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let mut host = idle(&home, &watcher);
    watcher.say(&submit("SAY 2 chunks"));
    assert_eq!(host.result()["result"], "hello world hello world ");
    assert_eq!(
        watcher.kind("user")["message"]["content"][0]["text"],
        "SAY 2 chunks"
    );
    assert_eq!(watcher.kind("result")["subtype"], "success");
    let ran = host.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(watcher.seen().last().unwrap()["subtype"], "session_end");
}

/// Prompts of the host and of the second program stand in one queue.
#[test]
fn prompts_of_both_run_one_after_another() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let gate = Gate::new();
    let first = Reply::stream()
        .text("one")
        .gate(&gate)
        .finish("stop")
        .done();
    let stub = StubModel::replies(vec![first, Reply::says("two"), Reply::says("three")]);
    let mut host = Host::of_stub(&home, &stub, &watcher.flags());
    host.prompt("first");
    assert!(gate.wait_until_reached(WAIT_MAX));
    host.prompt("second");
    watcher.say(&submit("third"));
    // Whoever reads the commands has come past the last one once he complains of what follows it.
    watcher.add("garbage\n");
    watcher.kind("invalid_input");
    assert_eq!(stub.requests().len(), 1);
    gate.open();
    let answers: Vec<Value> = (0..3).map(|_| host.result()["result"].clone()).collect();
    assert_eq!(answers, ["one", "two", "three"]);
    assert_eq!(host.end().code, 0);
}

/// A second program adds to a run that a person began; it keeps no run alive.
#[test]
fn a_prompt_that_is_submitted_during_the_turn_of_another_run_is_its_next_turn() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let gate = Gate::new();
    let first = Reply::stream()
        .text("one")
        .gate(&gate)
        .finish("stop")
        .done();
    let stub = StubModel::replies(vec![first, Reply::says("two")]);
    let child = begin(
        command(&home)
            .env("OPENAI_BASE_URL", stub.base_url())
            .args(["--model", "stub", "-p", "first"])
            .args(watcher.flags()),
    );
    assert!(gate.wait_until_reached(WAIT_MAX));
    watcher.say(&submit("second"));
    watcher.add("garbage\n");
    assert_eq!(watcher.kind("invalid_input")["data"]["reason"], "not_json");
    gate.open();
    let ran = end(child);
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (0, "one\ntwo\n", "")
    );
    assert_eq!(stub.requests().len(), 2);
    let seen = watcher.seen();
    assert_eq!(of_type(&seen, "result").len(), 2);
    assert_eq!(of_subtype(&seen, "invalid_input").len(), 1);
}

#[test]
fn what_is_no_command_is_answered_on_the_second_output_and_the_rest_obeyed() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let mut host = idle(&home, &watcher);
    let bad = [
        ("not_json", "{not json"),
        ("not_an_object", "[1]"),
        ("no_type", "{}"),
        ("bad_field", r#"{"type":"submit"}"#),
        (
            "bad_field",
            r#"{"type":"confirmation_response","request_id":7}"#,
        ),
    ];
    for (_, line) in bad {
        watcher.add(&format!("{line}\n"));
    }
    // What is not known, or says nothing, is left alone.
    watcher.say(&json!({"type": "frobnicate"}));
    watcher.add("\n  \n");
    watcher.say(&submit(" "));
    watcher.say(&submit("SAY 1 chunks"));
    assert_eq!(host.result()["subtype"], "success");
    let ran = host.end();
    assert!(
        of_subtype(&messages(&ran), "invalid_input").is_empty(),
        "the host did nothing wrong"
    );
    let seen = watcher.seen();
    let complaints = of_subtype(&seen, "invalid_input");
    assert_eq!(complaints.len(), bad.len());
    for (index, complaint) in complaints.iter().enumerate() {
        assert_eq!(complaint["data"]["reason"], bad[index].0);
        assert_eq!(complaint["data"]["line"], index + 1);
    }
    assert_eq!(of_type(&seen, "user").len(), 1);
}

#[test]
fn a_complaint_is_one_of_the_session_of_now() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let mut host = idle(&home, &watcher);
    let new = host.turn("/clear")["session_id"].clone();
    watcher.add("garbage\n");
    assert_eq!(watcher.kind("invalid_input")["session_id"], new);
    assert_eq!(host.end().code, 0);
}

#[test]
fn half_a_line_waits_for_the_rest() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let mut host = idle(&home, &watcher);
    let line = format!("{}\n", submit("SAY 1 chunks"));
    let (begin, rest) = line.split_at(12);
    watcher.add(begin);
    // Long enough for several looks at the file.
    assert!(
        !host
            .process()
            .says_something_in(std::time::Duration::from_millis(400))
    );
    watcher.add(rest);
    assert_eq!(host.result()["subtype"], "success");
    assert_eq!(host.end().code, 0);
    assert!(of_subtype(&watcher.seen(), "invalid_input").is_empty());
}

#[test]
fn only_what_is_added_after_the_start_counts() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    watcher.say(&submit("SAY 1 chunks"));
    watcher.add("half");
    let mut host = idle(&home, &watcher);
    // The end of a line that was begun before is a line that nobody understands.
    watcher.add(" a line\n");
    watcher.say(&submit("SAY 3 chunks"));
    assert_eq!(host.result()["result"], "hello world ".repeat(3));
    assert_eq!(host.end().code, 0);
    assert_eq!(of_type(&watcher.seen(), "user").len(), 1);
}

#[test]
fn a_file_that_is_made_shorter_or_replaced_is_read_from_its_beginning() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    watcher.add(&"x".repeat(5_000));
    let mut host = idle(&home, &watcher);
    let line = |n: usize| format!("{}\n", submit(&format!("SAY {n} chunks")));
    let ways: [fn(&Watcher, String); 4] = [
        // Shorter.
        |watcher, line| fs::write(&watcher.commands, line).unwrap(),
        // Longer, and another file.
        |watcher, line| {
            let new = watcher.commands.with_extension("new");
            fs::write(&new, "\n".repeat(10_000) + &line).unwrap();
            fs::rename(new, &watcher.commands).unwrap();
        },
        // As long, and another text.
        |watcher, line| {
            let text = "\n".repeat(10_000).replace("\n\n", " \n") + &line;
            fs::write(&watcher.commands, text).unwrap();
        },
        // Gone, and back.
        |watcher, line| {
            fs::remove_file(&watcher.commands).unwrap();
            fs::write(&watcher.commands, line).unwrap();
        },
    ];
    for (n, way) in (1..).zip(ways) {
        way(&watcher, line(n));
        assert_eq!(host.result()["result"], "hello world ".repeat(n));
    }
    assert_eq!(host.end().code, 0);
    assert_eq!(of_type(&watcher.seen(), "result").len(), 4);
}

#[test]
fn a_file_that_is_not_there_yet_is_read_once_it_is() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    fs::remove_file(&watcher.commands).unwrap();
    let mut host = idle(&home, &watcher);
    fs::write(&watcher.commands, format!("{}\n", submit("SAY 1 chunks"))).unwrap();
    assert_eq!(host.result()["subtype"], "success");
    assert_eq!(host.end().code, 0);
}

#[test]
fn commands_need_no_second_output() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let mut host = Host::offline(&home, &watcher.flags()[2..]);
    host.ask(&json!({"subtype": "mcp_server_status"}));
    watcher.add("garbage\n");
    watcher.say(&submit("SAY 1 chunks"));
    assert_eq!(host.result()["subtype"], "success");
    assert_eq!(host.end().code, 0);
    assert!(!watcher.output.exists());
}

/// A run that ends does not wait for a program that might say something.
#[test]
fn commands_keep_no_run_alive() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let ran = testkit::run::run(
        command(&home)
            .args(["--model", "offline", "-p", "SAY 1 chunks"])
            .args(watcher.flags()),
    );
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (0, "hello world \n", "")
    );
}

#[test]
fn a_command_file_that_is_none_is_said_once_and_the_run_goes_on() {
    let home = Home::new();
    let ran = testkit::run::run(
        command(&home)
            .args(["--model", "offline", "-p", "SAY 1 chunks", "--input-file"])
            .arg(home.workspace()),
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello world \n"));
    assert_eq!(ran.stderr.matches("--input-file").count(), 1, "{ran:?}");
}
