//! The real Qwen Code on the same data root: it takes up our sessions and we its.

use std::fs;

use serde_json::{Value, json};
use testkit::{
    home::Home,
    peers::Qwen,
    run::{Outcome, run},
    stub_model::StubModel,
};

use crate::{
    acp::child::Client,
    world::{onrecord, result, shell, transcript, yolo},
};

const SESSION: &str = "7f9a1c52-3e0b-4d6a-8f21-5c4b3a291807";

fn qwen(qwen: &Qwen, home: &Home, stub: &StubModel, args: &[&str]) -> Outcome {
    let ran = run(qwen
        .command(home, &stub.base_url())
        .args([
            "--auth-type",
            "openai",
            "--approval-mode",
            "yolo",
            "--output-format",
            "json",
        ])
        .args(args));
    assert_eq!(ran.code, 0, "{ran:?}");
    ran
}

/// What a request told the model, as text.
fn told(stub: &StubModel) -> String {
    let requests = stub.requests();
    let last = requests
        .iter()
        .rfind(|request| request.path.ends_with("/chat/completions"))
        .expect("the model was asked");
    last.body["messages"].to_string()
}

fn assert_sound(home: &Home) {
    let ran = onrecord(home, &["sessions", "verify", "--all", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert_eq!(report["nGaps"], 0);
}

#[test]
fn qwen_code_takes_up_our_session_and_we_go_on_behind_it() {
    let Some(peer) = Qwen::find() else { return };
    let home = Home::new();
    let prompt = shell("echo our-tool-output");
    let mut args = yolo("text", &prompt);
    args.extend(["--session-id", SESSION]);
    onrecord(&home, &args);
    onrecord(&home, &["sessions", "rename", SESSION, "shared session"]);
    let ours = fs::read(transcript(&home)).unwrap();

    let stub = StubModel::prompts(2);
    qwen(
        &peer,
        &home,
        &stub,
        &["--resume", SESSION, "-p", "qwen takes over"],
    );
    let told = told(&stub);
    assert!(
        told.contains("our-tool-output") && told.contains("qwen takes over"),
        "{told}"
    );
    let both = fs::read(transcript(&home)).unwrap();
    assert!(both.starts_with(&ours) && both.len() > ours.len());
    assert_sound(&home);

    let ran = onrecord(
        &home,
        &[
            "--model",
            "offline",
            "-o",
            "json",
            "--continue",
            "-p",
            "what did I say before?",
        ],
    );
    assert_eq!(result(&ran)["session_id"], SESSION);
    assert!(
        result(&ran)["result"]
            .as_str()
            .unwrap()
            .contains("qwen takes over"),
        "{ran:?}"
    );
    assert!(fs::read(transcript(&home)).unwrap().starts_with(&both));
    assert_sound(&home);
}

#[test]
fn we_take_up_a_session_of_qwen_code_and_it_goes_on_behind_us() {
    let Some(peer) = Qwen::find() else { return };
    let home = Home::new();
    let stub = StubModel::prompts(2);
    qwen(
        &peer,
        &home,
        &stub,
        &[
            "--session-id",
            SESSION,
            "-p",
            &shell("echo its-tool-output"),
        ],
    );
    let its = fs::read(transcript(&home)).unwrap();
    assert_sound(&home);

    let ran = onrecord(
        &home,
        &[
            "--model",
            "offline",
            "-o",
            "json",
            "--continue",
            "-p",
            "what did I say first?",
        ],
    );
    assert!(
        result(&ran)["result"]
            .as_str()
            .unwrap()
            .contains("its-tool-output"),
        "{ran:?}"
    );
    assert!(fs::read(transcript(&home)).unwrap().starts_with(&its));

    let stub = StubModel::prompts(2);
    qwen(
        &peer,
        &home,
        &stub,
        &["--resume", SESSION, "-p", "and back again"],
    );
    let told = told(&stub);
    assert!(
        told.contains("its-tool-output") && told.contains("what did I say first?"),
        "{told}"
    );
    assert_sound(&home);
}

/// A picture is named in the text of its record, and what else the record says of it is in nobody's
/// way.
#[test]
fn qwen_code_takes_up_a_session_with_a_picture() {
    let Some(peer) = Qwen::find() else { return };
    let home = Home::new();
    let stub = StubModel::prompts(2);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let params = json!({"sessionId": session, "prompt": [
        {"type": "text", "text": "look"},
        {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
    ]});
    client.rpc.result("session/prompt", &params);
    client.end(&home);
    let ours = fs::read(transcript(&home)).unwrap();
    qwen(
        &peer,
        &home,
        &stub,
        &["--resume", &session, "-p", "qwen takes over"],
    );
    let told = told(&stub);
    assert!(
        told.contains("[image 1: image/png, 8 bytes]") && told.contains("qwen takes over"),
        "{told}"
    );
    assert!(fs::read(transcript(&home)).unwrap().starts_with(&ours));
    assert_sound(&home);

    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    client.load(&session);
    client.turn(&session, "and back");
    let requests = stub.requests();
    let body = requests.last().unwrap().body.to_string();
    assert!(
        body.contains("data:image/png;base64,iVBORw0KGgo="),
        "{body}"
    );
    client.end(&home);
}
