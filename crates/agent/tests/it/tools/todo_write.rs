//! `todo_write`.

use agent::tool::{Display, TodoStatus};
use serde_json::{Value, json};

use super::Place;

fn item(id: &str, content: &str, status: &str) -> Value {
    json!({"id": id, "content": content, "status": status})
}

#[tokio::test]
async fn a_plan_is_shown_as_it_was_written_and_counted_for_the_model() {
    let place = Place::new();
    let todos = [
        item("1", "look", "completed"),
        item("2", "think", "in_progress"),
        item("3", "write", "pending"),
    ];
    let output = place
        .run("todo_write", json!({"todos": todos}))
        .await
        .unwrap();
    assert_eq!(
        output.text,
        "The plan is written down: 3 items, of which 1 completed, 1 in progress, 1 pending."
    );
    let Display::Plan(plan) = output.display else {
        panic!("{:?}", output.display);
    };
    assert_eq!(plan[1].content, "think");
    assert_eq!(plan[1].status, TodoStatus::InProgress);
    let empty = place.answer("todo_write", json!({"todos": []})).await;
    assert_eq!(empty, "The plan is empty now.");
}

#[tokio::test]
async fn a_plan_that_is_wrong_is_refused_with_what_is_wrong_in_it() {
    let place = Place::new();
    let many: Vec<_> = (0..101)
        .map(|n| item(&n.to_string(), "x", "pending"))
        .collect();
    for (todos, words) in [
        (json!("x"), "invalid type"),
        (
            json!([item("1", "x", "done")]),
            "expected one of `pending`, `in_progress`, `completed`",
        ),
        (
            json!([{"id": "1", "status": "pending"}]),
            "missing field `content`",
        ),
        (
            json!([item("1", " ", "pending")]),
            "`todos[0].content` is empty",
        ),
        (json!([item("", "x", "pending")]), "`todos[0].id` is empty"),
        (
            json!([item("1", "x", "pending"), item("1", "y", "pending")]),
            "`todos[1].id` is that of an earlier item",
        ),
        (
            json!([item("1", &"x".repeat(2_049), "pending")]),
            "longer than 2048 bytes",
        ),
        (json!(many), "101 items, at most 100"),
    ] {
        let (kind, message) = place.refusal("todo_write", json!({"todos": todos})).await;
        assert_eq!(kind, "invalid_args");
        assert!(message.contains(words), "{words}: {message}");
        assert!(
            message.ends_with("Send {\"todos\": object[]}."),
            "{message}"
        );
    }
}
