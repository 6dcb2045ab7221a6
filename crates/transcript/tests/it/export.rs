//! What people and programs are given of a conversation.

use std::fs;

use expect_test::expect;
use serde_json::json;
use testkit::transcripts::{self, assistant, record, system, user, with};
use transcript::{
    export,
    reader::{Loaded, load},
};

fn loaded(bytes: &[u8]) -> Loaded {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.jsonl");
    fs::write(&path, bytes).unwrap();
    load(&path).unwrap()
}

/// A session with everything that a form has to show.
fn session() -> Loaded {
    let call = json!({"role": "model", "parts": [
        {"text": "let me see", "thought": true},
        {"functionCall": {"id": "c", "name": "read_file", "args": {"path": "a.md"}}},
    ]});
    let result = json!({"role": "user", "parts": [
        {"functionResponse": {"id": "c", "name": "read_file", "response": {"output": "```\n\u{1b}[31mred\n```"}}},
    ]});
    let records = [
        user(1, None, "hi\nthere"),
        with(record(2, Some(1), "assistant"), "message", call),
        with(record(3, Some(2), "tool_result"), "message", result),
        system(4, Some(3), "ui_telemetry", json!({})),
        assistant(5, Some(4), "It is \u{202e}red."),
        transcripts::title(6, Some(5), "a name"),
        user(8, Some(7), "and then?"),
    ];
    let mut bytes = transcripts::file(&records);
    bytes.extend_from_slice(b"{\"uuid\":");
    loaded(&bytes)
}

fn written(form: impl Fn(&Loaded, &mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    form(&session(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// B5, case-O07.
#[test]
fn text_shows_everything_and_steers_no_terminal() {
    expect![[r#"
        a name

        > hi
        > there

        (thought) let me see

        * read_file {"path":"a.md"}
          | ```
          | \u{1b}[31mred
          | ```

        It is \u{202e}red.

        --- Records are missing here. ---

        > and then?

        Damage: line 7: earlier records are missing here
        Damage: line 8: the last record is incomplete
        The record goes up to 2026-11-30T10:00:08.000Z (record 00000008-0000-4000-8000-000000000008). The last message has no answer.
    "#]].assert_eq(&written(export::text));
}

/// B5, case-O07.
#[test]
fn markdown_holds_the_conversation_its_gaps_and_its_damage() {
    expect![[r##"
        # a name

        Session `5e551014-0000-4000-8000-000000000001`. The record goes up to 2026-11-30T10:00:08.000Z (record 00000008-0000-4000-8000-000000000008). The last message has no answer.

        Damage in the file:

        - line 7: earlier records are missing here
        - line 8: the last record is incomplete

        ## User · 2026-11-30T10:00:01.000Z

        hi
        there

        > *Thought.* let me see

        **Tool call: read_file**

        ```json
        {"path":"a.md"}
        ```

        **Tool result: read_file**

        ````
        ```
        \u{1b}[31mred
        ```
        ````

        ## Assistant · 2026-11-30T10:00:05.000Z

        It is \u{202e}red.

        > **Records are missing here.**

        ## User · 2026-11-30T10:00:08.000Z

        and then?

    "##]].assert_eq(&written(export::markdown));
}

#[test]
fn json_holds_the_records_as_they_stand() {
    let json: serde_json::Value = serde_json::from_str(&written(export::json)).unwrap();
    assert_eq!(json["records"].as_array().unwrap().len(), 6);
    assert_eq!(json["records"][0], user(1, None, "hi\nthere"));
    assert_eq!(json["customTitle"], "a name");
    assert_eq!(json["gapsBefore"], json!([transcripts::id(8)]));
    assert_eq!(json["lastRecordUuid"], transcripts::id(8));
    assert_eq!(json["nDamage"], 2);
    assert_eq!(json["damage"][1]["kind"], "torn_tail");
}

#[test]
fn an_empty_record_says_so() {
    let empty = loaded(b"");
    let mut out = Vec::new();
    export::text(&empty, &mut out).unwrap();
    export::markdown(&empty, &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "The record is empty.\n# Session\n\nThe record is empty.\n\n"
    );
    let mut out = Vec::new();
    export::json(&empty, &mut out).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(json["records"], json!([]));
}
