//! Lines that are none of the protocol: each is answered once, and the session goes on.

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{
    driven::WAIT_MAX,
    home::Home,
    stub_model::{Gate, Reply, StubModel},
};
use wire::limits::INPUT_LINE_BYTES_MAX;

use super::{Host, of_subtype, results, user};
use crate::world::{messages, transcript, valid_prefix};

fn bad_lines() -> Vec<(&'static str, Vec<u8>)> {
    let mut too_long = vec![b' '; INPUT_LINE_BYTES_MAX + (1 << 20)];
    too_long[0] = b'"';
    let deep = "[".repeat(200_000);
    let line = |text: &str| text.as_bytes().to_vec();
    vec![
        ("not_json", line("{not json")),
        ("not_json", line("hello")),
        ("not_json", line("{} {}")),
        ("not_json", b"{\"type\":\"\xff\xfe\"}".to_vec()),
        ("not_json", line(&deep)),
        ("not_an_object", line("[1,2]")),
        ("not_an_object", line("null")),
        ("not_an_object", line("\"user\"")),
        ("no_type", line("{}")),
        ("no_type", line(r#"{"type":7}"#)),
        (
            "no_type",
            line(r#"{"type":null,"message":{"content":"hi"}}"#),
        ),
        ("bad_field", line(r#"{"type":"user"}"#)),
        ("bad_field", line(r#"{"type":"user","message":"hi"}"#)),
        (
            "bad_field",
            line(r#"{"type":"user","message":{"content":7}}"#),
        ),
        (
            "bad_field",
            line(r#"{"type":"user","type":"user","message":{"content":"hi"}}"#),
        ),
        (
            "bad_field",
            line(r#"{"type":"control_request","request":{"subtype":"interrupt"}}"#),
        ),
        (
            "bad_field",
            line(r#"{"type":"control_response","response":{"subtype":"maybe","request_id":"x"}}"#),
        ),
        ("bad_field", line(r#"{"type":"control_response"}"#)),
        ("too_long", too_long),
    ]
}

#[test]
fn a_bad_line_is_answered_once_with_its_number_and_the_session_goes_on() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    for (index, (reason, mut line)) in bad_lines().into_iter().enumerate() {
        line.push(b'\n');
        host.send_bytes(&line);
        let answer = host.system("invalid_input");
        assert_eq!(answer["data"]["reason"], reason, "{answer}");
        assert_eq!(answer["data"]["line"], index + 1);
        assert!(!answer["data"]["message"].as_str().unwrap().is_empty());
        assert_eq!(answer["parent_tool_use_id"], Value::Null);
    }
    let result = host.turn("SAY 1 chunks");
    assert_eq!(result["subtype"], "success");
    let ran = host.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let messages = messages(&ran);
    let answers = of_subtype(&messages, "invalid_input");
    assert_eq!(answers.len(), bad_lines().len());
    assert!(
        answers
            .iter()
            .all(|answer| answer["session_id"] == result["session_id"])
    );
    assert_eq!(
        valid_prefix(&transcript(&home)).len(),
        2,
        "none of them is recorded"
    );
}

#[test]
fn a_bad_line_while_a_turn_runs_loses_no_prompt() {
    let gate = Gate::new();
    let first = Reply::stream()
        .text("one")
        .gate(&gate)
        .finish("stop")
        .done();
    let stub = StubModel::replies(vec![first, Reply::says("two")]);
    let home = Home::new();
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.prompt("first");
    host.send_bytes(b"{not json\n");
    host.prompt("second");
    host.system("invalid_input");
    gate.open();
    assert_eq!(host.result()["result"], "one");
    assert_eq!(host.result()["result"], "two");
    assert_eq!(host.end().code, 0);
}

/// The host waits for an answer under the id of its request.
#[test]
fn a_request_with_a_bad_field_is_answered_as_a_request() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    let answer = host.ask(&json!({"subtype": "set_permission_mode", "mode": 7}));
    assert_eq!(answer["subtype"], "error");
    host.send(&json!({"type": "control_request", "request_id": "no-request"}));
    assert_eq!(host.answer_to("no-request")["subtype"], "error");
    assert!(of_subtype(&messages(&host.end()), "invalid_input").is_empty());
}

#[test]
fn lines_may_end_as_on_windows_and_the_last_one_needs_no_end() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    host.send_bytes(format!("{}\r\n{}", user("SAY 1 chunks"), user("SAY 2 chunks")).as_bytes());
    let ran = host.end();
    assert_eq!(
        (ran.code, results(&messages(&ran)).len()),
        (0, 2),
        "{ran:?}"
    );
}

/// Nothing waits without bound: what is too much is refused, and only that.
#[test]
fn prompts_beyond_the_bound_are_refused_with_an_answer() {
    let gate = Gate::new();
    let first = Reply::stream()
        .text("one")
        .gate(&gate)
        .finish("stop")
        .done();
    let stub = StubModel::replies(vec![first]);
    let home = Home::new();
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.prompt("first");
    assert!(gate.wait_until_reached(WAIT_MAX));
    let large = "x".repeat(INPUT_LINE_BYTES_MAX - 1_000);
    for _ in 0..3 {
        host.prompt(&large);
    }
    let answer = host.system("invalid_input");
    assert_eq!(answer["data"]["reason"], "too_many_prompts");
    assert_eq!(answer["data"]["line"], 4);
    host.process().signal(Signal::TERM);
    let ran = host.wait();
    assert_eq!((ran.code, results(&messages(&ran)).len()), (130, 3));
}
