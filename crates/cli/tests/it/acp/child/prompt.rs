//! What a prompt may hold, and what a client sees of its turn.

use serde_json::{Value, json};
use testkit::{
    home::Home,
    stub_model::{Reply, StubModel},
};

use super::{Client, recording, updates};
use crate::world::{shell, tool, transcript, valid_prefix};

#[test]
fn the_chunks_of_an_answer_come_in_order_before_it_and_the_tokens_last() {
    let home = Home::new();
    let reply = Reply::stream()
        .text("one ")
        .text("two ")
        .text("three")
        .finish("stop")
        .event(&testkit::stub_model::usage(10, 3))
        .done();
    let stub = StubModel::replies(vec![reply]);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let id = client.prompt(&session, "count");
    let answered = client.rpc.place_of_answer(id);
    let frames = &client.rpc.seen()[..answered];
    let chunks = updates(frames, &session, "agent_message_chunk");
    let texts: Vec<_> = chunks
        .iter()
        .map(|u| u["content"]["text"].clone())
        .collect();
    assert_eq!(texts, ["one ", "two ", "three", ""]);
    assert_eq!(chunks[3]["_meta"]["usage"]["outputTokens"], 3);
    assert!(
        updates(frames, &session, "user_message_chunk").is_empty(),
        "a daemon shows it itself"
    );
    let last = client.rpc.seen().len();
    assert_eq!(
        last - 1,
        answered,
        "nothing of the turn comes behind its answer"
    );
    client.end(&home);
}

/// Every kind of content becomes text for the model, in its place.
#[test]
fn what_a_prompt_holds_reaches_the_model() {
    let home = Home::new();
    let stub = StubModel::hello(1);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let link = format!("file://{}/a.rs", home.workspace().display());
    let params = json!({"sessionId": session, "prompt": [
        {"type": "text", "text": "look at"},
        {"type": "resource_link", "uri": link, "name": "a.rs"},
        {"type": "resource_link", "uri": "https://example.org/x", "name": "x"},
        {"type": "resource", "resource":
            {"uri": "file:///w/b.txt", "mimeType": "text/plain", "text": "embedded"}},
        {"type": "resource", "resource": {"uri": "file:///w/c.bin", "blob": "AAAA"}},
        {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
        {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
        {"type": "of the future", "x": 1},
    ]});
    assert_eq!(
        client.rpc.result("session/prompt", &params)["stopReason"],
        "end_turn"
    );
    let told = stub.requests()[0].last_text().unwrap();
    let places: Vec<_> = [
        "look at",
        "/a.rs",
        "https://example.org/x",
        "embedded",
        "/w/c.bin",
        "image/png",
        "audio/wav",
        "not understood",
    ]
    .map(|part| told.find(part).unwrap_or_else(|| panic!("{part}: {told}")))
    .into();
    assert!(places.is_sorted(), "{told}");
    assert!(!told.contains("iVBOR"), "no picture is sent as text");
    client.end(&home);
    let records = valid_prefix(&transcript(&home));
    assert!(records[0].to_string().contains("embedded"));
}

#[test]
fn a_prompt_that_is_none_is_refused() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    for params in [
        json!({"sessionId": session, "prompt": []}),
        json!({"sessionId": session, "prompt": [{"type": "text", "text": "  \n"}]}),
        json!({"sessionId": session}),
        json!({"sessionId": session, "prompt": "text"}),
        json!({"sessionId": session, "prompt": [{"type": "text"}]}),
        json!({"sessionId": "nope", "prompt": [{"type": "text", "text": "x"}]}),
        json!({"prompt": [{"type": "text", "text": "x"}]}),
    ] {
        let error = client.rpc.error("session/prompt", &params);
        assert_eq!(error["code"], -32_602, "{params}: {error}");
    }
    client.end(&home);
    assert!(home.transcripts().is_empty());
}

/// R26: what the model cannot do is an error of the turn, and what was said is saved.
#[test]
fn a_model_that_fails_is_an_error_and_the_session_goes_on() {
    let home = Home::new();
    let refused = Reply::json(401, r#"{"error":{"message":"no such key"}}"#);
    let stub = StubModel::replies(vec![refused, Reply::hello(1)]);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let error = client
        .rpc
        .error("session/prompt", &super::prompt(&session, "x"));
    assert_eq!(error["code"], -32_603);
    assert!(error["data"]["details"].is_string(), "{error}");
    let answer = client.turn(&session, "again");
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(recording(&answer)["state"], "saved");
    client.end(&home);
}

#[test]
fn a_tool_call_is_shown_from_its_making_to_its_end() {
    let home = Home::new();
    std::fs::write(home.workspace().join("a.txt"), "one\n").unwrap();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    let path = home.workspace().join("a.txt");
    client.turn(&session, &tool("read_file", &json!({"file_path": path})));
    let frames = client.end(&home);
    let made = updates(&frames, &session, "tool_call");
    assert_eq!(made.len(), 1);
    assert_eq!(made[0]["status"], "pending");
    assert_eq!(made[0]["kind"], "read");
    assert_eq!(made[0]["locations"][0]["path"], json!(path));
    assert_eq!(made[0]["_meta"]["toolName"], "read_file");
    let changed = updates(&frames, &session, "tool_call_update");
    let status: Vec<_> = changed.iter().map(|u| u["status"].clone()).collect();
    assert_eq!(status, ["in_progress", "completed"]);
    assert!(
        changed[1]["rawOutput"].to_string().contains("one"),
        "{}",
        changed[1]
    );
    assert!(
        changed
            .iter()
            .all(|u| u["toolCallId"] == made[0]["toolCallId"])
    );
}

/// A reader with an older schema drops the connection at what it does not know.
#[test]
fn updates_hold_only_kinds_and_values_that_every_schema_knows() {
    const KINDS: [&str; 5] = [
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "available_commands_update",
    ];
    let home = Home::new();
    let mut client = Client::offline(&home, &["--yolo"]).initialized();
    let session = client.session();
    let file = home.workspace().join("w.txt");
    let write = json!({"file_path": file, "content": "new\n"});
    for prompt in [
        shell("echo a; exit 3"),
        tool("write_file", &write),
        tool("no_such_tool", &json!({})),
        tool("read_file", &json!({"file_path": "/does/not/exist"})),
        tool("list_directory", &json!({"path": home.workspace()})),
        "/recording".to_owned(),
    ] {
        client.turn(&session, &prompt);
    }
    let frames = client.end(&home);
    let all = frames.iter().filter(|f| f["method"] == "session/update");
    let mut n = 0;
    for update in all.map(|f| &f["params"]["update"]) {
        n += 1;
        let kind = update["sessionUpdate"].as_str().unwrap();
        assert!(KINDS.contains(&kind), "{kind}");
        if kind == "tool_call" {
            let nulls = update.as_object().unwrap().values().any(Value::is_null);
            assert!(!nulls, "{update}");
        }
    }
    assert!(n > 10);
}

/// A diff is what an editor shows of a change.
#[test]
fn an_edit_is_shown_as_a_diff() {
    let home = Home::new();
    let file = home.workspace().join("w.txt");
    std::fs::write(&file, "old\n").unwrap();
    let mut client = Client::offline(&home, &["--yolo"]).initialized();
    let session = client.session();
    let edit = json!({"file_path": file, "old_string": "old", "new_string": "new"});
    client.turn(&session, &tool("edit", &edit));
    let frames = client.end(&home);
    let changed = updates(&frames, &session, "tool_call_update");
    let diff = &changed.last().unwrap()["content"][0];
    let expected = json!({"type": "diff", "path": file, "oldText": "old\n", "newText": "new\n"});
    assert_eq!(diff, &expected);
}

/// R27: the commands say what is so.
#[test]
fn the_commands_say_whether_the_session_is_saved() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    let said = |client: &mut Client, text: &str| {
        let from = client.rpc.seen().len();
        client.turn(&session, text);
        let chunks = updates(&client.rpc.seen()[from..], &session, "agent_message_chunk");
        chunks[0]["content"]["text"].as_str().unwrap().to_owned()
    };
    assert!(said(&mut client, "/recording").contains("is saved"));
    assert_eq!(
        said(&mut client, "/rename  the title "),
        "The session is named \"the title\"."
    );
    std::fs::remove_file(transcript(&home)).unwrap();
    assert!(said(&mut client, "/rename again").contains("is not saved"));
    assert!(said(&mut client, "/recording").contains("not saved"));
    assert_eq!(client.degraded().len(), 1);
    client.end(&home);
}

/// What was left before it was done goes on where the client wants it to.
#[test]
fn an_interrupted_turn_is_said_to_be_one_and_goes_on_without_a_prompt() {
    const CONTEXT: &str = "qwen/status/session/context";
    let home = Home::new();
    let (refused, fine) = (Reply::json(401, "{}"), Reply::hello(1));
    let stub = StubModel::replies(vec![refused, fine]);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    client
        .rpc
        .error("session/prompt", &super::prompt(&session, "the question"));
    let named = json!({"sessionId": session});
    let recovery = client.rpc.result(CONTEXT, &named)["recovery"].clone();
    assert_eq!(
        recovery,
        json!({"kind": "interrupted_prompt", "canContinue": true})
    );
    let mut go_on = super::prompt(&session, "ignored");
    go_on["_meta"] = json!({"qwen.daemon.continueLastTurn": true});
    assert_eq!(
        client.rpc.result("session/prompt", &go_on)["stopReason"],
        "end_turn"
    );
    let told = stub.requests()[1].body["messages"].to_string();
    assert!(
        told.contains("the question") && !told.contains("ignored"),
        "{told}"
    );
    let recovery = client.rpc.result(CONTEXT, &named)["recovery"].clone();
    assert_eq!(recovery, json!({"kind": "clean", "canContinue": false}));
    client.end(&home);
}
