//! One conversation: its history, its totals, its record and its outputs.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use transcript::{
    fault::class_of_creation,
    media::{MediaDir, Medium},
    reader::Loaded,
    record::Body,
    recorder::Start,
};
use wire::{
    limits::{PROMPT_ON_DISK_WAIT_MAX, SETTLE_WAIT_MAX},
    recording::{FaultClass, RecordingReport, RecordingState},
    words,
};

use crate::{
    approval::{Approver, Guard},
    config::{Config, RecordedSession},
    controls::Controls,
    event::{Event, McpServer, SessionChange, SessionInfo, Stats, Subscriber, ToolStats},
    from_record, git,
    image::Image,
    message::{Message, Prompt, ToolCall, Usage},
    model::ToolSpec,
    to_record,
    tool::{Editor, Tool, Workspace},
};

/// What a session is made of.
#[derive(Debug)]
pub struct SessionParts {
    /// The process's configuration.
    pub config: Config,
    /// The session's id.
    pub session_id: String,
    /// Its transcript; `None` where no data root is known.
    pub transcript: Option<PathBuf>,
    /// Where it works.
    pub workspace: Arc<Workspace>,
    /// Who answers, and how much runs without asking.
    pub controls: Controls,
    /// What the model may call.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Instructions before the conversation.
    pub system_prompt: Arc<str>,
    /// Tools that run without asking, by name, in every mode but `plan`.
    pub allowed_tools: Vec<String>,
    /// Who is asked; `None` where nobody can be.
    pub approver: Option<Arc<dyn Approver>>,
    /// Who has the last word on every call; `None` where nobody wants it.
    pub guard: Option<Arc<dyn Guard>>,
    /// An editor that holds files of the workspace; `None` where there is none.
    pub editor: Option<Arc<dyn Editor>>,
    /// Bounds of each turn.
    pub limits: TurnLimits,
}

/// Bounds of one turn; `None` is no bound.
#[derive(Debug, Clone, Copy, Default)]
pub struct TurnLimits {
    /// Model round trips.
    pub n_round_trips_max: Option<u32>,
    /// Tool calls.
    pub n_tool_calls_max: Option<u32>,
    /// Wall time.
    pub wall_time_max: Option<Duration>,
}

/// How a turn ends its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// One-shot: nothing follows (R13).
    Finalize,
    /// Another turn may follow (R14).
    Flush,
}

/// One conversation.
#[derive(Debug)]
pub struct Session {
    pub(crate) parts: SessionParts,
    pub(crate) history: Vec<Message>,
    pub(crate) usage: Usage,
    pub(crate) denials: Vec<ToolCall>,
    pub(crate) stats: Stats,
    /// What the model sees of the tools, made once for each set of them.
    pub(crate) specs: Arc<[ToolSpec]>,
    mcp_servers: Vec<McpServer>,
    subscribers: Vec<Arc<dyn Subscriber>>,
}

/// Where a conversation was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// It is at rest.
    None,
    /// A prompt was never answered.
    Prompt,
    /// Results of tool calls were never answered.
    Turn,
}

impl Session {
    /// A new conversation, recorded from its first prompt on.
    #[must_use]
    pub fn begin(parts: SessionParts) -> Self {
        Self::start(parts, Vec::new(), Start::New)
    }

    /// Takes a stored conversation up again. Its file stays as it is until the next prompt.
    #[must_use]
    pub fn resume(
        parts: SessionParts,
        loaded: &Loaded,
        lock: Option<transcript::lock::Lock>,
    ) -> Self {
        let start = Start::Resume {
            tail: loaded.tail.clone(),
            title: loaded.title.clone(),
            lock,
        };
        let history = from_record::history(loaded);
        Self::start(parts, history, start)
    }

    fn start(parts: SessionParts, history: Vec<Message>, start: Start) -> Self {
        record(&parts, start);
        let specs = parts.tools.iter().map(|tool| tool.spec()).collect();
        Self {
            parts,
            specs,
            history,
            usage: Usage::default(),
            denials: Vec::new(),
            stats: Stats::default(),
            mcp_servers: Vec::new(),
            subscribers: Vec::new(),
        }
    }

    /// Goes on in a new conversation, which knows nothing of the one before and is recorded as a
    /// session of its own. The record of the one before is settled first, as at the end of a turn;
    /// what it still has to write it writes, and a failure of it is told under its own id (R2, R9).
    pub async fn renew(&mut self, session_id: String, transcript: Option<PathBuf>) {
        let previous_recording = self.settle(Settle::Finalize).await;
        let previous_session_id = std::mem::replace(&mut self.parts.session_id, session_id);
        self.parts.transcript = transcript;
        record(&self.parts, Start::New);
        self.history.clear();
        self.usage = Usage::default();
        self.denials.clear();
        self.stats = Stats::default();
        self.publish(Event::SessionChanged(Arc::new(SessionChange {
            previous_session_id,
            previous_recording,
            session_id: self.parts.session_id.clone(),
        })))
        .await;
    }

    /// Replaces what the model may call, from the next model call on.
    pub fn offer_tools(&mut self, tools: Vec<Arc<dyn Tool>>, mcp_servers: Vec<McpServer>) {
        self.specs = tools.iter().map(|tool| tool.spec()).collect();
        self.parts.tools = tools;
        self.mcp_servers = mcp_servers;
    }

    /// Whether the conversation was left before its last turn was done.
    #[must_use]
    pub fn interruption(&self) -> Interruption {
        match self.history.last() {
            Some(Message::User(_)) => Interruption::Prompt,
            Some(Message::ToolResults(_)) => Interruption::Turn,
            Some(Message::Assistant(_)) | None => Interruption::None,
        }
    }

    /// Where it works.
    #[must_use]
    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.parts.workspace
    }

    /// Adds an output; it receives every event from now on.
    pub fn subscribe(&mut self, subscriber: impl Subscriber + 'static) {
        self.subscribers.push(Arc::new(subscriber));
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.parts.session_id
    }

    /// What is known of it now.
    #[must_use]
    pub fn info(&self) -> Arc<SessionInfo> {
        Arc::new(SessionInfo {
            session_id: self.parts.session_id.clone(),
            cwd: self.parts.workspace.root.to_string_lossy().into_owned(),
            tools: self
                .specs
                .iter()
                .map(|spec| spec.name.to_string())
                .collect(),
            mcp_servers: self.mcp_servers.clone(),
            model: self.parts.controls.provider().model().to_owned(),
            mode: self.parts.controls.mode(),
        })
    }

    pub(crate) async fn publish(&self, event: Event) {
        for subscriber in &self.subscribers {
            if let Some(taken) = subscriber.take(&event) {
                taken.await;
            }
        }
    }

    /// Takes a running call's text to every output that has room for it; what a call said while it
    /// ran is a view, its result says it again.
    pub(crate) fn progress_of(&self, call: &ToolCall) -> Arc<dyn Fn(String) + Send + Sync> {
        let subscribers = self.subscribers.clone();
        let call_id = call.id.clone();
        Arc::new(move |text| {
            let progress = Event::ToolProgress {
                call_id: call_id.clone(),
                text,
            };
            for subscriber in &subscribers {
                subscriber.offer(&progress);
            }
        })
    }

    /// Hands a record to the recorder; waits only where its queue is full (B7).
    pub(crate) async fn record(&self, body: Body) {
        if let Some(recorder) = self.parts.config.recorder() {
            recorder.room().await;
            recorder.append(body);
        }
    }

    /// Records the prompt, where the turn has one, and waits until what is recorded so far is on
    /// disk, failed, or late (B7). Answers whether the turn may go on (B6).
    pub(crate) async fn record_prompt(
        &self,
        prompt: Option<&Prompt>,
        cancel: &CancellationToken,
    ) -> bool {
        let Some(recorder) = self.parts.config.recorder() else {
            return !self.parts.config.recording_required();
        };
        let body = match prompt {
            Some(prompt) => match self.keep_images(prompt, cancel).await {
                Some((media, n_lost)) => Some(to_record::user(prompt, media, n_lost)),
                None => return false,
            },
            None => None,
        };
        recorder.set_git_branch(git::branch(&self.parts.workspace.root));
        recorder.room().await;
        let ticket = match body {
            Some(body) => recorder.append_strict(body),
            None => recorder.flush(),
        };
        let saved = tokio::select! {
            saved = tokio::time::timeout(PROMPT_ON_DISK_WAIT_MAX, ticket) => matches!(saved, Ok(Ok(()))),
            // The turn ends as cancelled in any case; its record is judged by the settle.
            () = cancel.cancelled() => true,
        };
        saved || !self.parts.config.recording_required()
    }

    /// Keeps the pictures of a prompt beside the transcript, before the record that refers to them.
    /// Answers those that are kept and how many are not, which the person is told; `None` where the
    /// turn must not go on without them (B6).
    async fn keep_images(
        &self,
        prompt: &Prompt,
        cancel: &CancellationToken,
    ) -> Option<(Vec<Medium>, usize)> {
        if prompt.images.is_empty()
            || matches!(
                self.parts.config.recording_state(),
                RecordingState::Degraded
            )
        {
            return Some((Vec::new(), 0));
        }
        let kept = images_kept(self.parts.transcript.as_deref(), &prompt.images);
        let kept = tokio::select! {
            kept = tokio::time::timeout(PROMPT_ON_DISK_WAIT_MAX, kept) => {
                kept.unwrap_or(Err(FaultClass::Stalled))
            }
            () = cancel.cancelled() => Ok(Vec::new()),
        };
        let (media, class) = match kept {
            Ok(media) => (media, None),
            Err(class) => (Vec::new(), Some(class)),
        };
        if let Some(class) = class {
            if self.parts.config.recording_required() {
                return None;
            }
            self.publish(Event::Warning(words::images_not_saved(class)))
                .await;
        }
        let n_lost = prompt.images.len() - media.len();
        Some((media, n_lost))
    }

    /// Waits at most two seconds until the record is settled, before a terminal result (R13, R14).
    pub(crate) async fn settle(&self, settle: Settle) -> RecordingReport {
        if let Some(recorder) = self.parts.config.recorder() {
            if settle == Settle::Finalize {
                recorder.finalize();
            }
            let flushed = tokio::time::timeout(SETTLE_WAIT_MAX, recorder.flush()).await;
            let mut report = recorder.report();
            if flushed.is_err() && report.state == RecordingState::Saved {
                // Nothing unsaved is announced as saved (R27): the flush has not answered.
                report.state = RecordingState::Pending;
            }
            return report;
        }
        self.parts.config.recording()
    }

    pub(crate) fn count_tool(&mut self, name: &str, success: bool, duration: Duration) {
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let tools = &mut self.stats.tools;
        let index = tools
            .iter()
            .position(|tool| tool.name == name)
            .unwrap_or_else(|| {
                tools.push(ToolStats {
                    name: name.to_owned(),
                    n_calls: 0,
                    n_success: 0,
                    duration_ms: 0,
                });
                tools.len() - 1
            });
        let tool = &mut tools[index];
        tool.n_calls += 1;
        tool.n_success += u64::from(success);
        tool.duration_ms += duration_ms;
    }
}

/// Keeps pictures, all of them or none, on a thread that may wait for the disk.
async fn images_kept(
    transcript: Option<&Path>,
    images: &[Image],
) -> Result<Vec<Medium>, FaultClass> {
    let dir = MediaDir::of(transcript.ok_or(FaultClass::Other)?);
    let images = images.to_vec();
    let (answer, kept) = oneshot::channel();
    thread::Builder::new()
        .name("images".to_owned())
        .spawn(move || {
            let keep = |image: &Image| dir.keep(image.mime_type(), image.bytes());
            let media: io::Result<Vec<_>> = images.iter().map(keep).collect();
            // Dropped: whoever asked does not wait any more.
            _ = answer.send(media.map_err(|error| class_of_creation(&error)));
        })
        .map_err(|error| class_of_creation(&error))?;
    kept.await.unwrap_or(Err(FaultClass::Other))
}

fn record(parts: &SessionParts, start: Start) {
    parts.config.record_session(RecordedSession {
        path: parts.transcript.clone(),
        session_id: parts.session_id.clone(),
        cwd: parts.workspace.root.to_string_lossy().into_owned(),
        start,
    });
}

/// Why a turn ends before its work does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Somebody cancelled it.
    Cancelled,
    /// Its wall time is over.
    WallTime,
}

/// What can stop a turn, for whatever it waits on.
#[derive(Debug, Clone)]
pub(crate) struct Stopper {
    pub(crate) cancel: CancellationToken,
    deadline: Option<tokio::time::Instant>,
}

impl Stopper {
    pub(crate) fn new(
        cancel: CancellationToken,
        began: Instant,
        wall_time: Option<Duration>,
    ) -> Self {
        let deadline = wall_time
            .and_then(|max| began.checked_add(max))
            .map(Into::into);
        Self { cancel, deadline }
    }

    /// Ready once the turn has to stop.
    pub(crate) async fn stopped(&self) -> Stop {
        let late = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Stop::Cancelled,
            () = late => Stop::WallTime,
        }
    }
}
