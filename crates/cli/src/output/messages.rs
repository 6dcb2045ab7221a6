//! Session events to the messages of `json` and `stream-json`.

use agent::{
    event::{Event, Outcome, SessionInfo, ToolStatus, TurnSummary},
    message::{Block as ModelBlock, ToolCall, Usage as ModelUsage},
    tool::cut,
};
use serde_json::value::RawValue;
use transcript::recorder::RecordingFailure;
use uuid::Uuid;
use wire::{
    QWEN_CODE_VERSION,
    limits::STREAM_JSON_TOOL_RESULT_BYTES_MAX,
    stream_json::{
        Assistant, AssistantMessage, Block, Degraded, Delta, Denial, GoalState, Init,
        InvalidInputData, McpServer, Message, Partial, PartialMessage, ResultError, Retry,
        ServerStatus, SessionChanged, SessionEnd, SessionStart, StreamEvent, System, SystemData,
        TurnResult, Usage, User, UserBlock, UserMessage, Warning, input::InvalidInput,
    },
    words,
};

use super::{lines::json_len, stats, text::complaint};
use crate::slash;

/// Takes a message on.
type Emit<'a> = dyn FnMut(Message) + 'a;

/// The messages of one session, event by event.
#[derive(Debug)]
pub(crate) struct Messages {
    session_id: String,
    model: String,
    /// `stream_event`s for every step of a message.
    partial: bool,
    shape: Shape,
    introduced: bool,
    /// The id that the next `assistant` message has, where it was announced.
    announced_id: Option<String>,
    response_open: bool,
    n_blocks: usize,
    open: Option<Open>,
}

/// What differs between the outputs, beside partial messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Lines on standard output.
    Streamed,
    /// The array of `json`: no `stream_event` at all, `stats` in the result.
    Collected,
    /// A second output: begins and ends with the session, and shows what the person said.
    Beside,
}

/// Types of messages that a second output carries.
const BESIDE_TYPES: &[&str] = &[
    "system",
    "user",
    "assistant",
    "stream_event",
    "result",
    "control_request",
    "control_response",
];

/// The block that grows.
#[derive(Debug)]
struct Open {
    kind: Growing,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growing {
    Text,
    Thinking,
}

impl Messages {
    /// For `stream-json`.
    pub(crate) fn streamed(session_id: &str, partial: bool) -> Self {
        Self {
            session_id: session_id.to_owned(),
            model: String::new(),
            partial,
            shape: Shape::Streamed,
            introduced: false,
            announced_id: None,
            response_open: false,
            n_blocks: 0,
            open: None,
        }
    }

    /// For `json`.
    pub(crate) fn collected(session_id: &str) -> Self {
        Self {
            shape: Shape::Collected,
            ..Self::streamed(session_id, false)
        }
    }

    /// For a second output.
    pub(crate) fn beside(session_id: &str) -> Self {
        Self {
            shape: Shape::Beside,
            ..Self::streamed(session_id, true)
        }
    }

    /// R12: both session ids are those of the failure.
    pub(crate) fn degraded(failure: &RecordingFailure) -> Message {
        system(
            &failure.session_id,
            System::SessionRecordingDegraded,
            Degraded {
                session_id: failure.session_id.clone(),
                reason: words::REASON_WRITE_FAILED,
                message: words::DEGRADED_MESSAGE,
                class: failure.class,
                last_record_uuid: failure.last_record_uuid.clone(),
            },
        )
    }

    /// The last message of an output that is given up.
    pub(crate) fn given_up(&self, message: &str) -> Message {
        let message = message.to_owned();
        self.system(System::OutputGivenUp, Warning { message })
    }

    /// Says that a line which was sent to us is none of the protocol.
    pub(crate) fn invalid_input(session_id: &str, error: &InvalidInput, line: u64) -> Message {
        system(
            session_id,
            System::InvalidInput,
            InvalidInputData {
                reason: error.reason,
                message: error.message.clone(),
                line,
            },
        )
    }

    /// Emits the messages of one event.
    pub(crate) fn step(&mut self, event: &Event, emit: &mut Emit<'_>) {
        match event {
            Event::SessionStarted(info) => self.start_session(info, emit),
            Event::TurnStarted { info, prompt } if self.shape == Shape::Beside => {
                self.session_id.clone_from(&info.session_id);
                self.model.clone_from(&info.model);
                if let Some(prompt) = prompt {
                    emit(self.user(vec![UserBlock::Text {
                        text: prompt.to_string(),
                    }]));
                }
            }
            Event::TurnStarted { info, .. } => self.init(info, emit),
            Event::SessionChanged(change) => {
                self.session_id.clone_from(&change.session_id);
                let data = SessionChanged {
                    session_id: change.session_id.clone(),
                    previous_session_id: change.previous_session_id.clone(),
                    previous_recording: change.previous_recording.clone(),
                };
                emit(self.system(System::SessionChanged, data));
            }
            Event::SessionEnded(recording) if self.shape == Shape::Beside => {
                let data = SessionEnd {
                    session_id: self.session_id.clone(),
                    recording: recording.clone(),
                };
                emit(self.system(System::SessionEnd, data));
            }
            Event::SessionEnded(_) => {}
            Event::ModelStarted => {
                self.announced_id = None;
                self.response_open = false;
                self.n_blocks = 0;
            }
            Event::Text(text) => self.grow(Growing::Text, text, emit),
            Event::Thought(text) => self.grow(Growing::Thinking, text, emit),
            Event::ModelEnded { blocks, usage } => self.end_response(blocks, *usage, emit),
            Event::Retrying {
                attempt,
                wait,
                error,
            } => emit(self.system(
                System::Retry,
                Retry {
                    attempt: *attempt,
                    delay_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                    message: error.message.clone(),
                },
            )),
            Event::ToolProgress { call_id, text } if self.partial => self.event(
                Partial::ToolProgress {
                    tool_use_id: call_id.clone(),
                    content: text.clone(),
                },
                emit,
            ),
            Event::ToolStarted(_) | Event::ToolProgress { .. } | Event::PlanChanged(_) => {}
            Event::ToolEnded {
                call, text, status, ..
            } => {
                emit(self.tool_result(call, text, *status));
            }
            Event::Warning(line) => {
                let message = line.clone();
                emit(self.system(System::Warning, Warning { message }));
            }
            Event::TurnEnded(summary) => self.end_turn(summary, emit),
        }
    }

    fn start_session(&mut self, info: &SessionInfo, emit: &mut Emit<'_>) {
        self.session_id.clone_from(&info.session_id);
        if self.shape == Shape::Beside {
            let data = SessionStart {
                session_id: info.session_id.clone(),
                cwd: info.cwd.clone(),
                protocol_version: 2,
                version: QWEN_CODE_VERSION,
                supported_events: BESIDE_TYPES,
                onrecord_version: env!("CARGO_PKG_VERSION"),
            };
            emit(self.system(System::SessionStart, data));
        }
    }

    fn init(&mut self, info: &SessionInfo, emit: &mut Emit<'_>) {
        self.session_id.clone_from(&info.session_id);
        self.model.clone_from(&info.model);
        // The first message is found under the session's id; later turns have ids of their own.
        let uuid = if self.introduced {
            id()
        } else {
            info.session_id.clone()
        };
        emit(Message::System(System::Init(Box::new(Init {
            uuid,
            session_id: info.session_id.clone(),
            cwd: info.cwd.clone(),
            tools: info.tools.clone(),
            mcp_servers: info.mcp_servers.iter().map(mcp_server).collect(),
            model: info.model.clone(),
            permission_mode: info.mode.as_str(),
            slash_commands: slash::NAMES.to_vec(),
            qwen_code_version: QWEN_CODE_VERSION,
            agents: Vec::new(),
            onrecord_version: env!("CARGO_PKG_VERSION"),
        }))));
        if !self.introduced && self.shape == Shape::Streamed {
            let goal_state = GoalState::IDLE;
            self.event(Partial::GoalState { goal_state }, emit);
        }
        self.introduced = true;
    }

    fn grow(&mut self, kind: Growing, text: &str, emit: &mut Emit<'_>) {
        if self.open.as_ref().is_some_and(|open| open.kind != kind) {
            self.close_block(Usage::default(), emit);
        }
        if self.open.is_none() {
            self.begin_block(
                match kind {
                    Growing::Text => Block::Text {
                        text: String::new(),
                    },
                    Growing::Thinking => Block::Thinking {
                        thinking: String::new(),
                        signature: String::new(),
                    },
                },
                emit,
            );
            self.open = Some(Open {
                kind,
                text: String::new(),
            });
        }
        if let Some(open) = &mut self.open {
            open.text.push_str(text);
        }
        if self.partial {
            let text = text.to_owned();
            let delta = match kind {
                Growing::Text => Delta::TextDelta { text },
                Growing::Thinking => Delta::ThinkingDelta { thinking: text },
            };
            self.event(
                Partial::ContentBlockDelta {
                    index: self.n_blocks,
                    delta,
                },
                emit,
            );
        }
    }

    fn begin_block(&mut self, content_block: Block, emit: &mut Emit<'_>) {
        if !self.partial {
            return;
        }
        if !self.response_open {
            self.response_open = true;
            let id = id();
            self.announced_id = Some(id.clone());
            let model = self.model.clone();
            let message = PartialMessage {
                id,
                role: "assistant",
                model,
                content: [],
            };
            self.event(Partial::MessageStart { message }, emit);
        }
        self.event(
            Partial::ContentBlockStart {
                index: self.n_blocks,
                content_block,
            },
            emit,
        );
    }

    fn end_block(&mut self, emit: &mut Emit<'_>) {
        if self.partial {
            self.event(
                Partial::ContentBlockStop {
                    index: self.n_blocks,
                },
                emit,
            );
            self.n_blocks += 1;
        }
    }

    /// Ends the growing block, and with it the `assistant` message of its kind.
    fn close_block(&mut self, usage: Usage, emit: &mut Emit<'_>) {
        let Some(open) = self.open.take() else { return };
        self.end_block(emit);
        let block = match open.kind {
            Growing::Text => Block::Text { text: open.text },
            Growing::Thinking => Block::Thinking {
                thinking: open.text,
                signature: String::new(),
            },
        };
        emit(self.assistant(vec![block], None, usage));
        self.n_blocks = 0;
    }

    fn end_response(
        &mut self,
        blocks: &[ModelBlock],
        usage: Option<ModelUsage>,
        emit: &mut Emit<'_>,
    ) {
        let usage = usage.map(usage_of).unwrap_or_default();
        let calls: Vec<&ToolCall> = blocks
            .iter()
            .filter_map(|block| match block {
                ModelBlock::Call(call) => Some(call),
                ModelBlock::Text(_) | ModelBlock::Thought(_) => None,
            })
            .collect();
        self.catch_up(blocks, emit);
        // The tokens are those of the whole response; its last message carries them.
        self.close_block(
            if calls.is_empty() {
                usage
            } else {
                Usage::default()
            },
            emit,
        );
        if !calls.is_empty() {
            let content = calls.iter().map(|call| self.call(call, emit)).collect();
            emit(self.assistant(content, Some("tool_use"), usage));
        }
        if self.response_open {
            self.response_open = false;
            self.event(Partial::MessageStop, emit);
        }
    }

    /// Shows the end of a response that was cancelled while its reader was waited for: it is recorded.
    fn catch_up(&mut self, blocks: &[ModelBlock], emit: &mut Emit<'_>) {
        let last = blocks.iter().rev().find_map(|block| match block {
            ModelBlock::Text(text) => Some((Growing::Text, text.as_str())),
            ModelBlock::Thought(text) => Some((Growing::Thinking, text.as_str())),
            ModelBlock::Call(_) => None,
        });
        let Some((kind, text)) = last else { return };
        let unseen = match &self.open {
            Some(open) if open.kind == kind => text.strip_prefix(open.text.as_str()),
            Some(_) | None => Some(text),
        };
        if let Some(unseen) = unseen.filter(|unseen| !unseen.is_empty()) {
            self.grow(kind, unseen, emit);
        }
    }

    fn call(&mut self, call: &ToolCall, emit: &mut Emit<'_>) -> Block {
        let (id, name) = (call.id.clone(), call.name.clone());
        if self.partial {
            self.begin_block(
                Block::ToolUse {
                    id: id.clone(),
                    name: name.clone(),
                    input: no_arguments(),
                },
                emit,
            );
            let delta = Delta::InputJsonDelta {
                partial_json: call.args.get().to_owned(),
            };
            self.event(
                Partial::ContentBlockDelta {
                    index: self.n_blocks,
                    delta,
                },
                emit,
            );
            self.end_block(emit);
        }
        Block::ToolUse {
            id,
            name,
            input: call.args.clone(),
        }
    }

    fn assistant(
        &mut self,
        content: Vec<Block>,
        stop_reason: Option<&'static str>,
        usage: Usage,
    ) -> Message {
        let id = self.announced_id.take().unwrap_or_else(id);
        Message::Assistant(Assistant {
            uuid: id.clone(),
            session_id: self.session_id.clone(),
            parent_tool_use_id: None,
            message: AssistantMessage {
                id,
                r#type: "message",
                role: "assistant",
                model: self.model.clone(),
                content,
                stop_reason,
                usage,
            },
        })
    }

    fn tool_result(&self, call: &ToolCall, text: &str, status: ToolStatus) -> Message {
        self.user(vec![UserBlock::ToolResult {
            tool_use_id: call.id.clone(),
            is_error: status != ToolStatus::Success,
            content: Some(cut_to_json(text, STREAM_JSON_TOOL_RESULT_BYTES_MAX)),
        }])
    }

    fn user(&self, content: Vec<UserBlock>) -> Message {
        Message::User(User {
            uuid: id(),
            session_id: self.session_id.clone(),
            parent_tool_use_id: None,
            message: UserMessage {
                role: "user",
                content,
            },
        })
    }

    fn end_turn(&mut self, summary: &TurnSummary, emit: &mut Emit<'_>) {
        self.close_block(Usage::default(), emit);
        let error = complaint(&summary.outcome);
        if let (Outcome::ModelFailed(_), Some(text)) = (&summary.outcome, &error) {
            emit(self.assistant(
                vec![Block::Text { text: text.clone() }],
                None,
                Usage::default(),
            ));
        }
        let is_error = error.is_some();
        let millis =
            |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        emit(Message::Result(Box::new(TurnResult {
            subtype: if is_error {
                "error_during_execution"
            } else {
                "success"
            },
            uuid: id(),
            session_id: self.session_id.clone(),
            is_error,
            duration_ms: millis(summary.duration),
            duration_api_ms: millis(summary.duration_api),
            num_turns: summary.n_round_trips,
            result: (!is_error).then(|| summary.answer.clone()),
            usage: usage_of(summary.usage),
            permission_denials: summary.denials.iter().map(denial).collect(),
            stats: (self.shape == Shape::Collected).then(|| stats::of(summary, &self.model)),
            error: error.map(|message| ResultError {
                message,
                kind: matches!(summary.outcome, Outcome::RecordingRequired)
                    .then_some("recording_required"),
            }),
            recording: summary.recording.clone(),
        })));
    }

    fn system<T>(&self, kind: fn(SystemData<T>) -> System, data: T) -> Message {
        system(&self.session_id, kind, data)
    }

    fn event(&self, event: Partial, emit: &mut Emit<'_>) {
        emit(Message::StreamEvent(StreamEvent {
            uuid: id(),
            session_id: self.session_id.clone(),
            parent_tool_use_id: None,
            event,
        }));
    }
}

fn system<T>(session_id: &str, kind: fn(SystemData<T>) -> System, data: T) -> Message {
    Message::System(kind(SystemData {
        uuid: id(),
        session_id: session_id.to_owned(),
        parent_tool_use_id: (),
        data,
    }))
}

/// A text cut in the middle so that its JSON has no more than `bytes_max` bytes.
fn cut_to_json(text: &str, bytes_max: usize) -> String {
    let mut limit = bytes_max;
    loop {
        let cut = cut::middle(text, limit);
        let n_bytes = json_len(&cut);
        if n_bytes <= bytes_max {
            return cut.into_owned();
        }
        // What is escaped is spread evenly, more or less; each round comes nearer.
        limit = (cut.len() * bytes_max / n_bytes).min(limit - 1);
    }
}

fn mcp_server(server: &agent::event::McpServer) -> McpServer {
    McpServer {
        name: server.name.clone(),
        status: if server.connected {
            ServerStatus::Connected
        } else {
            ServerStatus::Disconnected
        },
    }
}

fn id() -> String {
    Uuid::new_v4().to_string()
}

/// The arguments of a call that begins.
fn no_arguments() -> Box<RawValue> {
    // `{}` is JSON.
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}

fn usage_of(usage: ModelUsage) -> Usage {
    Usage {
        input_tokens: usage.input,
        output_tokens: usage.output,
        cache_read_input_tokens: Some(usage.cached),
        total_tokens: Some(usage.total),
    }
}

fn denial(call: &ToolCall) -> Denial {
    Denial {
        tool_name: call.name.clone(),
        tool_use_id: call.id.clone(),
        tool_input: call.args.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{cut_to_json, json_len};

    #[test]
    fn a_result_is_cut_by_what_it_takes_as_json() {
        assert_eq!(cut_to_json("short", 1_000), "short");
        for unit in ["x", "\n", "\u{1}", "\"é", "\u{2028}", "\u{85}"] {
            let text = unit.repeat(10_000);
            let cut = cut_to_json(&text, 1_000);
            let n_bytes = json_len(&cut);
            assert!((500..=1_000).contains(&n_bytes), "{unit:?}: {n_bytes}");
        }
    }
}
