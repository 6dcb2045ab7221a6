//! The sessions that are open, each with a task of its own that runs its turns one after another.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use agent::{
    config::Config,
    controls::Controls,
    event::{Outcome, Stats, TurnSummary},
    message::{Prompt, Usage},
    session::{Interruption, Session, Settle},
};
use jsonrpc::{INTERNAL_ERROR, Responder, RpcError};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use transcript::record::{Title, TitleSource};
use wire::{
    limits::{
        ACP_COMMANDS_WAITING_MAX, INPUT_PROMPTS_BYTES_MAX, SESSION_NAME_CHARS_MAX, SETTLE_WAIT_MAX,
    },
    recording::{RecordingReport, RecordingState},
    words,
};

use crate::{
    backend::recording_meta,
    protocol::update::{Chunk, Update},
    record::States,
    to_acp::Teller,
};

/// The open sessions, by id. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// No session is opened any more.
    is_over: bool,
    live: BTreeMap<String, Arc<Live>>,
    /// Ids of sessions on their way from the disk.
    opening: BTreeSet<String>,
}

/// An id that nobody else may open meanwhile. Dropping it lets the id go.
#[derive(Debug)]
pub(crate) struct Reserved {
    sessions: Sessions,
    id: String,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.sessions.lock().opening.remove(&self.id);
    }
}

impl Sessions {
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Live>> {
        self.lock().live.get(id).map(Arc::clone)
    }

    /// Reserves an id; `None` where it is open or being opened.
    pub(crate) fn reserve(&self, id: &str) -> Option<Reserved> {
        let mut inner = self.lock();
        if inner.is_over || inner.live.contains_key(id) || !inner.opening.insert(id.to_owned()) {
            return None;
        }
        Some(Reserved {
            sessions: self.clone(),
            id: id.to_owned(),
        })
    }

    pub(crate) fn add(&self, live: Arc<Live>) {
        self.lock().live.insert(live.id.clone(), live);
    }

    /// Takes out a session that is closed, unless another one of its id was opened since.
    pub(crate) fn remove(&self, closed: &Arc<Live>) {
        let mut inner = self.lock();
        let is_it = |live: &Arc<Live>| Arc::ptr_eq(live, closed);
        if inner.live.get(&closed.id).is_some_and(is_it) {
            inner.live.remove(&closed.id);
        }
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.lock().live.keys().cloned().collect()
    }

    /// Takes all of them out; none is opened any more.
    pub(crate) fn take_all(&self) -> Vec<Arc<Live>> {
        let mut inner = self.lock();
        inner.is_over = true;
        std::mem::take(&mut inner.live).into_values().collect()
    }

    /// Whether they were all taken out.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open session, as far as others than its task may touch it.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) id: String,
    pub(crate) cwd: String,
    pub(crate) config: Config,
    pub(crate) controls: Controls,
    /// The prompts that are not answered yet, in their order.
    unanswered: Mutex<VecDeque<Unanswered>>,
    /// The daemon's id of the prompt that runs.
    pub(crate) prompt_id: Arc<Mutex<Option<String>>>,
    pub(crate) began: SystemTime,
    facts: Mutex<Facts>,
    /// Fires where the session ends; a strict close that fails puts a new one in its place.
    ending: Mutex<CancellationToken>,
    commands: mpsc::Sender<Command>,
    /// Closes under way.
    n_closing: watch::Sender<usize>,
    pub(crate) states: States,
    /// Ends what follows the session's record.
    pub(crate) gone: CancellationToken,
}

/// A prompt that is not answered yet.
#[derive(Debug)]
struct Unanswered {
    /// Ends it.
    cancel: CancellationToken,
    n_bytes: usize,
}

/// What is known after the last turn.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) title: Option<String>,
    pub(crate) interruption: Interruption,
    pub(crate) usage: Usage,
    pub(crate) stats: Stats,
    pub(crate) duration_api: Duration,
    pub(crate) n_prompts: u64,
}

/// What the task is asked to do, in this order.
#[derive(Debug)]
enum Command {
    Prompt(Asked, CancellationToken),
    Close {
        strict: bool,
        done: oneshot::Sender<Result<(), RecordingReport>>,
    },
}

/// A prompt and where its answer goes.
#[derive(Debug)]
pub(crate) struct Asked {
    /// `None` goes on with the turn that was left before it was done.
    pub(crate) prompt: Option<Prompt>,
    /// What it is in place of a prompt to the model.
    pub(crate) command: Option<SlashCommand>,
    pub(crate) prompt_id: Option<String>,
    pub(crate) responder: Responder,
}

/// Why a session was not closed.
#[derive(Debug)]
pub(crate) enum NotClosed {
    /// A flush was required and has failed; the session goes on.
    NotSaved(RecordingReport),
    /// Its turn did not end in time; the session goes on.
    TimedOut,
}

/// What a task is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) id: String,
    pub(crate) cwd: String,
    pub(crate) session: Session,
    pub(crate) config: Config,
    pub(crate) controls: Controls,
    pub(crate) title: Option<String>,
    pub(crate) teller: Teller,
    pub(crate) prompt_id: Arc<Mutex<Option<String>>>,
    pub(crate) states: States,
}

impl Live {
    /// Starts the session's task.
    pub(crate) fn start(parts: Parts) -> Arc<Self> {
        let (commands, inbox) = mpsc::channel(ACP_COMMANDS_WAITING_MAX);
        let live = Arc::new(Self {
            id: parts.id,
            cwd: parts.cwd,
            config: parts.config,
            controls: parts.controls,
            unanswered: Mutex::default(),
            prompt_id: parts.prompt_id,
            began: SystemTime::now(),
            facts: Mutex::new(Facts {
                title: parts.title,
                interruption: parts.session.interruption(),
                usage: Usage::default(),
                stats: Stats::default(),
                duration_api: Duration::ZERO,
                n_prompts: 0,
            }),
            ending: Mutex::default(),
            commands,
            n_closing: watch::Sender::new(0),
            states: parts.states,
            gone: CancellationToken::new(),
        });
        let task = Task {
            live: Arc::clone(&live),
            session: parts.session,
            teller: parts.teller,
        };
        tokio::spawn(task.run(inbox));
        live
    }

    pub(crate) fn facts(&self) -> Facts {
        self.lock_facts().clone()
    }

    fn lock_facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a prompt. Those before it that are not answered are cancelled, and answered first.
    pub(crate) fn prompt(&self, asked: Asked) {
        let cancel = self.ending().child_token();
        let mut unanswered = self.unanswered();
        for before in unanswered.iter() {
            before.cancel.cancel();
        }
        let n_bytes = asked.prompt.as_ref().map_or(0, Prompt::n_bytes);
        let n_waiting: usize = unanswered.iter().map(|before| before.n_bytes).sum();
        // One prompt is taken however large it is.
        if n_waiting > 0 && n_waiting + n_bytes > INPUT_PROMPTS_BYTES_MAX {
            return refuse(asked);
        }
        let command = Command::Prompt(asked, cancel.clone());
        match self.commands.try_send(command) {
            Ok(()) => unanswered.push_back(Unanswered { cancel, n_bytes }),
            Err(
                mpsc::error::TrySendError::Full(command)
                | mpsc::error::TrySendError::Closed(command),
            ) => {
                if let Command::Prompt(asked, _) = command {
                    refuse(asked);
                }
            }
        }
    }

    /// Cancels every prompt that is not answered; whether there was one. Also one whose turn has not
    /// begun: for whoever sent it, it runs.
    pub(crate) fn cancel(&self) -> bool {
        let unanswered = self.unanswered();
        for prompt in unanswered.iter() {
            prompt.cancel.cancel();
        }
        !unanswered.is_empty()
    }

    /// Whether a prompt is not answered.
    pub(crate) fn is_busy(&self) -> bool {
        !self.unanswered().is_empty()
    }

    fn unanswered(&self) -> MutexGuard<'_, VecDeque<Unanswered>> {
        self.unanswered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Names the session; answers whether the name is on disk (R27).
    pub(crate) async fn rename(&self, text: &str, source: TitleSource) -> bool {
        let title = Title {
            text: text.to_owned(),
            source,
        };
        let persisted = self.config.rename(title, SETTLE_WAIT_MAX).await;
        self.lock_facts().title = Some(text.to_owned());
        self.states.before_answer(&self.config.recording());
        if persisted {
            self.states.tell_title(text, source).await;
        }
        persisted
    }

    /// Notes that the session is being closed, until what is answered is dropped.
    pub(crate) fn closing(self: &Arc<Self>) -> Closing {
        self.n_closing.send_modify(|n| *n += 1);
        Closing(Arc::clone(self))
    }

    /// Whether it is being closed.
    pub(crate) fn is_closing(&self) -> bool {
        *self.n_closing.borrow() > 0
    }

    /// Waits until it is closed, or goes on because that failed; answers whether it is closed.
    pub(crate) async fn is_closed(&self) -> bool {
        let mut n_closing = self.n_closing.subscribe();
        // Dropped: the sender lives as long as this session.
        _ = n_closing.wait_for(|n| *n == 0).await;
        self.gone.is_cancelled()
    }

    /// Ends the session after its running turn, which is cancelled and answered first. Where a flush
    /// is required and fails, the session goes on (R21).
    pub(crate) async fn close(&self, strict: bool, drain: Duration) -> Result<(), NotClosed> {
        let began = Instant::now();
        if strict {
            // Before anything is given up.
            let flushed = self.config.flush(drain.min(SETTLE_WAIT_MAX)).await;
            flushed.map_err(NotClosed::NotSaved)?;
        }
        self.ending().cancel();
        let (done, closed) = oneshot::channel();
        let close = Command::Close { strict, done };
        let wait = drain.saturating_sub(began.elapsed());
        let asked = tokio::time::timeout(wait, async {
            if self.commands.send(close).await.is_err() {
                // Closed before.
                return Ok(());
            }
            closed.await.unwrap_or(Ok(()))
        })
        .await;
        let result = match asked {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(report)) => Err(NotClosed::NotSaved(report)),
            Err(_) => Err(NotClosed::TimedOut),
        };
        *self.ending() = CancellationToken::new();
        result
    }

    fn ending(&self) -> MutexGuard<'_, CancellationToken> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Too much waits, or nothing is taken any more.
fn refuse(asked: Asked) {
    let error = RpcError::internal("the session is closed, or too many prompts wait");
    // Dropped: a client that is gone needs no answer.
    drop(asked.responder.refuse(error));
}

/// A close under way. Dropping it says that it has come to its end, whichever.
#[derive(Debug)]
pub(crate) struct Closing(Arc<Live>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.n_closing.send_modify(|n| *n -= 1);
    }
}

/// Runs one session.
struct Task {
    live: Arc<Live>,
    session: Session,
    teller: Teller,
}

impl Task {
    async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        while let Some(command) = inbox.recv().await {
            match command {
                Command::Prompt(asked, cancel) => self.prompt(asked, &cancel).await,
                // Whoever asked does not wait any more: the session was to go on.
                Command::Close { done, .. } if done.is_closed() => {}
                Command::Close { strict, done } => {
                    let flushed = self.settle().await;
                    let report = self.live.config.recording();
                    self.live.states.before_answer(&report);
                    if strict && let Err(report) = flushed {
                        // Dropped: whoever asked has gone; the session goes on all the same.
                        _ = done.send(Err(report));
                        continue;
                    }
                    if done.is_closed() {
                        // As above: the wait was over before the record was settled.
                        continue;
                    }
                    self.live.config.shutdown(SETTLE_WAIT_MAX).await;
                    self.live.gone.cancel();
                    // Dropped: as above, and the session is closed.
                    _ = done.send(Ok(()));
                    return;
                }
            }
        }
        self.live.gone.cancel();
    }

    async fn settle(&self) -> Result<(), RecordingReport> {
        if let Some(recorder) = self.live.config.recorder() {
            recorder.finalize();
        }
        self.live.config.flush(SETTLE_WAIT_MAX).await
    }

    async fn prompt(&mut self, asked: Asked, cancel: &CancellationToken) {
        *self
            .live
            .prompt_id
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = asked.prompt_id;
        let withdrawn = end_where_withdrawn(&asked.responder, cancel);
        let began = SystemTime::now();
        let answer = if let Some(command) = asked.command {
            Ok(self.obey(command).await)
        } else {
            let summary = match asked.prompt {
                Some(prompt) => self.session.run_turn(prompt, Settle::Flush, cancel).await,
                None => self.session.continue_turn(Settle::Flush, cancel).await,
            };
            self.note(&summary);
            result(&summary, began)
        };
        withdrawn.abort();
        self.live.unanswered().pop_front();
        let report = self.live.config.recording();
        self.live.states.before_answer(&report);
        // Dropped: a client that is gone needs no answer.
        _ = asked.responder.respond(answer).await;
    }

    fn note(&self, summary: &TurnSummary) {
        let mut facts = self.live.lock_facts();
        facts.interruption = self.session.interruption();
        facts.usage = summary.usage;
        facts.stats = summary.stats.clone();
        facts.duration_api += summary.duration_api;
        facts.n_prompts += 1;
    }

    async fn obey(&self, command: SlashCommand) -> Value {
        let text = match command {
            SlashCommand::Rename(title) if title.is_empty() => {
                "Give the title after the command: /rename TITLE".to_owned()
            }
            SlashCommand::Rename(title) => {
                if self.live.rename(&title, TitleSource::Manual).await {
                    format!("The session is named \"{title}\".")
                } else {
                    format!("The session is named \"{title}\" here, but the name is not saved.")
                }
            }
            SlashCommand::Recording => sentence(&self.live.config.recording()).to_owned(),
        };
        let update = Update::AgentMessageChunk(Chunk::new(&text));
        self.teller.tell(&update).await;
        let report = self.live.config.recording();
        json!({"stopReason": "end_turn", "_meta": recording_meta(&report)})
    }
}

/// Cancels a turn whose request the client takes back, as it also may.
fn end_where_withdrawn(responder: &Responder, cancel: &CancellationToken) -> JoinHandle<()> {
    let (withdrawn, cancel) = (responder.cancellation().clone(), cancel.clone());
    tokio::spawn(async move {
        withdrawn.cancelled().await;
        cancel.cancel();
    })
}

/// A prompt that is a command to the session.
#[derive(Debug, Clone)]
pub(crate) enum SlashCommand {
    Rename(String),
    Recording,
}

/// The commands, sorted by name, with what a person is told of each.
pub(crate) const COMMANDS: [(&str, &str); 2] = [
    ("recording", "Say whether this session is saved"),
    ("rename", "Give this session a title"),
];

/// The command that a line of text is.
pub(crate) fn command(line: &str) -> Option<SlashCommand> {
    if line == "/recording" {
        return Some(SlashCommand::Recording);
    }
    let title = line.strip_prefix("/rename")?;
    (title.is_empty() || title.starts_with(' ')).then(|| SlashCommand::Rename(shortened(title)))
}

/// A name of a session, as long as one may be.
pub(crate) fn shortened(name: &str) -> String {
    name.trim().chars().take(SESSION_NAME_CHARS_MAX).collect()
}

fn sentence(report: &RecordingReport) -> &'static str {
    match report.state {
        RecordingState::Saved => "Everything of this session is saved.",
        RecordingState::Pending => "Part of this session is not yet on disk.",
        RecordingState::NeverStarted => words::NEVER_STARTED_LINE,
        RecordingState::Degraded => words::DEGRADED_MESSAGE,
        RecordingState::Off => "Recording is switched off.",
    }
}

/// The answer to a prompt.
fn result(summary: &TurnSummary, began: SystemTime) -> Result<Value, RpcError> {
    let mut meta = recording_meta(&summary.recording);
    let stop_reason = match &summary.outcome {
        Outcome::Success => "end_turn",
        Outcome::TurnLimit(_) | Outcome::ToolCallLimit(_) | Outcome::WallTimeLimit(_) => {
            "max_turn_requests"
        }
        Outcome::Cancelled => {
            let at = unix_millis(began + summary.duration);
            let elapsed = u64::try_from(summary.duration.as_millis()).unwrap_or(u64::MAX);
            meta["qwen.promptCancelled"] = json!({"cancelledAt": at, "elapsedMs": elapsed});
            "cancelled"
        }
        Outcome::ModelFailed(error) => {
            return Err(RpcError::internal(&error.to_string()));
        }
        Outcome::RecordingRequired => {
            let error = RpcError::new(INTERNAL_ERROR, words::REQUIRED_NOT_BEGUN_LINE);
            return Err(error.with_data(&json!({
                "details": words::REQUIRED_NOT_BEGUN_LINE,
                "errorKind": "recording_required",
                "_meta": meta,
            })));
        }
    };
    Ok(json!({"stopReason": stop_reason, "_meta": meta}))
}

/// Milliseconds since 1970.
pub(crate) fn unix_millis(time: SystemTime) -> u64 {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
