//! Pictures in prompts: they reach the model, are kept once, and are there again.

use std::fs;

use serde_json::{Value, json};
use testkit::{
    faults::SmallDisk,
    home::{Home, transcripts_under},
    stub_model::{Reply, StubModel},
};

use super::{Client, recording, updates};
use crate::world::{ONRECORD, onrecord, transcript, valid_prefix};

/// A picture as a client sends it; eight bytes are enough to say what it is.
const PNG: &str = "iVBORw0KGgo=";

const NAMED: &str = "look\n[image 1: image/png, 8 bytes]";

fn with_picture(session: &str, data: &str) -> Value {
    json!({"sessionId": session, "prompt": [
        {"type": "text", "text": "look"},
        {"type": "image", "mimeType": "image/png", "data": data},
    ]})
}

/// What the model was told with the first prompt, in its last call.
fn told(stub: &StubModel) -> Value {
    let requests = stub.requests();
    let messages = requests.last().unwrap().body["messages"]
        .as_array()
        .unwrap();
    let first = messages.iter().find(|message| message["role"] == "user");
    first.unwrap()["content"].clone()
}

fn seen() -> Value {
    json!([
        {"type": "text", "text": NAMED},
        {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}},
    ])
}

#[test]
fn a_picture_is_seen_by_the_model_and_again_when_its_session_is_loaded() {
    let home = Home::new();
    let stub = StubModel::hello(1);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let answer = client
        .rpc
        .result("session/prompt", &with_picture(&session, PNG));
    assert_eq!(recording(&answer)["state"], "saved");
    assert_eq!(told(&stub), seen());
    client.end(&home);
    let records = valid_prefix(&transcript(&home));
    assert_eq!(records[0]["message"]["parts"], json!([{"text": NAMED}]));
    assert_eq!(records[0]["media"][0]["mimeType"], "image/png");

    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    client.load(&session);
    let shown: Vec<_> = updates(client.rpc.seen(), &session, "user_message_chunk")
        .into_iter()
        .map(|update| update["content"].clone())
        .collect();
    let picture = json!({"type": "image", "mimeType": "image/png", "data": PNG});
    assert_eq!(
        shown,
        [json!({"type": "text", "text": NAMED}), picture.clone()]
    );
    client.turn(&session, "and again");
    assert_eq!(told(&stub), seen());
    let bulk = json!({"sessionId": session, "cwd": home.workspace(), "mcpServers": [],
        "_meta": {"qwen.session.loadReplayMode": "bulk"}});
    let answer = client.rpc.result("session/load", &bulk);
    let replay = &answer["_meta"]["qwen.session.loadReplay"];
    assert_eq!(replay["updates"][1]["content"], picture);
    let turns = client.rpc.result(
        "qwen/status/session/turn_index",
        &json!({"sessionId": session}),
    );
    assert_eq!(turns["totalTurns"], 2, "a picture is no turn");
    client.end(&home);

    let media = transcript(&home).with_extension("media");
    assert!(media.is_dir());
    let deleted = onrecord(&home, &["sessions", "delete", &session]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    assert!(!media.exists());
}

/// R26, R27: the turn goes on, and what is not saved is not said to be.
#[test]
fn a_picture_that_has_no_room_on_the_disk_is_told_and_the_turn_goes_on() {
    let Some(disk) = SmallDisk::with_size_kib(64) else {
        return;
    };
    let home = Home::new();
    let mut command = home.command_under(&disk.fault(), ONRECORD);
    command
        .env("ONRECORD_HOME", disk.path())
        .args(["acp", "--model", "offline"]);
    let mut client = Client::start(&home, &mut command).initialized_with(&json!({"notice": {}}));
    let session = client.session();
    // 300 KiB of base64, and PNG at its beginning.
    let large = format!("iVBORw0KGgo{}", "A".repeat((300 << 10) - 11));
    let answer = client
        .rpc
        .result("session/prompt", &with_picture(&session, &large));
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(
        recording(&answer)["state"],
        "saved",
        "what is recorded is true"
    );
    assert!(client.degraded().is_empty());
    let notices = updates(client.rpc.seen(), &session, "notice");
    let text = notices[0]["content"]["text"].as_str().unwrap();
    assert!(
        text.contains("images of this prompt are not saved"),
        "{text}"
    );
    assert!(text.contains("storage_full"), "{text}");
    client.end(&home);
    let files = transcripts_under(&disk.after());
    let records = valid_prefix(&files[0]);
    assert!(records[0].get("media").is_none());
    let text = records[0]["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(text.ends_with("[1 of 1 images of this message could not be saved with it]"));
    assert!(
        !files[0].with_extension("media").exists(),
        "no half picture"
    );
}

#[test]
fn a_model_without_eyes_is_named_with_the_mend_and_the_session_goes_on() {
    let home = Home::new();
    let refusal = r#"{"error":{"message":"m does not support image input"}}"#;
    let stub = StubModel::replies(vec![Reply::json(400, refusal), Reply::hello(1)]);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let error = client
        .rpc
        .error("session/prompt", &with_picture(&session, PNG));
    let details = error["data"]["details"].as_str().unwrap();
    assert!(
        details.contains("choose a model that takes images"),
        "{details}"
    );
    client.turn(&session, "in words then");
    let told = told(&stub);
    assert!(
        told.as_str().unwrap().contains("not shown any more"),
        "{told}"
    );
    client.end(&home);
}

#[test]
fn the_offline_model_says_that_it_sees_nothing() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client
        .rpc
        .result("session/prompt", &with_picture(&session, PNG));
    let said: String = updates(client.rpc.seen(), &session, "agent_message_chunk")
        .iter()
        .filter_map(|update| update["content"]["text"].as_str())
        .collect();
    assert!(said.contains("cannot see images"), "{said}");
    client.end(&home);
}

#[test]
fn a_picture_that_is_none_is_refused_and_nothing_is_recorded() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    let error = client
        .rpc
        .error("session/prompt", &with_picture(&session, "no base64!"));
    assert_eq!(error["code"], -32_602);
    assert!(error.to_string().contains("`prompt[1]`"), "{error}");
    client.end(&home);
    assert!(home.transcripts().is_empty());
}

/// Pictures can be switched off with the record.
#[test]
fn nothing_is_kept_where_nothing_is_recorded() {
    let home = Home::new();
    let mut client = Client::offline(&home, &["--no-chat-recording"]).initialized();
    let session = client.session();
    client
        .rpc
        .result("session/prompt", &with_picture(&session, PNG));
    client.end(&home);
    let projects = fs::read_dir(home.data_root().join("projects"));
    assert_eq!(projects.into_iter().flatten().count(), 0);
}
