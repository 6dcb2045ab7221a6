//! Modes, models and titles.

use std::fs;

use serde_json::{Value, json};
use testkit::{
    home::Home,
    stub_model::{Gate, StubModel},
};

use super::{Client, held, is_chunk};
use crate::world::{shell, transcript};

const MODE_TOLD: &str = "qwen/notify/session/mode-update";
const APPROVAL: &str = "qwen/control/session/approval_mode";
const OPTION: &str = "session/set_config_option";

#[test]
fn a_mode_is_told_before_the_answer_to_whoever_is_no_daemon_and_sets_it_in_three_ways() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    let ways: [(&str, Value, &str); 3] = [
        (
            "session/set_mode",
            json!({"sessionId": session, "modeId": "plan"}),
            "plan",
        ),
        (
            OPTION,
            json!({"sessionId": session, "configId": "mode", "value": "default"}),
            "default",
        ),
        (
            APPROVAL,
            json!({"sessionId": session, "mode": "yolo"}),
            "yolo",
        ),
    ];
    let mut results = Vec::new();
    for (method, params, mode) in ways {
        let from = client.rpc.seen().len();
        let id = client.rpc.request(method, &params);
        let answered = client.rpc.place_of_answer(id);
        let news: Vec<_> = client.rpc.seen()[from..answered]
            .iter()
            .filter(|f| f["method"] == MODE_TOLD)
            .map(|f| f["params"].clone())
            .collect();
        let expected = json!({"v": 1, "sessionId": session, "currentModeId": mode});
        let n_expected = usize::from(method != APPROVAL);
        assert_eq!(news, vec![expected; n_expected], "{method}");
        results.push(client.rpc.answer(id)["result"].clone());
    }
    assert_eq!(results[0], json!({}));
    let mode = results[1]["configOptions"][0].clone();
    assert_eq!(
        (&mode["id"], &mode["currentValue"]),
        (&json!("mode"), &json!("default"))
    );
    assert_eq!(
        results[2],
        json!({"previous": "default", "current": "yolo"})
    );
    client.turn(&session, &shell("touch made"));
    assert!(
        home.workspace().join("made").exists(),
        "it counts from the next call on"
    );
    client.end(&home);
}

#[test]
fn an_unknown_mode_model_or_option_is_refused_and_changes_nothing() {
    let home = Home::new();
    let mut client = Client::offline(&home, &["--approval-mode", "plan"]).initialized();
    let session = client.session();
    let error = client.rpc.error(
        "session/set_mode",
        &json!({"sessionId": session, "modeId": "zzz"}),
    );
    assert_eq!(
        error,
        json!({"code": -32_602, "message": "Invalid params: Unknown approval mode: zzz"})
    );
    let error = client.rpc.error(
        "session/set_model",
        &json!({"sessionId": session, "modelId": "zzz"}),
    );
    assert_eq!(error["code"], -32_603, "{error}");
    for (method, params) in [
        (APPROVAL, json!({"sessionId": session, "mode": "zzz"})),
        (APPROVAL, json!({"sessionId": session})),
        (
            OPTION,
            json!({"sessionId": session, "configId": "zzz", "value": "x"}),
        ),
        (
            OPTION,
            json!({"sessionId": session, "configId": "mode", "value": "zzz"}),
        ),
        (
            OPTION,
            json!({"sessionId": session, "configId": "mode", "value": true}),
        ),
        (
            "session/set_mode",
            json!({"sessionId": "nope", "modeId": "plan"}),
        ),
        (
            "session/set_model",
            json!({"sessionId": "nope", "modelId": "offline"}),
        ),
    ] {
        assert_eq!(
            client.rpc.error(method, &params)["code"],
            -32_602,
            "{method} {params}"
        );
    }
    let context = client.rpc.result(
        "qwen/status/session/context",
        &json!({"sessionId": session}),
    );
    assert_eq!(context["state"]["modes"]["currentModeId"], "plan");
    let frames = client.end(&home);
    assert!(!frames.iter().any(|f| f["method"] == MODE_TOLD));
}

/// The mode of a session is its own.
#[test]
fn a_mode_holds_in_its_session_alone() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let (one, other) = (client.session(), client.session());
    let set = json!({"sessionId": one, "mode": "plan"});
    let previous = client.rpc.result(APPROVAL, &set)["previous"].clone();
    let set = json!({"sessionId": other, "mode": "plan"});
    assert_eq!(client.rpc.result(APPROVAL, &set)["previous"], previous);
    client.end(&home);
}

#[test]
fn another_model_of_the_endpoint_answers_from_the_next_prompt_on() {
    let home = Home::new();
    let stub = StubModel::hello(1);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    client.turn(&session, "x");
    let set = json!({"sessionId": session, "modelId": "offline"});
    let answer = client.rpc.call("session/set_model", &set);
    if answer.get("result").is_some() {
        client.turn(&session, "SAY 1 chunks");
        assert_eq!(stub.requests().len(), 1, "another one answered");
    }
    client.end(&home);
}

/// A mode may change while a turn runs; no turn is waited for.
#[test]
fn a_mode_is_set_while_a_prompt_runs() {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let id = client.prompt(&session, "go on for long");
    client.rpc.place(0, "a chunk", |f| is_chunk(f, "begun"));
    let set = json!({"sessionId": session, "mode": "plan"});
    assert_eq!(client.rpc.result(APPROVAL, &set)["current"], "plan");
    gate.open();
    assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "end_turn");
    client.end(&home);
}

/// R27: what is said to be kept can be read.
#[test]
fn a_title_is_on_disk_when_it_is_answered_also_while_a_prompt_runs() {
    const TITLE: &str = "qwen/control/session/title";
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let id = client.prompt(&session, "go on for long");
    client.rpc.place(0, "a chunk", |f| is_chunk(f, "begun"));
    for (title, source) in [("an auto title", "auto"), ("the person's", "manual")] {
        let params = json!({"sessionId": session, "displayName": title, "titleSource": source});
        let answer = client.rpc.result(TITLE, &params);
        assert_eq!(answer["persisted"], true);
        assert_eq!(answer["titleSource"], source);
        assert!(
            fs::read_to_string(transcript(&home))
                .unwrap()
                .contains(title)
        );
    }
    let rows = client.rpc.result("session/list", &json!({}))["sessions"].clone();
    assert_eq!(rows[0]["title"], "the person's");
    for params in [
        json!({"sessionId": "nope", "displayName": "x"}),
        json!({"sessionId": session}),
        json!({"sessionId": session, "displayName": 1}),
    ] {
        assert_eq!(client.rpc.error(TITLE, &params)["code"], -32_602);
    }
    gate.open();
    client.rpc.answer(id);
    client.end(&home);
}

/// R27: where nothing is recorded no title is kept.
#[test]
fn a_title_of_a_session_without_a_record_is_not_persisted() {
    let home = Home::new();
    let mut client = Client::offline(&home, &["--no-chat-recording"]).initialized();
    let session = client.session();
    let params = json!({"sessionId": session, "displayName": "x"});
    let answer = client.rpc.result("qwen/control/session/title", &params);
    assert_eq!(answer["persisted"], false);
    client.end(&home);
}

/// A name is one line of a list: it is cut where it is long, and only a line by itself is a command.
#[test]
fn a_name_is_bounded_and_a_prompt_with_more_than_a_command_is_a_prompt() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    let title = |name: &str, source: &str| json!({"sessionId": session, "displayName": name, "titleSource": source});
    const TITLE: &str = "qwen/control/session/title";
    let named = client
        .rpc
        .result(TITLE, &title(&"x".repeat(70_000), "auto"));
    assert_eq!(named["displayName"], "x".repeat(256));
    assert_eq!(
        (&named["persisted"], &named["titleSource"]),
        (&json!(true), &json!("auto"))
    );
    for wrong in [title(" ", "auto"), title("name", "weird")] {
        assert_eq!(client.rpc.error(TITLE, &wrong)["code"], -32_602);
    }
    let listed = client.rpc.result("session/list", &json!({"cursor": ""}));
    assert_eq!(listed["sessions"][0]["title"], "x".repeat(256));
    let junk = client.rpc.error("session/list", &json!({"cursor": "junk"}));
    assert_eq!(junk["code"], -32_602);

    let blocks = json!([
        {"type": "text", "text": "/rename other"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "content"}},
    ]);
    let prompt = json!({"sessionId": session, "prompt": blocks});
    client.rpc.result("session/prompt", &prompt);
    let listed = client.rpc.result("session/list", &json!({}));
    assert_eq!(listed["sessions"][0]["title"], "x".repeat(256));
}

/// What was asked before the end of input is served, with or without an open session.
#[test]
fn what_was_asked_before_the_end_of_input_is_answered() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    let title = json!({"sessionId": session, "displayName": "last words"});
    let ids = client.rpc.request_all(&[
        ("qwen/control/session/title", title),
        ("session/list", json!({})),
        (
            "session/load",
            json!({"sessionId": session, "cwd": home.workspace(), "mcpServers": []}),
        ),
    ]);
    let frames = client.end(&home);
    for id in ids {
        let answer = frames.iter().find(|frame| frame["id"] == id);
        assert!(
            answer.is_some_and(|answer| answer.get("result").is_some()),
            "{answer:?}"
        );
    }
    let text = fs::read_to_string(transcript(&home)).unwrap();
    assert!(text.contains("last words"));
}
