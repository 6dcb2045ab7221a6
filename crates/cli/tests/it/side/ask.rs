//! A question about a tool call that a second program may answer, alone or beside the host.

use std::time::Instant;

use serde_json::{Value, json};
use testkit::home::Home;
use wire::limits::PERMISSION_WAIT_DEFAULT;

use super::{Watcher, begin, end};
use crate::{
    driven::{Host, of_subtype, of_type, tool_results},
    world::{ONRECORD, command, messages, shell, transcript, valid_prefix},
};

fn confirm(id: &Value, allowed: bool) -> Value {
    json!({"type": "confirmation_response", "request_id": id, "allowed": allowed})
}

fn is_question(message: &Value) -> bool {
    message["type"] == "control_request" && message["request"]["subtype"] == "can_use_tool"
}

/// What the second program was told of a question.
fn outcomes(watcher: &Watcher) -> Vec<Value> {
    let seen = watcher.seen();
    let responses = of_type(&seen, "control_response");
    responses.iter().map(|m| m["response"].clone()).collect()
}

#[test]
fn a_second_program_decides_where_there_is_no_host() {
    for allowed in [true, false] {
        for format in super::FORMATS {
            let home = Home::new();
            let watcher = Watcher::new(&home);
            let child = begin(
                command(&home)
                    .args([
                        "--model",
                        "offline",
                        "-o",
                        format,
                        "-p",
                        &shell("touch made"),
                    ])
                    .args(watcher.flags()),
            );
            let question = watcher.until("a question", 1, is_question);
            assert_eq!(question["request"]["input"]["command"], "touch made");
            watcher.say(&confirm(&question["request_id"], allowed));
            let ran = end(child);
            assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{format}");
            assert_eq!(home.workspace().join("made").exists(), allowed);
            let seen = watcher.seen();
            assert_eq!(tool_results(&seen[2..])[0]["is_error"], !allowed);
            assert_eq!(
                outcomes(&watcher),
                [json!({
                    "subtype": "success",
                    "request_id": question["request_id"],
                    "response": {"allowed": allowed},
                })]
            );
            let denials = of_type(&seen, "result")[0]["permission_denials"].clone();
            assert_eq!(denials.as_array().unwrap().len(), usize::from(!allowed));
        }
    }
}

/// Of two answers in one breath the first counts, and both are answered in their order.
#[test]
fn two_answers_to_one_question_are_answered_in_their_order() {
    for _ in 0..10 {
        let home = Home::new();
        let watcher = Watcher::new(&home);
        let child = begin(
            command(&home)
                .args(["--model", "offline", "-p", &shell("touch made")])
                .args(watcher.flags()),
        );
        let question = watcher.until("a question", 1, is_question);
        let id = &question["request_id"];
        watcher.add(&format!("{}\n{}\n", confirm(id, true), confirm(id, false)));
        assert_eq!(end(child).code, 0);
        let kinds: Vec<Value> = outcomes(&watcher)
            .iter()
            .map(|outcome| outcome["subtype"].clone())
            .collect();
        // The run may be over before the second one is read.
        assert_eq!(kinds[0], "success");
        assert!(kinds[1..].iter().all(|kind| kind == "error"), "{kinds:?}");
        assert!(home.workspace().join("made").exists());
    }
}

#[test]
fn an_answer_to_no_question_is_answered_with_an_error() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let mut host = Host::offline(&home, &watcher.flags());
    host.ask(&json!({"subtype": "mcp_server_status"}));
    watcher.say(&confirm(&json!("no-such-request"), true));
    let answer = watcher.kind("control_response")["response"].clone();
    assert_eq!(answer["subtype"], "error");
    assert_eq!(answer["request_id"], "no-such-request");
    assert!(
        answer["error"]
            .as_str()
            .unwrap()
            .contains("unknown request_id")
    );
    assert_eq!(host.turn("SAY 1 chunks")["subtype"], "success");
    assert_eq!(host.end().code, 0);
}

/// A driven session in which both are asked.
fn both_asked(home: &Home, watcher: &Watcher) -> (Host, Value) {
    let mut host = Host::offline(home, &watcher.flags());
    host.initialize(json!({}));
    host.prompt(&shell("touch made"));
    let question = host.question("can_use_tool");
    let beside = watcher.until("a question", 1, is_question);
    assert_eq!(question, beside, "one question, one id");
    (host, question)
}

#[test]
fn the_host_answers_first_and_the_second_program_is_told() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let (mut host, question) = both_asked(&home, &watcher);
    host.reply(&question, &json!({"behavior": "deny", "message": "no"}));
    host.result();
    watcher.say(&confirm(&question["request_id"], true));
    watcher.until("two outcomes", 2, |m| m["type"] == "control_response");
    let outcomes = outcomes(&watcher);
    assert_eq!(outcomes[0]["response"], json!({"allowed": false}));
    assert_eq!(
        outcomes[1]["subtype"], "error",
        "its own answer came too late"
    );
    let ran = host.end();
    assert_eq!(ran.code, 0);
    assert!(!home.workspace().join("made").exists());
    assert!(of_type(&messages(&ran), "control_cancel_request").is_empty());
}

#[test]
fn the_second_program_answers_first_and_the_host_is_told() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let (mut host, question) = both_asked(&home, &watcher);
    watcher.say(&confirm(&question["request_id"], true));
    let withdrawn = host.until("a withdrawal", |m| m["type"] == "control_cancel_request");
    assert_eq!(withdrawn["request_id"], question["request_id"]);
    host.result();
    host.reply(&question, &json!({"behavior": "deny"}));
    assert_eq!(host.turn("SAY 1 chunks")["subtype"], "success");
    let ran = host.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(home.workspace().join("made").exists());
    assert_eq!(of_type(&messages(&ran), "control_cancel_request").len(), 1);
    assert_eq!(outcomes(&watcher).len(), 1);
}

/// A host that says nothing more leaves the question to who can still answer it.
#[test]
fn the_second_program_may_answer_after_the_host_has_closed_its_input() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let (mut host, question) = both_asked(&home, &watcher);
    host.process().close_input();
    watcher.say(&confirm(&question["request_id"], true));
    host.result();
    assert_eq!(host.end().code, 0);
    assert!(home.workspace().join("made").exists());
}

#[test]
fn an_interrupt_tells_both_that_nothing_is_asked_any_more() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let (mut host, question) = both_asked(&home, &watcher);
    host.ask(&json!({"subtype": "interrupt"}));
    host.result();
    assert_eq!(of_type(host.seen(), "control_cancel_request").len(), 1);
    assert_eq!(
        watcher.kind("control_response")["response"]["response"],
        json!({"allowed": false})
    );
    watcher.say(&confirm(&question["request_id"], true));
    watcher.until("two outcomes", 2, |m| m["type"] == "control_response");
    assert_eq!(host.end().code, 0);
    assert!(!home.workspace().join("made").exists());
    assert_eq!(valid_prefix(&transcript(&home)).len(), 3);
}

/// Who only watches is shown the question, and is not waited for.
#[test]
fn a_program_that_cannot_answer_is_not_asked() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let ran = end(begin(
        command(&home)
            .args([
                "--model",
                "offline",
                "-o",
                "json",
                "-p",
                &shell("touch made"),
            ])
            .args(&watcher.flags()[..2]),
    ));
    assert_eq!(ran.code, 0);
    assert!(!watcher.seen().iter().any(is_question));
    assert_eq!(
        crate::world::result(&ran)["permission_denials"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// Who went away cannot answer, and is not waited for.
#[test]
fn a_program_that_went_away_is_not_asked() {
    let home = Home::new();
    let watcher = Watcher::new(&home);
    let mut bash = home.command("bash");
    bash.args([
        "-c",
        "exec \"$@\" 3> >(head -n 1 >/dev/null)",
        "bash",
        ONRECORD,
    ]);
    bash.args(["--model", "offline", "--json-fd", "3"]);
    let mut host = Host::start(bash.args(&watcher.flags()[2..]));
    host.turn("SAY 300 chunks every 1");
    assert_eq!(of_subtype(host.seen(), "warning").len(), 1);
    let began = Instant::now();
    let result = host.turn(&shell("touch made"));
    assert!(began.elapsed() < PERMISSION_WAIT_DEFAULT / 2);
    assert_eq!(result["permission_denials"].as_array().unwrap().len(), 1);
    assert_eq!(host.end().code, 0);
}
