//! Prompts become turns: in their order, one after another, each with one result.

use serde_json::{Value, json};
use testkit::{
    home::Home,
    stub_model::{Gate, Reply, StubModel},
};

use super::{Host, of_subtype, of_type, results, user};
use crate::world::{messages, transcript, valid_prefix};

/// What the model was asked, as the text of the last message of each request.
fn asked(stub: &StubModel) -> Vec<String> {
    let requests = stub.requests();
    requests
        .iter()
        .filter_map(testkit::stub_model::Received::last_text)
        .collect()
}

#[test]
fn prompts_run_in_their_order_and_never_two_at_a_time() {
    let gate = Gate::new();
    let first = Reply::stream()
        .text("one")
        .gate(&gate)
        .finish("stop")
        .done();
    let stub = StubModel::replies(vec![first, Reply::says("two"), Reply::says("three")]);
    let home = Home::new();
    let mut host = Host::of_stub(&home, &stub, &[]);
    for prompt in ["first", "second", "third"] {
        host.prompt(prompt);
    }
    assert!(gate.wait_until_reached(testkit::driven::WAIT_MAX));
    // Its answer shows that all lines before it were read.
    host.ask(&json!({"subtype": "mcp_server_status"}));
    assert_eq!(asked(&stub), ["first"]);
    gate.open();
    let answers: Vec<Value> = (0..3).map(|_| host.result()["result"].clone()).collect();
    assert_eq!(answers, ["one", "two", "three"]);
    let ran = host.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(asked(&stub), ["first", "second", "third"]);
    let order: Vec<String> = messages(&ran)
        .iter()
        .filter(|m| m["type"] != "control_response" && m["type"] != "stream_event")
        .map(|m| m["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(order, ["system", "assistant", "result"].repeat(3));
}

/// The first line decides nothing: a session that was never initialized works.
#[test]
fn a_prompt_needs_no_initialize() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    let result = host.turn("SAY 2 chunks");
    assert_eq!(result["subtype"], "success");
    assert_eq!(result["result"], "hello world hello world ");
    assert_eq!(result["is_error"], false);
    let init = host.seen()[0].clone();
    assert_eq!(init["subtype"], "init");
    assert_eq!(init["session_id"], result["session_id"]);
    assert_eq!(host.end().code, 0);
}

#[test]
fn initialize_names_the_session_of_the_turns_that_follow() {
    let home = Home::new();
    let mut host = Host::offline(&home, &["--channel=SDK"]);
    let answer = host.initialize(json!({"hooks": null}));
    assert_eq!(answer["subtype"], "initialize");
    assert_eq!(answer["capabilities"]["can_handle_can_use_tool"], true);
    assert_eq!(answer["capabilities"]["can_handle_hook_callback"], false);
    let result = host.turn("SAY 1 chunks");
    assert_eq!(result["session_id"], answer["session_id"]);
    let path = transcript(&home);
    assert_eq!(
        path.file_stem().unwrap().to_str(),
        answer["session_id"].as_str()
    );
    assert_eq!(host.end().code, 0);
}

/// SDKs for Python pass the id of a new session.
#[test]
fn a_session_has_the_id_that_its_host_chose() {
    let id = "123e4567-e89b-42d3-a456-426614174000";
    let home = Home::new();
    let mut host = Host::offline(&home, &["--session-id", id]);
    assert_eq!(host.turn("SAY 1 chunks")["session_id"], id);
    assert_eq!(host.end().code, 0);
}

#[test]
fn every_turn_begins_with_init_and_no_message_has_the_id_of_another() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    for _ in 0..3 {
        host.turn("SAY 1 chunks");
    }
    let messages = messages(&host.end());
    assert_eq!(of_subtype(&messages, "init").len(), 3);
    assert_eq!(messages[0]["uuid"], messages[0]["session_id"]);
    let mut ids: Vec<&str> = messages.iter().filter_map(|m| m["uuid"].as_str()).collect();
    let n_ids = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), n_ids);
    // The goal feature's state is said once.
    assert_eq!(of_type(&messages, "stream_event").len(), 1);
}

#[test]
fn the_conversation_goes_on_and_its_totals_are_those_of_the_session() {
    let home = Home::new();
    let stub = StubModel::hello(1);
    let mut host = Host::of_stub(&home, &stub, &[]);
    let first = host.turn("the first prompt");
    let second = host.turn("the second prompt");
    assert_eq!(host.end().code, 0);
    let n_tokens = |result: &Value| result["usage"]["total_tokens"].as_u64().unwrap();
    assert_eq!(n_tokens(&second), 2 * n_tokens(&first));
    assert_eq!(second["num_turns"], 1);
    let told = stub.requests()[1].body["messages"].to_string();
    assert!(told.contains("the first prompt"), "{told}");
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4);
}

#[test]
fn blocks_of_a_prompt_are_joined_and_what_is_no_text_is_kept() {
    let home = Home::new();
    let stub = StubModel::hello(1);
    let mut host = Host::of_stub(&home, &stub, &[]);
    let mut prompt = user("");
    prompt["message"]["content"] = json!([
        {"type": "text", "text": "second"},
        {"type": "text", "text": "part two"},
        {"type": "image", "source": "x"},
    ]);
    host.send(&prompt);
    host.result();
    assert_eq!(
        asked(&stub),
        ["second\npart two\n{\"type\":\"image\",\"source\":\"x\"}"]
    );
    assert_eq!(host.end().code, 0);
}

#[test]
fn what_says_nothing_is_no_turn() {
    let home = Home::new();
    let mut host = Host::offline(&home, &[]);
    let mut no_blocks = user("");
    no_blocks["message"]["content"] = json!([]);
    for nothing in [
        user(""),
        user(" \n\t"),
        no_blocks,
        json!({"type": "weird", "x": 1}),
    ] {
        host.send(&nothing);
    }
    host.send_bytes(b"\n  \r\n");
    host.turn("SAY 1 chunks");
    let messages = messages(&host.end());
    assert_eq!(results(&messages).len(), 1);
    assert!(of_subtype(&messages, "invalid_input").is_empty());
}

#[test]
fn a_typed_prompt_is_the_first_turn() {
    for typed in [&["-p", "SAY 1 chunks"][..], &["SAY 1 chunks"]] {
        let home = Home::new();
        let mut host = Host::offline(&home, typed);
        host.prompt("SAY 2 chunks");
        assert_eq!(host.result()["result"], "hello world ");
        assert_eq!(host.result()["result"], "hello world hello world ");
        let ran = host.end();
        assert_eq!((ran.code, results(&messages(&ran)).len()), (0, 2));
    }
}

/// case-L06: who drives a session reads each result; the session itself went well.
#[test]
fn a_failed_turn_is_an_error_result_and_the_next_one_runs() {
    let home = Home::new();
    let stub = StubModel::replies(vec![
        Reply::json(401, r#"{"error":{"message":"Incorrect API key provided"}}"#),
        Reply::says("better"),
    ]);
    let mut host = Host::of_stub(&home, &stub, &[]);
    let failed = host.turn("first");
    assert_eq!(failed["subtype"], "error_during_execution");
    assert_eq!(failed["is_error"], true);
    assert!(failed.get("result").is_none());
    assert_eq!(host.turn("second")["result"], "better");
    let ran = host.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[test]
fn partial_messages_come_in_every_turn() {
    let home = Home::new();
    let mut host = Host::offline(&home, &["--include-partial-messages"]);
    host.turn("SAY 2 chunks");
    host.turn("SAY 3 chunks");
    let messages = messages(&host.end());
    let deltas = of_type(&messages, "stream_event")
        .into_iter()
        .filter(|m| m["event"]["type"] == "content_block_delta");
    assert_eq!(deltas.count(), 5);
}
