//! Files that the client holds: read from it and written through it, where it offers that.

use std::fs;

use serde_json::{Value, json};
use testkit::{home::Home, stub_model::StubModel};

use super::{Client, text, updates};
use crate::world::tool;

const READ: &str = "fs/read_text_file";
const WRITE: &str = "fs/write_text_file";

/// A client that offers its files, and a session of it.
fn offering(home: &Home, stub: &StubModel, fs: &Value) -> (Client, String) {
    let capabilities = json!({"fs": fs});
    let mut client = Client::of_stub(home, stub, &["--yolo"]).initialized_with(&capabilities);
    let session = client.session();
    (client, session)
}

fn told(stub: &StubModel) -> String {
    stub.requests().last().unwrap().body["messages"].to_string()
}

#[test]
fn a_file_is_read_as_the_client_holds_it() {
    let home = Home::new();
    let file = home.workspace().join("r.txt");
    fs::write(&file, "on disk\n").unwrap();
    let stub = StubModel::prompts(1);
    let (mut client, session) = offering(&home, &stub, &json!({"readTextFile": true}));
    let id = client.prompt(&session, &tool("read_file", &json!({"file_path": file})));
    let question = client.rpc.said(0, READ);
    assert_eq!(question["params"]["sessionId"], session);
    assert_eq!(question["params"]["path"], text(&file));
    client
        .rpc
        .reply(&question, &json!({"content": "in the editor\n"}));
    assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "end_turn");
    assert!(told(&stub).contains("in the editor") && !told(&stub).contains("on disk"));
    client.end(&home);
}

/// What the editor does not have open is on the disk.
#[test]
fn a_read_that_the_client_cannot_serve_comes_from_the_disk() {
    let home = Home::new();
    let file = home.workspace().join("r.txt");
    fs::write(&file, "on disk\n").unwrap();
    let stub = StubModel::prompts(1);
    let (mut client, session) = offering(&home, &stub, &json!({"readTextFile": true}));
    for refuses in [true, false] {
        let from = client.rpc.seen().len();
        let id = client.prompt(&session, &tool("read_file", &json!({"file_path": file})));
        let question = client.rpc.said(from, READ);
        if refuses {
            client.rpc.refuse(&question, -32_002, "not open");
        } else {
            client.rpc.reply(&question, &json!({"content": 1}));
        }
        assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "end_turn");
        assert!(told(&stub).contains("on disk"));
    }
    client.end(&home);
}

#[test]
fn a_write_goes_through_the_client_and_not_to_the_disk() {
    let home = Home::new();
    let file = home.workspace().join("w.txt");
    let stub = StubModel::prompts(1);
    let (mut client, session) = offering(&home, &stub, &json!({"writeTextFile": true}));
    let write = json!({"file_path": file, "content": "new text\n"});
    let id = client.prompt(&session, &tool("write_file", &write));
    let question = client.rpc.said(0, WRITE);
    assert_eq!(
        question["params"],
        json!({"sessionId": session, "path": text(&file), "content": "new text\n"})
    );
    client.rpc.reply(&question, &json!(null));
    assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "end_turn");
    assert!(!file.exists());
    let changed = updates(client.rpc.seen(), &session, "tool_call_update");
    assert_eq!(changed.last().unwrap()["status"], "completed");
    client.end(&home);
}

/// A change is made to what the person sees.
#[test]
fn an_edit_changes_the_text_in_the_editor() {
    let home = Home::new();
    let file = home.workspace().join("e.txt");
    fs::write(&file, "on disk\n").unwrap();
    let stub = StubModel::prompts(1);
    let both = json!({"readTextFile": true, "writeTextFile": true});
    let (mut client, session) = offering(&home, &stub, &both);
    let edit = json!({"file_path": file, "old_string": "editor", "new_string": "window"});
    let id = client.prompt(&session, &tool("edit", &edit));
    let question = client.rpc.said(0, READ);
    client
        .rpc
        .reply(&question, &json!({"content": "in the editor\n"}));
    let mut from = 0;
    // It may be read again right before it is written.
    let question = loop {
        let at = client.rpc.place(from, "a question about files", |f| {
            f.get("id").is_some() && (f["method"] == WRITE || f["method"] == READ)
        });
        let frame = client.rpc.seen()[at].clone();
        from = at + 1;
        if frame["method"] == WRITE {
            break frame;
        }
        if frame["id"] != question["id"] {
            client
                .rpc
                .reply(&frame, &json!({"content": "in the editor\n"}));
        }
    };
    assert_eq!(question["params"]["content"], "in the window\n");
    client.rpc.reply(&question, &json!({}));
    assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "end_turn");
    assert_eq!(fs::read_to_string(&file).unwrap(), "on disk\n");
    client.end(&home);
}

#[test]
fn a_write_that_the_client_refuses_is_told_to_the_model_and_not_done_behind_its_back() {
    let home = Home::new();
    let file = home.workspace().join("w.txt");
    let stub = StubModel::prompts(1);
    let (mut client, session) = offering(&home, &stub, &json!({"writeTextFile": true}));
    let write = json!({"file_path": file, "content": "new text\n"});
    let id = client.prompt(&session, &tool("write_file", &write));
    let question = client.rpc.said(0, WRITE);
    client
        .rpc
        .refuse(&question, -32_603, "the buffer is locked");
    assert_eq!(client.rpc.answer(id)["result"]["stopReason"], "end_turn");
    assert!(
        told(&stub).contains("the buffer is locked"),
        "{}",
        told(&stub)
    );
    assert!(!file.exists());
    let changed = updates(client.rpc.seen(), &session, "tool_call_update");
    assert_eq!(changed.last().unwrap()["status"], "failed");
    client.end(&home);
}

#[test]
fn a_cancel_frees_a_client_that_never_answers_about_its_files() {
    let home = Home::new();
    let stub = StubModel::prompts(1);
    let both = json!({"readTextFile": true, "writeTextFile": true});
    let (mut client, session) = offering(&home, &stub, &both);
    let file = home.workspace().join("w.txt");
    for (name, args, method) in [
        ("read_file", json!({"file_path": file}), READ),
        (
            "write_file",
            json!({"file_path": file, "content": "x"}),
            READ,
        ),
    ] {
        fs::write(&file, "x\n").unwrap();
        let from = client.rpc.seen().len();
        let id = client.prompt(&session, &tool(name, &args));
        client.rpc.said(from, method);
        client
            .rpc
            .notify("session/cancel", &json!({"sessionId": session}));
        assert_eq!(
            client.rpc.answer(id)["result"]["stopReason"],
            "cancelled",
            "{name}"
        );
    }
    client.end(&home);
}

#[test]
fn a_client_that_offers_no_files_is_asked_for_none() {
    let home = Home::new();
    let file = home.workspace().join("w.txt");
    let stub = StubModel::prompts(1);
    let offered = json!({"readTextFile": false, "writeTextFile": false});
    let (mut client, session) = offering(&home, &stub, &offered);
    let write = json!({"file_path": file, "content": "x\n"});
    client.turn(&session, &tool("write_file", &write));
    client.turn(&session, &tool("read_file", &json!({"file_path": file})));
    assert_eq!(fs::read_to_string(&file).unwrap(), "x\n");
    let frames = client.end(&home);
    assert!(
        !frames
            .iter()
            .any(|f| f["method"] == READ || f["method"] == WRITE)
    );
}
