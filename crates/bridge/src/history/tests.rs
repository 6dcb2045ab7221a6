use serde_json::{Value, json};

use super::*;
use crate::update::{Params, read};

struct Told {
    history: History,
    id: u64,
}

impl Told {
    fn new(bounds: Bounds) -> Self {
        Self {
            history: History::new(bounds),
            id: 0,
        }
    }

    fn event(&mut self, kind: &str, data: &Value) {
        self.id += 1;
        let data = raw(data);
        let params = read::<Params<'_>>(&data);
        let update = params.as_ref().map(|params| &params.update);
        let noted = Noted {
            id: self.id,
            kind,
            data: &data,
            prompt_id: Some("p"),
            originator: None,
            at_ms: self.id * 10,
        };
        let text = update.and_then(Update::chunk_text);
        self.history.note(&noted, update, text);
    }

    fn update(&mut self, update: &Value) {
        self.event(
            "session_update",
            &json!({"sessionId": "s", "update": update}),
        );
    }

    fn chunk(&mut self, text: &str, meta: Option<Value>) {
        let mut update = json!({
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": text},
        });
        if let Some(meta) = meta {
            update["_meta"] = meta;
        }
        self.update(&update);
    }

    fn end(&mut self) {
        self.event("turn_complete", &json!({"stopReason": "end_turn"}));
    }

    /// Ids and what they stand for.
    fn compacted(&self) -> Vec<(Option<u64>, String)> {
        short(&self.history.compacted("s", true))
    }

    fn journal(&self) -> Vec<(Option<u64>, String)> {
        short(&self.history.journal("s", true))
    }
}

fn short(frames: &[Frame]) -> Vec<(Option<u64>, String)> {
    frames
        .iter()
        .map(|frame| {
            let data: Value = serde_json::from_str(frame.data.get()).expect("it is JSON");
            let update = &data["update"];
            let said = match update["sessionUpdate"].as_str() {
                None => frame.kind.clone(),
                Some(kind) => match update["content"]["text"].as_str() {
                    Some(text) => format!("{kind} {text}"),
                    None => kind.to_owned(),
                },
            };
            (frame.id, said)
        })
        .collect()
}

fn wide() -> Bounds {
    Bounds {
        turns_bytes: 1 << 20,
        journal_bytes: 1 << 20,
        journal_entries: 1_000,
    }
}

fn said(frames: &[(Option<u64>, String)]) -> Vec<(u64, &str)> {
    frames
        .iter()
        .map(|(id, said)| (id.unwrap_or(0), said.as_str()))
        .collect()
}

#[test]
fn text_is_one_frame_with_the_last_id_and_what_it_took() {
    let mut told = Told::new(wide());
    told.chunk("a", None);
    told.chunk("b", None);
    told.chunk("", Some(json!({"usage": {"totalTokens": 1}})));
    told.chunk("c", None);
    assert_eq!(
        said(&told.journal()),
        [(3, "agent_message_chunk ab"), (4, "agent_message_chunk c")]
    );
    let frame = &told.history.journal("s", true)[0];
    assert!(
        frame
            .data
            .get()
            .contains(r#""_meta":{"usage":{"totalTokens":1}}"#)
    );
    assert_eq!(frame.meta.map(|meta| meta.server_timestamp), Some(30));
    assert_eq!(frame.prompt_id.as_deref(), Some("p"));
}

#[test]
fn text_with_words_of_its_own_is_a_message_of_its_own() {
    let mut told = Told::new(wide());
    told.chunk("a", Some(json!({"x": 1})));
    told.chunk("b", None);
    told.chunk("c", Some(json!({"qwenDiscreteMessage": true})));
    told.update(&json!({
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "d", "annotations": {}},
    }));
    told.update(&json!({
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "image", "data": "AA"},
    }));
    assert_eq!(told.journal().len(), 5);
}

#[test]
fn a_tool_call_is_one_frame_where_it_began_with_its_last_state() {
    let mut told = Told::new(wide());
    told.update(&json!({
        "sessionUpdate": "tool_call", "toolCallId": "1", "status": "pending", "rawInput": {},
        "_meta": {"toolName": "t", "phase": "preparing"},
    }));
    told.event("permission_request", &json!({"requestId": "r"}));
    told.update(&json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed", "title": null,
        "content": [{"type": "content"}], "_meta": {"provenance": "builtin"},
    }));
    told.update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "2", "status": "failed"}),
    );
    told.end();
    assert_eq!(
        said(&told.compacted()),
        [
            (3, "tool_call"),
            (2, "permission_request"),
            (4, "tool_call_update"),
            (5, "turn_complete")
        ]
    );
    let frames = told.history.compacted("s", true);
    let data: Value = serde_json::from_str(frames[0].data.get()).expect("it is JSON");
    assert_eq!(
        data["update"],
        json!({
            "sessionUpdate": "tool_call", "toolCallId": "1", "status": "completed", "rawInput": {},
            "_meta": {"toolName": "t", "phase": "preparing", "provenance": "builtin"},
            "content": [{"type": "content"}],
        })
    );
}

#[test]
fn only_the_latest_commands_and_mode_are_kept() {
    let mut told = Told::new(wide());
    let commands = json!({"sessionUpdate": "available_commands_update", "availableCommands": []});
    let mode = json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"});
    told.update(&commands);
    told.update(&mode);
    told.end();
    told.update(&commands);
    told.update(&mode);
    assert_eq!(said(&told.compacted()), [(3, "turn_complete")]);
    assert_eq!(
        said(&told.journal()),
        [(4, "available_commands_update"), (5, "current_mode_update")]
    );
}

/// R18: that the record failed is not forgotten with the turn in which it did.
#[test]
fn whole_turns_make_room_and_it_is_said() {
    let mut told = Told::new(Bounds {
        turns_bytes: 3_000,
        ..wide()
    });
    told.event(
        "session_recording_degraded",
        &json!({"reason": "write_failed"}),
    );
    for n in 0..4 {
        told.chunk(&format!("{n}"), None);
        told.chunk(&"x".repeat(1_000), None);
        told.end();
    }
    let frames = told.compacted();
    let said = said(&frames);
    assert_eq!(said[0], (0, "history_truncated"));
    assert_eq!(said[1], (1, "session_recording_degraded"));
    assert_eq!(said.len(), 2 + 2 * 2, "{said:?}");
    assert!(said[2].1.starts_with("agent_message_chunk 2"));
    let truncated = &told.history.compacted("s", false)[0];
    let data: Value = serde_json::from_str(truncated.data.get()).expect("it is JSON");
    assert_eq!(
        data,
        json!({
            "reason": "replay_window_exceeded", "truncatedEvents": 6, "retainedEvents": 5,
            "maxBytes": 3_000, "fullTranscriptAvailable": false, "truncatedTurns": 2,
        })
    );
}

#[test]
fn a_journal_is_bounded_in_entries_and_in_bytes() {
    for bounds in [
        Bounds {
            journal_entries: 4,
            ..wide()
        },
        Bounds {
            journal_bytes: 4 * (ITEM_BYTES + 20),
            ..wide()
        },
    ] {
        let mut told = Told::new(bounds);
        for n in 0..10 {
            told.event("permission_request", &json!({"requestId": n}));
        }
        let frames = told.journal();
        let said = said(&frames);
        assert_eq!(said.len(), 5, "{said:?}");
        assert_eq!(said[0], (0, "history_truncated"));
        assert_eq!(said[4], (10, "permission_request"));
    }
}

/// What bounds it is counted as it is.
#[test]
fn the_bytes_of_a_journal_are_those_of_its_items() {
    let mut told = Told::new(wide());
    for n in 0..50 {
        told.chunk("some text", None);
        told.update(&json!({"sessionUpdate": "tool_call", "toolCallId": n % 7, "rawInput": n}));
        told.update(
            &json!({"sessionUpdate": "tool_call_update", "toolCallId": n % 5, "rawOutput": "o"}),
        );
        told.update(&json!({"sessionUpdate": "current_mode_update", "n": n}));
        if n % 9 == 0 {
            told.end();
        }
        let history = &told.history;
        let journal: usize = history.journal.iter().map(|item| item.n_bytes).sum();
        let turns = history.turns.iter().flat_map(|turn| &turn.items);
        let turns: usize = turns.map(|item| item.n_bytes).sum();
        assert_eq!(
            (history.journal_bytes, history.turns_bytes),
            (journal, turns)
        );
    }
}
