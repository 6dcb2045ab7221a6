//! Requests of the host: each is answered, in any mode and at any time, and does what it says.

use serde_json::{Value, json};
use testkit::{
    home::Home,
    stub_model::{Reply, StubModel},
};

use super::{Host, of_subtype, of_type};
use crate::world::{messages, shell, tool};

/// Requests that change nothing.
fn harmless() -> [Value; 7] {
    [
        json!({"subtype": "interrupt"}),
        json!({"subtype": "continue_last_turn"}),
        json!({"subtype": "supported_commands"}),
        json!({"subtype": "mcp_server_status"}),
        json!({"subtype": "get_available_models"}),
        json!({"subtype": "get_context_usage", "show_details": true}),
        json!({"subtype": "get_usage_info"}),
    ]
}

/// A host that gets no answer waits until its own time is over.
#[test]
fn every_request_is_answered_before_initialize_after_it_and_without_it() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    for at in ["before", "after", "in direct mode"] {
        match at {
            "after" => drop(host.initialize(json!({}))),
            "in direct mode" => {
                assert_eq!(host.end().code, 0);
                host = Host::offline(&home, &[]);
                host.turn("SAY 1 chunks");
            }
            _ => {}
        }
        for request in harmless() {
            let answer = host.ask(&request);
            assert_eq!(answer["subtype"], "success", "{at}: {answer}");
            assert_eq!(answer["response"]["subtype"], request["subtype"], "{at}");
        }
    }
    let ran = host.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[test]
fn what_cannot_be_served_is_an_error_that_names_it() {
    let table = [
        (json!({"subtype": "frobnicate"}), "frobnicate"),
        (
            json!({"subtype": "hook_callback", "callback_id": "x"}),
            "hook_callback",
        ),
        (
            json!({"subtype": "set_permission_mode", "mode": "nope"}),
            "plan, default, auto-edit, auto, yolo",
        ),
        (json!({"subtype": "set_permission_mode"}), "mode"),
        (
            json!({"subtype": "set_effort", "effort": "utmost"}),
            "low, medium, high",
        ),
        (json!({"subtype": "set_model", "model": "other"}), "offline"),
        (json!({"subtype": "set_model", "model": 7}), "set_model"),
        (
            json!({"subtype": "initialize", "effort": "utmost"}),
            "utmost",
        ),
        (json!({"no": "subtype"}), "subtype"),
        (json!("no object"), "subtype"),
    ];
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    for (request, word) in table {
        let answer = host.ask(&request);
        assert_eq!(answer["subtype"], "error", "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(word), "{answer}");
    }
    assert_eq!(host.turn("SAY 1 chunks")["subtype"], "success");
    let ran = host.end();
    assert_eq!(ran.code, 0);
    assert!(of_subtype(&messages(&ran), "invalid_input").is_empty());
}

/// A host that was told that `initialize` failed does not expect questions.
#[test]
fn a_refused_initialize_begins_nothing() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    host.ask(&json!({"subtype": "initialize", "effort": "utmost", "sdkMcpServers": {"calc": {}}}));
    let result = host.turn(&shell("touch made"));
    assert_eq!(result["permission_denials"].as_array().unwrap().len(), 1);
    assert!(of_type(&messages(&host.end()), "control_request").is_empty());
}

#[test]
fn initialize_may_come_again() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    let first = host.initialize(json!({"hooks": null}));
    assert_eq!(host.initialize(json!({})), first);
    assert_eq!(host.end().code, 0);
}

#[test]
fn a_request_with_its_withdrawal_is_answered_once() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    let id = host.request(&json!({"subtype": "supported_commands"}));
    host.send(&json!({"type": "control_cancel_request", "request_id": id}));
    host.send(&json!({"type": "control_cancel_request"}));
    let messages = messages(&host.end());
    assert_eq!(of_type(&messages, "control_response").len(), 1);
    assert_eq!(messages.len(), 1, "{messages:#?}");
}

#[test]
fn a_model_that_is_set_answers_from_the_next_call_on() {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.turn("hello");
    let answer = host.ask(&json!({"subtype": "set_model", "model": "other-model"}));
    assert_eq!(
        answer["response"],
        json!({"subtype": "set_model", "model": "other-model"})
    );
    let models = host.ask(&json!({"subtype": "get_available_models"}));
    let current: Vec<&Value> = models["response"]["models"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|model| model["isCurrent"] == true)
        .collect();
    assert_eq!(current.len(), 1);
    assert_eq!(current[0]["id"], "other-model");
    host.turn("hello");
    let messages = messages(&host.end());
    let models = |kind: &str, at: &str| -> Vec<Value> {
        let found = messages
            .iter()
            .filter(|m| m["type"] == kind || m["subtype"] == kind);
        found.map(|m| m.pointer(at).unwrap().clone()).collect()
    };
    assert_eq!(models("init", "/model"), ["stub", "other-model"]);
    assert_eq!(
        models("assistant", "/message/model"),
        ["stub", "other-model"]
    );
    let requests = stub.requests();
    assert_eq!(requests[0].body["model"], "stub");
    assert_eq!(requests[1].body["model"], "other-model");
}

#[test]
fn an_effort_that_is_set_reaches_the_model_that_takes_one() {
    let home = Home::new();
    let stub = StubModel::hello(1);
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.turn("hello");
    let answer = host.ask(&json!({"subtype": "set_effort", "effort": "high"}));
    assert_eq!(
        answer["response"],
        json!({"subtype": "set_effort", "effort": "high", "applied": true, "override": null})
    );
    host.turn("hello");
    assert_eq!(host.end().code, 0);
    let requests = stub.requests();
    assert!(requests[0].body.get("reasoning_effort").is_none());
    assert_eq!(requests[1].body["reasoning_effort"], "high");

    let mut host = Host::offline(&home, &[]);
    let answer = host.ask(&json!({"subtype": "set_effort", "effort": "low"}));
    assert_eq!(
        answer["response"]["applied"], false,
        "the built-in model takes none"
    );
    assert_eq!(host.end().code, 0);
}

#[test]
fn initialize_sets_the_effort_of_the_first_turn() {
    let home = Home::new();
    let stub = StubModel::hello(1);
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.initialize(json!({"effort": "medium"}));
    host.turn("hello");
    assert_eq!(stub.requests()[0].body["reasoning_effort"], "medium");
    assert_eq!(host.end().code, 0);
}

#[test]
fn a_permission_mode_that_is_set_counts_from_the_next_turn_on() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    let set = |host: &mut Host, mode: &str, n_denials: usize| {
        let answer = host.ask(&json!({"subtype": "set_permission_mode", "mode": mode}));
        assert_eq!(
            answer["response"],
            json!({"status": "updated", "mode": mode})
        );
        let result = host.turn(&shell(&format!("touch {mode}")));
        let denials = result["permission_denials"].as_array().unwrap();
        assert_eq!(
            denials.len(),
            n_denials,
            "{mode}: the list is that of the session"
        );
    };
    set(&mut host, "default", 1);
    set(&mut host, "plan", 2);
    set(&mut host, "yolo", 2);
    let messages = messages(&host.end());
    let modes: Vec<&Value> = of_subtype(&messages, "init")
        .iter()
        .map(|init| &init["permission_mode"])
        .collect();
    assert_eq!(modes, ["default", "plan", "yolo"]);
    let made = |name: &str| home.workspace().join(name).exists();
    assert!(!made("default") && !made("plan") && made("yolo"));
}

#[test]
fn a_permission_mode_that_is_set_in_mid_turn_counts_from_the_next_call_on() {
    let home = Home::new();
    let write = |name: &str| {
        let args = json!({"file_path": home.workspace().join(name), "content": "x"});
        Reply::call("write_file", &args.to_string())
    };
    let stub = StubModel::replies(vec![write("a"), write("b"), Reply::says("done.")]);
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.initialize(json!({}));
    host.prompt("write two files");
    let question = host.question("can_use_tool");
    host.ask(&json!({"subtype": "set_permission_mode", "mode": "auto-edit"}));
    host.reply(&question, &json!({"behavior": "allow"}));
    assert_eq!(host.result()["result"], "done.");
    assert_eq!(of_type(&messages(&host.end()), "control_request").len(), 1);
    assert!(home.workspace().join("a").exists() && home.workspace().join("b").exists());
}

#[test]
fn usage_and_context_are_those_of_the_session() {
    let home = Home::new();
    let mut host = Host::offline(&home, &["--yolo"]);
    let args = json!({"file_path": home.workspace().join("a"), "content": "one\ntwo\n"});
    let result = host.turn(&tool("write_file", &args));
    let usage = host.ask(&json!({"subtype": "get_usage_info", "range": "week"}));
    let usage = &usage["response"];
    assert_eq!(usage["range"], "week");
    let summary = &usage["summary"];
    assert_eq!(summary["totalTokens"], result["usage"]["total_tokens"]);
    assert_eq!(
        (&summary["requests"], &summary["toolCalls"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(summary["linesAdded"], 2);
    let context = |host: &mut Host, details: bool| {
        host.ask(&json!({"subtype": "get_context_usage", "show_details": details}))["response"]
            .clone()
    };
    let plain = context(&mut host, false);
    assert!(plain["totalTokens"].as_u64().unwrap() > 0);
    assert_eq!(plain["builtinTools"], json!([]));
    assert!(
        !context(&mut host, true)["builtinTools"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    host.turn("/clear");
    assert_eq!(
        context(&mut host, false)["totalTokens"],
        0,
        "a new session holds nothing yet"
    );
    assert_eq!(host.end().code, 0);
}

#[test]
fn the_host_can_ask_whether_a_tool_would_run() {
    let home = Home::new();
    let mut host = Host::offline(&home, &["--allowed-tools", "run_shell_command"]);
    for (name, behavior) in [
        ("read_file", "allow"),
        ("write_file", "deny"),
        ("run_shell_command", "allow"),
        ("no_such_tool", "deny"),
    ] {
        let answer = host.ask(&json!({"subtype": "can_use_tool", "tool_name": name}));
        assert_eq!(answer["response"]["behavior"], behavior, "{answer}");
        assert_eq!(
            answer["response"].get("message").is_some(),
            behavior == "deny"
        );
    }
    assert_eq!(host.end().code, 0);
}
