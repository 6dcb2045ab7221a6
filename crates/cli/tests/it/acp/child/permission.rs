//! How a client, and a daemon around the agent, are asked about tool calls.

use serde_json::{Value, json};
use testkit::{home::Home, stub_model::StubModel};

use super::{Client, prompt, stub_command, updates};
use crate::world::{shell, tool};

const ASKED: &str = "session/request_permission";
const PREPARE: &str = "qwen/control/external_tool_guard/prepare";

fn chosen(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

/// A client in mode `default`, and a session of it.
fn asking(home: &Home) -> (Client, String) {
    let mut client = Client::offline(home, &["--approval-mode", "default"]).initialized();
    let session = client.session();
    (client, session)
}

fn was_made(home: &Home) -> bool {
    home.workspace().join("made").exists()
}

/// The status of the last change of a call.
fn last_status(client: &Client, session: &str) -> Value {
    let changed = updates(client.rpc.seen(), session, "tool_call_update");
    changed.last().unwrap()["status"].clone()
}

#[test]
fn a_question_says_what_would_be_done_and_what_may_be_answered() {
    let home = Home::new();
    let (mut client, session) = asking(&home);
    let id = client.prompt(&session, &shell("touch made"));
    let question = client.rpc.said(0, ASKED);
    let params = &question["params"];
    assert_eq!(params["sessionId"], session);
    let options: Vec<_> = params["options"].as_array().unwrap().iter().collect();
    let kinds: Vec<_> = options
        .iter()
        .map(|o| (&o["optionId"], &o["kind"]))
        .collect();
    assert_eq!(
        json!(kinds),
        json!([
            ["proceed_once", "allow_once"],
            ["proceed_always", "allow_always"],
            ["cancel", "reject_once"],
        ])
    );
    let call = &params["toolCall"];
    assert_eq!(call["kind"], "execute");
    assert_eq!(call["rawInput"]["command"], "touch made");
    assert!(call["content"].to_string().contains("touch made"));
    let made = updates(client.rpc.seen(), &session, "tool_call");
    assert_eq!(
        made[0]["toolCallId"], call["toolCallId"],
        "shown before it is asked about"
    );
    assert!(!was_made(&home));
    client.rpc.reply(&question, &chosen("proceed_once"));
    assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "end_turn");
    assert!(was_made(&home));
    assert_eq!(last_status(&client, &session), "completed");
    client.end(&home);
}

/// What is not a yes is a no, and the turn goes on.
#[test]
fn only_a_yes_lets_a_call_run() {
    for answer in [
        chosen("cancel"),
        chosen("an option that was not offered"),
        json!({"outcome": {"outcome": "cancelled"}}),
        json!({"outcome": {"outcome": "of the future"}}),
        json!({"outcome": "selected"}),
        json!({}),
        json!(null),
        json!([1, 2]),
    ] {
        let home = Home::new();
        let (mut client, session) = asking(&home);
        let id = client.prompt(&session, &shell("touch made"));
        let question = client.rpc.said(0, ASKED);
        client.rpc.reply(&question, &answer);
        assert_eq!(
            client.rpc.answer(id)["result"]["stopReason"],
            "end_turn",
            "{answer}"
        );
        assert_eq!(last_status(&client, &session), "failed", "{answer}");
        assert!(!was_made(&home), "{answer}");
        client.end(&home);
    }
}

#[test]
fn a_client_that_answers_with_an_error_does_not_let_the_call_run() {
    let home = Home::new();
    let (mut client, session) = asking(&home);
    let id = client.prompt(&session, &shell("touch made"));
    let question = client.rpc.said(0, ASKED);
    client.rpc.refuse(&question, -32_601, "Method not found");
    assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "end_turn");
    assert!(!was_made(&home));
    client.end(&home);
}

/// case-M04: a question that nobody answers is freed by the cancel; the late answer harms nothing.
#[test]
fn a_cancel_frees_a_question_that_is_never_answered() {
    let home = Home::new();
    let (mut client, session) = asking(&home);
    let id = client.prompt(&session, &shell("touch made"));
    let question = client.rpc.said(0, ASKED);
    let named = json!({"sessionId": session});
    let cancel = client.rpc.request("craft/cancelPendingPrompt", &named);
    assert_eq!(
        client.rpc.answer(cancel)["result"],
        json!({"cancelled": true})
    );
    let answered = client.rpc.place_of_answer(id);
    assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "cancelled");
    let failed = client.rpc.place(0, "the call's end", |f| {
        f["params"]["update"]["status"] == "failed"
    });
    assert!(failed < answered);
    client.rpc.reply(&question, &chosen("proceed_once"));
    assert_eq!(
        client.turn(&session, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    assert!(!was_made(&home));
    client.end(&home);
}

/// A session that closes, and an end of the input, free it too.
#[test]
fn a_close_and_an_end_free_a_question_that_is_never_answered() {
    for closes in [true, false] {
        let home = Home::new();
        let (mut client, session) = asking(&home);
        let id = client.prompt(&session, &shell("touch made"));
        client.rpc.said(0, ASKED);
        if closes {
            assert_eq!(client.close(&session, true)["result"]["closed"], true);
        }
        let frames = client.end(&home);
        let answer = frames
            .iter()
            .find(|f| f["id"] == id && f.get("method").is_none());
        assert_eq!(answer.unwrap()["result"]["stopReason"], "cancelled");
        assert!(!was_made(&home));
    }
}

/// Always is for one tool of one session.
#[test]
fn always_holds_for_the_tool_in_its_session_and_no_further() {
    let home = Home::new();
    let (mut client, session) = asking(&home);
    let id = client.prompt(&session, &shell("true"));
    let question = client.rpc.said(0, ASKED);
    client.rpc.reply(&question, &chosen("proceed_always"));
    client.rpc.answer(id);
    client.turn(&session, &shell("touch made"));
    assert!(was_made(&home), "not asked again");
    assert_eq!(client.rpc.all_of(ASKED).len(), 1);

    let write = json!({"file_path": home.workspace().join("w"), "content": "x"});
    let from = client.rpc.seen().len();
    let id = client.prompt(&session, &tool("write_file", &write));
    let question = client.rpc.said(from, ASKED);
    client.rpc.reply(&question, &chosen("cancel"));
    client.rpc.answer(id);

    let other = client.session();
    let from = client.rpc.seen().len();
    let id = client.prompt(&other, &shell("true"));
    let question = client.rpc.said(from, ASKED);
    client.rpc.reply(&question, &chosen("cancel"));
    client.rpc.answer(id);
    client.end(&home);
}

/// A daemon's child, whose parent proved itself and wants to be asked.
fn guarded(home: &Home, stub: &StubModel, args: &[&str]) -> (Client, String) {
    let mut command = stub_command(home, stub);
    command
        .args(args)
        .env("QWEN_CODE_PRIVATE_ACP_CAPABILITY", "secret")
        .env("QWEN_CODE_PRIVATE_EXTERNAL_TOOL_GUARD", "required-v1");
    let mut client = Client::start(home, &mut command);
    let meta = json!({"qwen-code/private-parent-capability": "secret"});
    let hello = json!({"protocolVersion": 1, "clientCapabilities": {}, "_meta": meta});
    client.rpc.result("initialize", &hello);
    let session = client.session();
    (client, session)
}

/// What the model is told last.
fn told(stub: &StubModel) -> String {
    stub.requests().last().unwrap().body["messages"].to_string()
}

#[test]
fn a_parent_that_guards_is_asked_before_every_tool_reads_included() {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let (mut client, session) = guarded(&home, &stub, &["--yolo"]);
    for text in [
        shell("touch made"),
        tool("list_directory", &json!({"path": home.workspace()})),
    ] {
        let from = client.rpc.seen().len();
        let mut params = prompt(&session, &text);
        params["_meta"] = json!({"qwen-code/invocation":
            {"version": 1, "sessionId": session, "promptId": "prompt-1"}});
        let id = client.rpc.request("session/prompt", &params);
        let question = client.rpc.said(from, PREPARE);
        let asked = &question["params"];
        assert_eq!(asked["sessionId"], session);
        assert_eq!(asked["promptId"], "prompt-1");
        assert_eq!(asked["invocationCwd"], json!(home.workspace()));
        assert!(
            asked["toolCallId"].is_string() && asked["arguments"].is_object(),
            "{asked}"
        );
        assert!(text.contains(asked["toolName"].as_str().unwrap()));
        assert!(
            !updates(&client.rpc.seen()[from..], &session, "tool_call_update")
                .iter()
                .any(|u| u["status"] == "in_progress")
        );
        client.rpc.reply(&question, &json!({"allowed": true}));
        assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "end_turn");
        assert_eq!(last_status(&client, &session), "completed");
    }
    assert!(was_made(&home));
    client.end(&home);
}

#[test]
fn what_a_parent_refuses_does_not_run_and_the_model_is_told_why() {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let (mut client, session) = guarded(&home, &stub, &["--yolo"]);
    for (answer, reason) in [
        (
            json!({"allowed": false, "reason": "not on a Sunday"}),
            "not on a Sunday",
        ),
        (json!({"allowed": false}), "did not allow it"),
        (json!({"allowed": "yes"}), "did not allow it"),
        (json!({}), "did not allow it"),
    ] {
        let from = client.rpc.seen().len();
        let id = client.prompt(&session, &shell("touch made"));
        let question = client.rpc.said(from, PREPARE);
        client.rpc.reply(&question, &answer);
        assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "end_turn");
        assert!(told(&stub).contains(reason), "{answer}");
        assert_eq!(last_status(&client, &session), "failed");
    }
    let from = client.rpc.seen().len();
    let id = client.prompt(&session, &shell("touch made"));
    let question = client.rpc.said(from, PREPARE);
    client.rpc.refuse(&question, -32_601, "Method not found");
    assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "end_turn");
    assert!(told(&stub).contains("did not allow it"));
    assert!(!was_made(&home));
    client.end(&home);
}

/// The person is asked first, and a call that the person rejects is none that the parent hears of.
#[test]
fn the_parent_is_asked_after_the_person() {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let (mut client, session) = guarded(&home, &stub, &["--approval-mode", "default"]);
    let id = client.prompt(&session, &shell("touch made"));
    let question = client.rpc.said(0, ASKED);
    assert!(client.rpc.all_of(PREPARE).is_empty());
    client.rpc.reply(&question, &chosen("proceed_once"));
    let asked = client.rpc.said(0, PREPARE);
    assert!(!was_made(&home));
    client.rpc.reply(&asked, &json!({"allowed": true}));
    client.rpc.answer(id);
    assert!(was_made(&home));

    let from = client.rpc.seen().len();
    let id = client.prompt(&session, &shell("touch made"));
    let question = client.rpc.said(from, ASKED);
    client.rpc.reply(&question, &chosen("cancel"));
    client.rpc.answer(id);
    assert_eq!(client.rpc.all_of(PREPARE).len(), 1);
    client.end(&home);
}

#[test]
fn a_cancel_frees_a_guard_that_never_answers() {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let (mut client, session) = guarded(&home, &stub, &["--yolo"]);
    let id = client.prompt(&session, &shell("touch made"));
    client.rpc.said(0, PREPARE);
    client
        .rpc
        .notify("session/cancel", &json!({"sessionId": session}));
    assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "cancelled");
    assert!(!was_made(&home));
    client.end(&home);
}

#[test]
fn a_client_that_is_no_parent_is_not_asked_to_guard() {
    let home = Home::new();
    let mut client = Client::offline(&home, &["--yolo"]).initialized();
    let session = client.session();
    client.turn(&session, &shell("touch made"));
    assert!(was_made(&home));
    let frames = client.end(&home);
    assert!(!frames.iter().any(|f| f["method"] == PREPARE));
}
