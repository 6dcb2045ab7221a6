//! The model's plan, as a client sees it.

use serde_json::{Value, json};
use testkit::home::Home;

use super::{Client, updates};
use crate::world::{tool, transcript, valid_prefix};

fn plan(steps: &[(&str, &str)]) -> String {
    let todos: Vec<_> = steps
        .iter()
        .enumerate()
        .map(|(n, (content, status))| {
            json!({"id": n.to_string(), "content": content, "status": status})
        })
        .collect();
    tool("todo_write", &json!({"todos": todos}))
}

fn entries(steps: &[(&str, &str)]) -> Value {
    let entries: Vec<_> = steps
        .iter()
        .map(
            |(content, status)| json!({"content": content, "priority": "medium", "status": status}),
        )
        .collect();
    json!(entries)
}

#[test]
fn a_plan_comes_whole_and_the_last_one_again_when_its_session_is_loaded() {
    const FIRST: [(&str, &str); 2] = [("look", "in_progress"), ("write", "pending")];
    const SECOND: [(&str, &str); 2] = [("look", "completed"), ("write", "in_progress")];
    let home = Home::new();
    // It needs no approval, in no mode.
    let mut client = Client::offline(&home, &["--approval-mode", "plan"]).initialized();
    let session = client.session();
    client.turn(&session, &plan(&FIRST));
    client.turn(&session, &plan(&SECOND));
    client.turn(&session, &plan(&[("look", "no word")]));
    let frames = client.end(&home);
    assert!(
        frames
            .iter()
            .all(|f| f["method"] != "session/request_permission")
    );
    let plans = updates(&frames, &session, "plan");
    assert_eq!(plans.len(), 2, "what was refused is no plan");
    assert_eq!(plans[0]["entries"], entries(&FIRST));
    assert_eq!(plans[1]["entries"], entries(&SECOND));
    let records = valid_prefix(&transcript(&home));
    let shown = &records.iter().find(|r| r["type"] == "tool_result").unwrap()["toolCallResult"];
    assert_eq!(shown["resultDisplay"]["type"], "todo_list");

    let mut client = Client::offline(&home, &[]).initialized();
    client.load(&session);
    let plans = updates(client.rpc.seen(), &session, "plan");
    assert_eq!(plans.len(), 1);
    assert_eq!(plans[0]["entries"], entries(&SECOND));
    let bulk = json!({"sessionId": session, "cwd": home.workspace(), "mcpServers": [],
        "_meta": {"qwen.session.loadReplayMode": "bulk"}});
    let answer = client.rpc.result("session/load", &bulk);
    let replay = answer["_meta"]["qwen.session.loadReplay"]["updates"]
        .as_array()
        .unwrap();
    assert_eq!(replay.last().unwrap()["entries"], entries(&SECOND));
    assert_eq!(
        replay
            .iter()
            .filter(|u| u["sessionUpdate"] == "plan")
            .count(),
        1
    );
    client.end(&home);
}

#[test]
fn sessions_know_nothing_of_the_plans_of_others() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let (one, other) = (client.session(), client.session());
    client.turn(&one, &plan(&[("mine", "pending")]));
    client.turn(&other, "SAY 1 chunks");
    client.load(&other);
    let frames = client.end(&home);
    assert!(updates(&frames, &other, "plan").is_empty());
}
