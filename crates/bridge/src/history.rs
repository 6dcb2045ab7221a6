//! What `load` of a live session answers: finished turns, folded, and what came since the last one ended.
//!
//! A fold over the events of the bus, bounded. Whole turns make room for newer ones; that something is
//! missing is always said.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
};

use serde_json::{Map, Value, json, value::RawValue};
use wire::{
    event::{EVENT_SCHEMA_VERSION, Frame, Stamp},
    limits::{HISTORY_JOURNAL_BYTES_MAX, HISTORY_JOURNAL_ENTRIES_MAX, HISTORY_TURNS_BYTES_MAX},
};

use crate::update::Update;

/// An event of the bus, as it was published.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noted<'a> {
    pub(crate) id: u64,
    pub(crate) kind: &'a str,
    pub(crate) data: &'a RawValue,
    pub(crate) prompt_id: Option<&'a str>,
    pub(crate) originator: Option<&'a str>,
    pub(crate) at_ms: u64,
}

/// The history of one session.
#[derive(Debug)]
pub(crate) struct History {
    bounds: Bounds,
    /// What outlives the turns that it came in.
    kept: Vec<Item>,
    turns: VecDeque<Turn>,
    turns_bytes: usize,
    n_events_dropped: usize,
    n_turns_dropped: usize,
    journal: VecDeque<Item>,
    journal_bytes: usize,
    n_journal_dropped: usize,
}

/// How much of it is kept.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    turns_bytes: usize,
    journal_bytes: usize,
    journal_entries: usize,
}

#[derive(Debug)]
struct Turn {
    items: VecDeque<Item>,
    n_bytes: usize,
}

/// A frame in the making.
#[derive(Debug)]
struct Item {
    id: u64,
    at_ms: u64,
    prompt_id: Option<Box<str>>,
    originator: Option<Box<str>>,
    /// Events that it stands for.
    n_events: usize,
    n_bytes: usize,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// As it was.
    Whole {
        kind: Box<str>,
        data: Box<RawValue>,
        keep: Keep,
    },
    /// Chunks of text of one kind, one after another.
    Text {
        kind: Box<str>,
        text: String,
        meta: Option<Box<RawValue>>,
        /// What closed it says how much was used; the next chunk is of another message.
        is_closed: bool,
    },
    /// A tool call and what became of it.
    Tool {
        call_id: Box<str>,
        update: Map<String, Value>,
    },
}

/// How long a frame is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    WithItsTurn,
    /// Until another of its kind comes.
    Latest(&'static str),
    ForGood,
}

/// Bytes that an item costs beside its text.
const ITEM_BYTES: usize = 200;

impl Default for History {
    fn default() -> Self {
        Self::new(Bounds {
            turns_bytes: HISTORY_TURNS_BYTES_MAX,
            journal_bytes: HISTORY_JOURNAL_BYTES_MAX,
            journal_entries: HISTORY_JOURNAL_ENTRIES_MAX,
        })
    }
}

impl History {
    fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            kept: Vec::new(),
            turns: VecDeque::new(),
            turns_bytes: 0,
            n_events_dropped: 0,
            n_turns_dropped: 0,
            journal: VecDeque::new(),
            journal_bytes: 0,
            n_journal_dropped: 0,
        }
    }

    /// Takes in an event. `update` is its update, where it is one, and `text` that of the chunk.
    pub(crate) fn note(
        &mut self,
        noted: &Noted<'_>,
        update: Option<&Update<'_>>,
        text: Option<Cow<'_, str>>,
    ) {
        match (update, text) {
            (Some(update), Some(text)) => self.note_text(noted, update, text),
            (Some(update), None) => self.note_update(noted, update),
            (None, _) => {
                let keep = if noted.kind == "session_recording_degraded" {
                    Keep::ForGood
                } else {
                    Keep::WithItsTurn
                };
                self.push_whole(noted, keep);
            }
        }
        if matches!(noted.kind, "turn_complete" | "turn_error") {
            self.end_turn();
        }
        self.bound_journal();
    }

    /// Takes in stored history: the frames of a cold load, each as it is.
    pub(crate) fn seed(&mut self, noted: &Noted<'_>, update: &Update<'_>) {
        if update.kind == "user_message_chunk" {
            self.end_turn();
        }
        self.note_seed(noted, update);
    }

    fn note_seed(&mut self, noted: &Noted<'_>, update: &Update<'_>) {
        let keep = latest_only(&update.kind).map_or(Keep::WithItsTurn, Keep::Latest);
        self.push_whole(noted, keep);
    }

    /// Ends the turn that came last.
    pub(crate) fn end_turn(&mut self) {
        if self.journal.is_empty() {
            return;
        }
        let turn = Turn {
            items: std::mem::take(&mut self.journal),
            n_bytes: std::mem::take(&mut self.journal_bytes),
        };
        self.n_events_dropped += std::mem::take(&mut self.n_journal_dropped);
        self.turns_bytes += turn.n_bytes;
        self.turns.push_back(turn);
        while self.turns_bytes > self.bounds.turns_bytes
            && let Some(turn) = self.turns.pop_front()
        {
            self.turns_bytes -= turn.n_bytes;
            self.n_turns_dropped += 1;
            for item in turn.items {
                self.n_events_dropped += self.keep_or_count(item);
            }
        }
    }

    /// Keeps what outlives its turn; counts the events of the rest.
    fn keep_or_count(&mut self, item: Item) -> usize {
        match &item.body {
            Body::Whole {
                keep: Keep::Latest(_) | Keep::ForGood,
                ..
            } => {
                self.kept.push(item);
                0
            }
            Body::Whole { .. } | Body::Text { .. } | Body::Tool { .. } => item.n_events,
        }
    }

    fn bound_journal(&mut self) {
        while self.journal_bytes > self.bounds.journal_bytes
            || self.journal.len() > self.bounds.journal_entries
        {
            let Some(item) = self.journal.pop_front() else {
                return;
            };
            self.journal_bytes -= item.n_bytes;
            self.n_journal_dropped += self.keep_or_count(item);
        }
    }

    fn push(&mut self, noted: &Noted<'_>, n_bytes: usize, body: Body) {
        let n_bytes = n_bytes + ITEM_BYTES;
        self.journal_bytes += n_bytes;
        self.journal.push_back(Item {
            id: noted.id,
            at_ms: noted.at_ms,
            prompt_id: noted.prompt_id.map(Into::into),
            originator: noted.originator.map(Into::into),
            n_events: 1,
            n_bytes,
            body,
        });
    }

    fn push_whole(&mut self, noted: &Noted<'_>, keep: Keep) {
        if let Keep::Latest(_) = keep {
            self.forget_latest(keep);
        }
        let body = Body::Whole {
            kind: noted.kind.into(),
            data: noted.data.to_owned(),
            keep,
        };
        self.push(noted, noted.data.get().len(), body);
    }

    /// Drops the frame whose place a newer one takes. These are rare.
    fn forget_latest(&mut self, latest: Keep) {
        let is_other =
            |item: &Item| !matches!(&item.body, Body::Whole { keep, .. } if *keep == latest);
        self.kept.retain(is_other);
        for turn in &mut self.turns {
            turn.items.retain(is_other);
            let n_bytes = turn.items.iter().map(|item| item.n_bytes).sum();
            self.turns_bytes -= turn.n_bytes - n_bytes;
            turn.n_bytes = n_bytes;
        }
        self.journal.retain(is_other);
        self.journal_bytes = self.journal.iter().map(|item| item.n_bytes).sum();
    }

    fn note_text(&mut self, noted: &Noted<'_>, update: &Update<'_>, text: Cow<'_, str>) {
        if let Some(last) = self.journal.back_mut()
            && last.takes_chunk(noted, update, &text)
        {
            let n_bytes = last.n_bytes;
            last.add_chunk(noted, update, &text);
            self.journal_bytes += last.n_bytes - n_bytes;
            return;
        }
        let n_bytes = text.len() + update.meta.map_or(0, |meta| meta.get().len());
        let body = Body::Text {
            kind: update.kind.as_ref().into(),
            is_closed: update.meta.is_some(),
            text: text.into_owned(),
            meta: update.meta.map(ToOwned::to_owned),
        };
        self.push(noted, n_bytes, body);
    }

    fn note_update(&mut self, noted: &Noted<'_>, update: &Update<'_>) {
        if let Some(kind) = latest_only(&update.kind) {
            return self.push_whole(noted, Keep::Latest(kind));
        }
        let is_tool = matches!(&*update.kind, "tool_call" | "tool_call_update");
        let (Some(call_id), true) = (update.tool_call_id, is_tool) else {
            return self.push_whole(noted, Keep::WithItsTurn);
        };
        let Some(fields) = update_fields(noted.data) else {
            return self.push_whole(noted, Keep::WithItsTurn);
        };
        let at = self
            .journal
            .iter()
            .rposition(|item| item.is_call(call_id.get()));
        if let Some(at) = at {
            let item = &mut self.journal[at];
            let n_bytes = item.n_bytes;
            item.change_call(noted, fields);
            self.journal_bytes = self.journal_bytes + item.n_bytes - n_bytes;
            return;
        }
        let body = Body::Tool {
            call_id: call_id.get().into(),
            update: fields,
        };
        self.push(noted, noted.data.get().len(), body);
    }

    /// Finished turns, folded.
    pub(crate) fn compacted(&self, session_id: &str, is_saved: bool) -> Vec<Frame> {
        let items = self.turns.iter().flat_map(|turn| &turn.items);
        let mut frames: Vec<Frame> = self
            .kept
            .iter()
            .chain(items)
            .map(|item| item.frame(session_id))
            .collect();
        if self.n_events_dropped > 0 {
            let mut data = json!({
                "reason": "replay_window_exceeded",
                "truncatedEvents": self.n_events_dropped,
                "retainedEvents": frames.len(),
                "maxBytes": self.bounds.turns_bytes,
                "fullTranscriptAvailable": is_saved,
            });
            if self.n_turns_dropped > 0 {
                data["truncatedTurns"] = json!(self.n_turns_dropped);
            }
            frames.insert(0, truncated(&data));
        }
        frames
    }

    /// What came since the last turn ended, folded.
    pub(crate) fn journal(&self, session_id: &str, is_saved: bool) -> Vec<Frame> {
        let mut frames: Vec<Frame> = self
            .journal
            .iter()
            .map(|item| item.frame(session_id))
            .collect();
        if self.n_journal_dropped > 0 {
            let data = json!({
                "scope": "live_journal",
                "reason": "replay_window_exceeded",
                "truncatedEvents": self.n_journal_dropped,
                "retainedEvents": frames.len(),
                "maxBytes": self.bounds.journal_bytes,
                "fullTranscriptAvailable": is_saved,
            });
            frames.insert(0, truncated(&data));
        }
        frames
    }
}

impl Item {
    /// Whether a chunk continues this text.
    fn takes_chunk(&self, noted: &Noted<'_>, update: &Update<'_>, text: &str) -> bool {
        let Body::Text {
            kind,
            meta,
            is_closed,
            ..
        } = &self.body
        else {
            return false;
        };
        let is_same_message =
            **kind == *update.kind && self.prompt_id.as_deref() == noted.prompt_id && !is_closed;
        // With words of its own about the text, a chunk is a message of its own; without text, it says
        // how much the message before it took.
        let is_part = match update.meta {
            None => meta.is_none(),
            Some(_) => text.is_empty() && meta.is_none(),
        };
        is_same_message && is_part
    }

    fn add_chunk(&mut self, noted: &Noted<'_>, update: &Update<'_>, more: &str) {
        if let Body::Text {
            text,
            meta,
            is_closed,
            ..
        } = &mut self.body
        {
            text.push_str(more);
            self.n_bytes += more.len();
            if let Some(usage) = update.meta {
                self.n_bytes += usage.get().len();
                *meta = Some(usage.to_owned());
                *is_closed = true;
            }
        }
        self.renew(noted);
    }

    fn is_call(&self, id: &str) -> bool {
        matches!(&self.body, Body::Tool { call_id, .. } if **call_id == *id)
    }

    fn change_call(&mut self, noted: &Noted<'_>, fields: Map<String, Value>) {
        if let Body::Tool { update, .. } = &mut self.body {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("sessionUpdate", _) | (_, Value::Null) => {}
                    ("_meta", Value::Object(more)) => match update.get_mut("_meta") {
                        Some(Value::Object(meta)) => meta.extend(more),
                        Some(_) | None => {
                            update.insert(key, Value::Object(more));
                        }
                    },
                    (_, value) => {
                        update.insert(key, value);
                    }
                }
            }
            self.n_bytes = ITEM_BYTES + size_of(update);
        }
        self.renew(noted);
    }

    /// It stands for one more event, which is its last.
    fn renew(&mut self, noted: &Noted<'_>) {
        self.id = noted.id;
        self.at_ms = noted.at_ms;
        self.n_events += 1;
    }

    fn frame(&self, session_id: &str) -> Frame {
        let (kind, data) = match &self.body {
            Body::Whole { kind, data, .. } => (&**kind, data.clone()),
            Body::Text {
                kind, text, meta, ..
            } => {
                let mut update = json!({
                    "sessionUpdate": kind,
                    "content": {"type": "text", "text": text},
                });
                if let Some(meta) = meta {
                    update["_meta"] = serde_json::from_str(meta.get()).unwrap_or_default();
                }
                let data = json!({"sessionId": session_id, "update": update});
                ("session_update", raw(&data))
            }
            Body::Tool { update, .. } => {
                let data = json!({"sessionId": session_id, "update": update});
                ("session_update", raw(&data))
            }
        };
        Frame {
            id: Some(self.id),
            v: EVENT_SCHEMA_VERSION,
            kind: kind.to_owned(),
            data,
            prompt_id: self.prompt_id.as_deref().map(str::to_owned),
            originator_client_id: self.originator.as_deref().map(str::to_owned),
            meta: Some(Stamp {
                server_timestamp: self.at_ms,
            }),
        }
    }
}

/// The kind, where only the latest of it counts.
fn latest_only(kind: &str) -> Option<&'static str> {
    match kind {
        "available_commands_update" => Some("available_commands_update"),
        "current_mode_update" => Some("current_mode_update"),
        _ => None,
    }
}

/// A frame of no stream's order.
fn truncated(data: &Value) -> Frame {
    Frame {
        id: None,
        v: EVENT_SCHEMA_VERSION,
        kind: "history_truncated".to_owned(),
        data: raw(data),
        prompt_id: None,
        originator_client_id: None,
        meta: None,
    }
}

/// The members of `update`, each a value.
fn update_fields(data: &RawValue) -> Option<Map<String, Value>> {
    let mut data: BTreeMap<String, Value> = serde_json::from_str(data.get()).ok()?;
    match data.remove("update")? {
        Value::Object(fields) => Some(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            None
        }
    }
}

fn size_of(update: &Map<String, Value>) -> usize {
    serde_json::to_string(update).map_or(0, |json| json.len())
}

/// A value as it is written.
pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("a JSON value is JSON")
}

#[cfg(test)]
mod tests;
