//! The fold of one session, for clients (R23).

use std::mem;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SessionState;
use crate::event::{
    Command, Ended, Payload, PermissionOption, PlanEntry, Role, TextChunk, ToolCallFields, Update,
    Usage,
};

/// A checked event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Of the bus; absent in frames for one stream.
    pub id: Option<u64>,
    /// The prompt it belongs to.
    pub prompt_id: Option<String>,
    /// What it says.
    pub payload: Payload,
}

/// A session as its stream tells it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id.
    pub session_id: String,
    /// Of the bus; absent until it is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub epoch: Option<String>,
    /// The last event that counts here.
    pub last_event_id: u64,
    /// Something is missing: nothing but the record counts until the session is loaded.
    pub is_resync_pending: bool,
    /// What is current.
    #[serde(flatten)]
    pub current: SessionState,
    /// Its name; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    /// The conversation, oldest first.
    pub items: Vec<Item>,
    /// The plan of now.
    pub plan: Vec<PlanEntry>,
    /// Open questions.
    pub permissions: Vec<Permission>,
    /// Prompts that wait.
    pub queue: Vec<Queued>,
    /// The prompt whose turn is running; absent where none is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub running: Option<String>,
    /// How the last turn ended; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_turn: Option<EndedTurn>,
    /// Tokens of the last model call that told them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
    /// Slash commands.
    pub commands: Vec<Command>,
    /// How it ended; absent while it lives.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ending: Option<Ending>,
    /// Whether the notice about its record was dismissed. A later snapshot brings it back (R25).
    pub is_notice_dismissed: bool,
}

/// A part of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// Words.
    Message(Message),
    /// A tool call.
    Tool(Box<ToolCall>),
}

/// Words of one side, joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Whose.
    pub role: Role,
    /// What was said.
    pub text: String,
    /// The prompt it belongs to; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prompt_id: Option<String>,
}

/// A tool call, as it is known so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Names it.
    pub tool_call_id: String,
    /// For people.
    pub title: String,
    /// Such as `execute` or `edit`; `other` where it is not told.
    pub kind: String,
    /// `pending`, `in_progress`, `completed` or `failed`.
    pub status: String,
    /// Blocks: text, diffs.
    pub content: Vec<Value>,
    /// Places.
    pub locations: Vec<Value>,
    /// What it was called with; `null` where it is not told.
    pub raw_input: Value,
    /// What it gave; `null` where it is not told.
    pub raw_output: Value,
    /// The prompt it belongs to; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prompt_id: Option<String>,
}

/// An open question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Permission {
    /// What a vote names.
    pub request_id: String,
    /// The call.
    pub tool_call: ToolCall,
    /// What may be chosen.
    pub options: Vec<PermissionOption>,
}

/// A prompt that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queued {
    /// Of the daemon.
    pub prompt_id: String,
    /// Its text.
    pub text: String,
    /// Ms since 1970.
    pub queued_at: u64,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedTurn {
    /// Of the daemon.
    pub prompt_id: String,
    /// `end_turn`, `cancelled`, …; absent where it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stop_reason: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<TurnFailure>,
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnFailure {
    /// For people.
    pub message: String,
    /// For programs; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Whether it died, instead of being closed.
    pub died: bool,
    /// Why.
    pub reason: String,
}

impl Session {
    /// A session of which nothing is known but its id.
    #[must_use]
    pub fn new(session_id: &str) -> Self {
        Self {
            session_id: session_id.to_owned(),
            ..Self::default()
        }
    }

    /// Takes in an event. What came before, by its id, changes nothing; a gap in the ids is as good as
    /// `state_resync_required`. The health of the record counts whatever else is missing (R23).
    pub fn apply(&mut self, event: Event) {
        if let Payload::RecordingDegraded(_) = &event.payload {
            self.current.degrade();
        } else if let Payload::Snapshot(snapshot) = &event.payload {
            self.current.take(snapshot);
            if snapshot.recording_degraded.is_some() {
                self.is_notice_dismissed = false;
            }
        } else if let Payload::ResyncRequired(_) = &event.payload {
            self.is_resync_pending = true;
        }
        if let Some(id) = event.id {
            if id <= self.last_event_id {
                return;
            }
            if self.last_event_id > 0 && id > self.last_event_id + 1 {
                self.is_resync_pending = true;
            }
            if !self.is_resync_pending {
                self.last_event_id = id;
            }
        }
        if !self.is_resync_pending {
            self.take(event.payload, event.prompt_id);
        }
    }

    /// Begins anew with what a load answered: its folded events, and where its stream goes on. What it says of
    /// the record is authoritative; where it says nothing, as older daemons do, what is known stays (R23).
    pub fn load(
        &mut self,
        events: impl IntoIterator<Item = Event>,
        last_event_id: u64,
        epoch: &str,
        recording: &SessionState,
        is_recording_told: bool,
    ) {
        let before = mem::replace(self, Self::new(&self.session_id));
        self.current = before.current;
        self.is_notice_dismissed = before.is_notice_dismissed;
        self.title = before.title;
        for event in events {
            if let Payload::RecordingDegraded(_) = event.payload {
                self.current.degrade();
            }
            self.take(event.payload, event.prompt_id);
        }
        if is_recording_told {
            self.current.recording_degraded = recording.recording_degraded;
            self.current.recording_state = recording.recording_state;
            self.is_notice_dismissed = false;
        }
        self.last_event_id = last_event_id;
        self.epoch = Some(epoch.to_owned());
    }

    /// The person has read the notice about the record.
    pub fn dismiss_notice(&mut self) {
        self.is_notice_dismissed = true;
    }

    fn take(&mut self, payload: Payload, prompt_id: Option<String>) {
        match payload {
            Payload::Update(update) => self.take_update(update, prompt_id),
            Payload::PermissionRequest(request) => {
                self.close_permission(&request.request_id);
                self.permissions.push(Permission {
                    request_id: request.request_id,
                    tool_call: ToolCall::new(request.tool_call, prompt_id),
                    options: request.options,
                });
            }
            Payload::PermissionResolved(resolved) => self.close_permission(&resolved.request_id),
            Payload::PromptQueued(queued) => self.queue.push(Queued {
                prompt_id: queued.prompt_id,
                text: queued.text,
                queued_at: queued.queued_at,
            }),
            Payload::PromptStarted(started) => {
                self.unqueue(&started.prompt_id);
                self.running = Some(started.prompt_id);
            }
            Payload::PromptDone(done) => self.unqueue(&done.prompt_id),
            Payload::TurnComplete(turn) => self.end_turn(EndedTurn {
                prompt_id: turn.prompt_id,
                stop_reason: Some(turn.stop_reason),
                failure: None,
            }),
            Payload::TurnError(turn) => self.end_turn(EndedTurn {
                prompt_id: turn.prompt_id,
                stop_reason: None,
                failure: Some(TurnFailure {
                    message: turn.message,
                    code: turn.code,
                }),
            }),
            Payload::ModelSwitched(model) => self.current.current_model_id = Some(model.model_id),
            Payload::ApprovalModeChanged(mode) => {
                self.current.current_approval_mode = Some(mode.next);
            }
            Payload::MetadataUpdated(metadata) => {
                if let Some(name) = metadata.display_name {
                    self.title = Some(name);
                }
            }
            Payload::Ended(Ended { died, reason }) => {
                self.running = None;
                self.permissions.clear();
                self.queue.clear();
                self.ending = Some(Ending { died, reason });
            }
            Payload::RecordingDegraded(_)
            | Payload::Snapshot(_)
            | Payload::ResyncRequired(_)
            | Payload::Other => {}
        }
    }

    fn take_update(&mut self, update: Update, prompt_id: Option<String>) {
        match update {
            Update::Text(chunk) => self.take_text(chunk, prompt_id),
            Update::ToolCall(fields) | Update::ToolCallUpdate(fields) => {
                self.take_call(fields, prompt_id);
            }
            Update::Plan(plan) => self.plan = plan,
            Update::Commands(commands) => self.commands = commands,
            Update::Mode(mode) => self.current.current_approval_mode = Some(mode),
            Update::Title(title) => self.title = Some(title),
            Update::Other => {}
        }
    }

    fn take_text(&mut self, chunk: TextChunk, prompt_id: Option<String>) {
        if let Some(usage) = chunk.usage {
            self.usage = Some(usage);
        }
        if chunk.role == Role::User
            && let Some(prompt) = &prompt_id
        {
            self.running = Some(prompt.clone());
        }
        if chunk.text.is_empty() {
            return;
        }
        if let Some(Item::Message(last)) = self.items.last_mut()
            && last.role == chunk.role
            && last.prompt_id == prompt_id
        {
            last.text.push_str(&chunk.text);
            return;
        }
        self.items.push(Item::Message(Message {
            role: chunk.role,
            text: chunk.text,
            prompt_id,
        }));
    }

    /// A call is looked for from the end: mostly it is the last one.
    fn take_call(&mut self, fields: ToolCallFields, prompt_id: Option<String>) {
        let known = self.items.iter_mut().rev().find_map(|item| match item {
            Item::Tool(call) if call.tool_call_id == fields.tool_call_id => Some(call),
            Item::Tool(_) | Item::Message(_) => None,
        });
        match known {
            Some(call) => call.take(fields),
            None => self
                .items
                .push(Item::Tool(Box::new(ToolCall::new(fields, prompt_id)))),
        }
    }

    fn close_permission(&mut self, request_id: &str) {
        self.permissions
            .retain(|permission| permission.request_id != request_id);
    }

    fn unqueue(&mut self, prompt_id: &str) {
        self.queue.retain(|queued| queued.prompt_id != prompt_id);
    }

    fn end_turn(&mut self, turn: EndedTurn) {
        if self.running.as_deref() == Some(&*turn.prompt_id) {
            self.running = None;
        }
        self.unqueue(&turn.prompt_id);
        self.last_turn = Some(turn);
    }
}

impl ToolCall {
    fn new(fields: ToolCallFields, prompt_id: Option<String>) -> Self {
        let mut call = Self {
            tool_call_id: fields.tool_call_id.clone(),
            title: String::new(),
            kind: "other".to_owned(),
            status: "pending".to_owned(),
            content: Vec::new(),
            locations: Vec::new(),
            raw_input: Value::Null,
            raw_output: Value::Null,
            prompt_id,
        };
        call.take(fields);
        call
    }

    fn take(&mut self, fields: ToolCallFields) {
        let texts = [
            (&mut self.title, fields.title),
            (&mut self.kind, fields.kind),
            (&mut self.status, fields.status),
        ];
        for (own, said) in texts {
            if let Some(said) = said {
                *own = said;
            }
        }
        if let Some(content) = fields.content {
            self.content = content;
        }
        if let Some(locations) = fields.locations {
            self.locations = locations;
        }
        if let Some(input) = fields.raw_input {
            self.raw_input = input;
        }
        if let Some(output) = fields.raw_output {
            self.raw_output = output;
        }
    }
}
