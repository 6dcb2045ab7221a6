//! The host is asked before a tool call runs, and what it answers is what happens.

use std::{fs, path::PathBuf, time::Instant};

use serde_json::{Value, json};
use testkit::{
    home::Home,
    run::Outcome,
    stub_model::{Reply, StubModel},
};

use super::{Host, of_type, results, tool_results};
use crate::world::{messages, shell, tool, transcript, valid_prefix};

/// A session in which the model writes `x` to `made` and is done, up to the question.
struct Asked {
    home: Home,
    stub: StubModel,
    host: Host,
    question: Value,
}

fn asked() -> Asked {
    asked_with(json!({}))
}

fn asked_with(initialize: Value) -> Asked {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.initialize(initialize);
    let args = json!({"file_path": home.workspace().join("made"), "content": "x"});
    host.prompt(&tool("write_file", &args));
    let question = host.question("can_use_tool");
    Asked {
        home,
        stub,
        host,
        question,
    }
}

impl Asked {
    fn made(&self) -> PathBuf {
        self.home.workspace().join("made")
    }

    /// Answers, and reads to the end of the session.
    fn replied(mut self, response: &Value) -> Replied {
        let question = self.question.clone();
        self.host.reply(&question, response);
        self.ended()
    }

    fn ended(mut self) -> Replied {
        self.host.result();
        let Self {
            home, stub, host, ..
        } = self;
        Replied::of(home, &stub, &host.end())
    }
}

/// How such a session ended.
struct Replied {
    home: Home,
    n_requests: usize,
    call: Value,
    result: Value,
    messages: Vec<Value>,
}

impl Replied {
    fn of(home: Home, stub: &StubModel, ran: &Outcome) -> Self {
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        let messages = messages(ran);
        let calls = tool_results(&messages);
        assert_eq!(calls.len(), 1, "every call has one result");
        let all = results(&messages);
        assert_eq!(all.len(), 1);
        Self {
            call: calls[0].clone(),
            result: all[0].clone(),
            n_requests: stub.requests().len(),
            home,
            messages,
        }
    }

    /// Asserts that nothing ran and why, and that the model was told.
    fn assert_not_run(&self, reason: &str, n_denials: usize) {
        assert_eq!(self.call["is_error"], true);
        let told = format!("[Operation Cancelled] Reason: {reason}");
        assert_eq!(self.call["content"], told);
        assert!(!self.home.workspace().join("made").exists());
        let denials = self.result["permission_denials"].as_array().unwrap();
        assert_eq!(denials.len(), n_denials);
        assert_eq!(
            valid_prefix(&transcript(&self.home))[2]["type"],
            "tool_result"
        );
    }

    /// Asserts that the model was asked again, and the turn ended well.
    fn assert_went_on(&self) {
        assert_eq!(self.n_requests, 2);
        assert_eq!(self.result["subtype"], "success");
        assert_eq!(self.result["result"], "done.");
    }

    fn n_withdrawn(&self) -> usize {
        of_type(&self.messages, "control_cancel_request").len()
    }
}

#[test]
fn a_call_that_needs_approval_asks_the_host_with_all_it_needs_to_decide() {
    let asked = asked();
    let request = &asked.question["request"];
    assert_eq!(request["tool_name"], "write_file");
    assert_eq!(
        request["input"],
        json!({"file_path": asked.made(), "content": "x"})
    );
    let suggested: Vec<&Value> = request["permission_suggestions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|suggestion| &suggestion["type"])
        .collect();
    assert_eq!(suggested, ["allow", "deny", "modify"]);
    assert_eq!(
        request["permission_suggestions"][0]["description"],
        "Edit file: made"
    );
    assert_eq!(request["blocked_path"], Value::Null);
    let call = of_type(asked.host.seen(), "assistant")[0]["message"]["content"][0].clone();
    assert_eq!(request["tool_use_id"], call["id"]);
    assert!(!asked.made().exists(), "nothing runs before the answer");
}

#[test]
fn an_allowed_call_runs() {
    let replied = asked().replied(&json!({"behavior": "allow"}));
    replied.assert_went_on();
    assert_eq!(replied.call["is_error"], false);
    assert_eq!(
        fs::read_to_string(replied.home.workspace().join("made")).unwrap(),
        "x"
    );
    assert_eq!(replied.result["permission_denials"], json!([]));
    assert_eq!(replied.n_withdrawn(), 0);
}

#[test]
fn a_call_runs_as_the_host_changed_it_and_the_model_is_told() {
    let asked = asked();
    let other = asked.home.workspace().join("other");
    let response = json!({
        "behavior": "allow",
        "updatedInput": {"file_path": other, "content": "y"},
    });
    let replied = asked.replied(&response);
    replied.assert_went_on();
    assert_eq!(fs::read_to_string(other).unwrap(), "y");
    assert!(
        !replied.home.workspace().join("made").exists(),
        "the original did not run"
    );
    let told = replied.call["content"].as_str().unwrap();
    assert!(
        told.contains(&response["updatedInput"].to_string()),
        "{told}"
    );
}

/// SDKs hand the input back as it was.
#[test]
fn an_input_that_is_handed_back_unchanged_is_no_change() {
    let asked = asked();
    let input = asked.question["request"]["input"].clone();
    let replied = asked.replied(&json!({"behavior": "allow", "updatedInput": input}));
    replied.assert_went_on();
    let told = replied.call["content"].as_str().unwrap();
    assert!(!told.contains("changed"), "{told}");
}

#[test]
fn a_changed_call_stays_inside_the_workspace() {
    let asked = asked();
    let outside = asked.home.path().join("outside");
    let changed = json!({"file_path": outside, "content": "y"});
    let replied = asked.replied(&json!({"behavior": "allow", "updatedInput": changed}));
    assert_eq!(replied.call["is_error"], true);
    assert!(!outside.exists());
}

#[test]
fn what_the_host_wanted_is_not_guessed() {
    for input in [json!("text"), json!([1]), json!(7)] {
        let replied = asked().replied(&json!({"behavior": "allow", "updatedInput": input}));
        replied.assert_went_on();
        replied.assert_not_run("Error: updatedInput is no object", 0);
    }
    let replied = asked().replied(&json!({"behavior": "allow", "updatedInput": null}));
    assert_eq!(replied.call["is_error"], false, "null is no input");
}

#[test]
fn an_answer_that_is_none_runs_nothing() {
    for response in [
        json!({"behavior": "perhaps"}),
        json!({}),
        json!("allow"),
        Value::Null,
    ] {
        let replied = asked().replied(&response);
        replied.assert_went_on();
        assert_eq!(replied.call["is_error"], true, "{response}");
        assert!(!replied.home.workspace().join("made").exists());
        let told = replied.call["content"].as_str().unwrap();
        assert!(told.contains("not understood"), "{told}");
    }
}

#[test]
fn a_denied_call_does_not_run_and_is_listed() {
    let replied = asked().replied(&json!({"behavior": "deny", "message": "not today"}));
    replied.assert_went_on();
    replied.assert_not_run("not today", 1);
    let denial = &replied.result["permission_denials"][0];
    assert_eq!(denial["tool_name"], "write_file");
    assert_eq!(denial["tool_use_id"], replied.call["tool_use_id"]);
    assert_eq!(denial["tool_input"]["content"], "x");
}

#[test]
fn a_denial_that_interrupts_ends_the_turn_and_the_model_is_not_asked_again() {
    let mut asked = asked();
    let question = asked.question.clone();
    let deny = json!({"behavior": "deny", "message": "stop", "interrupt": true});
    asked.host.reply(&question, &deny);
    let result = asked.host.result();
    assert_eq!(result["error"]["message"], "Operation cancelled.");
    assert_eq!(asked.stub.requests().len(), 1);
    assert_eq!(
        asked.host.turn("hello")["subtype"],
        "success",
        "the session goes on"
    );
    assert_eq!(asked.host.end().code, 0);
    let records = valid_prefix(&transcript(&asked.home));
    assert_eq!(records.len(), 5, "the call has its result");
}

#[test]
fn an_error_of_the_host_runs_nothing() {
    let mut asked = asked();
    let question = asked.question.clone();
    asked.host.reply_with_error(&question, "host exploded");
    let replied = asked.ended();
    replied.assert_went_on();
    replied.assert_not_run("Error: host exploded", 0);
}

#[test]
fn a_host_that_does_not_answer_in_its_time_runs_nothing_and_is_told() {
    let began = Instant::now();
    let replied = asked_with(json!({"timeout": {"canUseTool": 50}})).ended();
    assert!(began.elapsed() < testkit::driven::WAIT_MAX / 2);
    replied.assert_went_on();
    replied.assert_not_run("Error: Control request timeout", 0);
    assert_eq!(replied.n_withdrawn(), 1, "a late answer is not waited for");
}

#[test]
fn a_host_that_closes_its_input_while_it_is_asked_runs_nothing() {
    let mut asked = asked();
    asked.host.process().close_input();
    let replied = asked.ended();
    replied.assert_went_on();
    replied.assert_not_run("Error: Input closed", 0);
}

#[test]
fn a_host_whose_input_is_closed_already_is_not_waited_for() {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.initialize(json!({}));
    let args = json!({"file_path": home.workspace().join("made"), "content": "x"});
    host.prompt(&tool("write_file", &args));
    let replied = Replied::of(home, &stub, &host.end());
    replied.assert_went_on();
    replied.assert_not_run("Error: Input closed", 0);
}

#[test]
fn an_interrupt_withdraws_the_question() {
    let mut asked = asked();
    asked.host.ask(&json!({"subtype": "interrupt"}));
    let result = asked.host.result();
    assert_eq!(result["error"]["message"], "Operation cancelled.");
    let withdrawn = of_type(asked.host.seen(), "control_cancel_request");
    assert_eq!(withdrawn.len(), 1);
    assert_eq!(withdrawn[0]["request_id"], asked.question["request_id"]);
    let question = asked.question.clone();
    asked.host.reply(&question, &json!({"behavior": "allow"}));
    asked.host.turn("hello");
    assert!(
        !asked.made().exists(),
        "an answer that comes too late runs nothing"
    );
    assert_eq!(asked.host.end().code, 0);
}

#[test]
fn answers_to_nothing_are_ignored() {
    let mut asked = asked();
    let mut unknown = asked.question.clone();
    unknown["request_id"] = json!("no-such-request");
    asked.host.reply(&unknown, &json!({"behavior": "deny"}));
    asked.host.reply_with_error(&unknown, "no");
    let question = asked.question.clone();
    asked.host.reply(&question, &json!({"behavior": "allow"}));
    // The second answer to the same question comes too late.
    asked.host.reply(&question, &json!({"behavior": "deny"}));
    let replied = asked.ended();
    replied.assert_went_on();
    assert_eq!(replied.call["is_error"], false);
    assert!(super::of_subtype(&replied.messages, "invalid_input").is_empty());
}

#[test]
fn a_command_shows_what_it_would_run() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    host.initialize(json!({}));
    host.prompt(&shell("touch made"));
    let question = host.question("can_use_tool");
    let suggestions = &question["request"]["permission_suggestions"];
    assert_eq!(suggestions.as_array().unwrap().len(), 2);
    assert_eq!(suggestions[0]["description"], "Execute: touch made");
    host.reply(&question, &json!({"behavior": "allow"}));
    host.result();
    assert!(home.workspace().join("made").exists());
    assert_eq!(host.end().code, 0);
}

#[test]
fn reading_asks_nobody() {
    let home = Home::new();
    fs::write(home.workspace().join("a"), "text").unwrap();
    let mut host = Host::offline(&home, &[]);
    host.initialize(json!({}));
    host.turn(&tool(
        "read_file",
        &json!({"file_path": home.workspace().join("a")}),
    ));
    assert!(of_type(&messages(&host.end()), "control_request").is_empty());
}

/// Without `initialize` nobody said that questions are answered.
#[test]
fn a_host_that_never_initialized_is_not_asked() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    let result = host.turn(&shell("touch made"));
    assert_eq!(result["permission_denials"].as_array().unwrap().len(), 1);
    assert!(!home.workspace().join("made").exists());
    assert!(of_type(&messages(&host.end()), "control_request").is_empty());
}

#[test]
fn two_calls_of_one_response_ask_one_after_the_other() {
    let home = Home::new();
    let call = |index: usize, name: &str| {
        let args = json!({"file_path": home.workspace().join(name), "content": "x"});
        json!({"index": index, "id": format!("call_{name}"), "type": "function",
               "function": {"name": "write_file", "arguments": args.to_string()}})
    };
    let delta = json!({"tool_calls": [call(0, "a"), call(1, "b")]});
    let both = Reply::stream()
        .event(&testkit::stub_model::delta(delta, None))
        .finish("tool_calls")
        .done();
    let stub = StubModel::replies(vec![both, Reply::says("done.")]);
    let mut host = Host::of_stub(&home, &stub, &[]);
    host.initialize(json!({}));
    host.prompt("write both");
    let first = host.question("can_use_tool");
    assert_eq!(first["request"]["tool_use_id"], "call_a");
    host.reply(&first, &json!({"behavior": "deny", "message": "no"}));
    let second = host.question("can_use_tool");
    assert_eq!(second["request"]["tool_use_id"], "call_b");
    host.reply(&second, &json!({"behavior": "allow"}));
    host.result();
    assert!(!home.workspace().join("a").exists() && home.workspace().join("b").exists());
    assert_eq!(host.end().code, 0);
}
