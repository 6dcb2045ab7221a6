//! The prompts of a session: one runs, others wait, the last ones can be asked for.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use jsonrpc::{METHOD_NOT_FOUND, RequestError, RpcError};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use uuid::Uuid;
use wire::{
    http::{Accepted, PendingPrompt, Prompt, Turn, TurnFault},
    limits::{CHILD_ANSWER_WAIT_MAX, TURN_RESULT_BYTES_MAX, TURNS_REMEMBERED_MAX},
    recording::RecordingReport,
};

use crate::{
    Caller, Error, TurnQuery,
    entry::{About, Entry, Held, Phase, Title},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Prompts {
    running: Option<Running>,
    waiting: VecDeque<Asked>,
    settled: VecDeque<Turn>,
    max: usize,
    /// A cancel of nothing was told, and no prompt came since.
    is_idle_cancel_told: bool,
}

/// A prompt that was taken.
#[derive(Debug)]
struct Asked {
    id: Arc<str>,
    originator: Option<Arc<str>>,
    text: String,
    content: Box<RawValue>,
    meta: Option<Box<RawValue>>,
    queued_at_ms: u64,
    deadline: Option<Duration>,
    had_to_wait: bool,
}

#[derive(Debug)]
struct Running {
    prompt: Asked,
    started_at_ms: u64,
    /// What was said so far, cut.
    answer: String,
    /// Its outcome was told; only the child has not answered.
    is_told: bool,
}

/// Why a turn ended without the child's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The session is closed.
    Closed,
    /// The child ended.
    ChildEnded,
    /// The daemon stops.
    Shutdown,
}

impl Asked {
    fn about(&self) -> About {
        About {
            prompt_id: Some(Arc::clone(&self.id)),
            originator: self.originator.clone(),
        }
    }

    fn turn(&self, session_id: &str, state: &str) -> Turn {
        Turn {
            session_id: session_id.to_owned(),
            state: state.to_owned(),
            prompt_id: self.id.to_string(),
            prompt_text: self.text.clone(),
            queued_at: self.queued_at_ms,
            started_at: None,
            ended_at: None,
            stop_reason: None,
            result_text: None,
            originator_client_id: self.originator.as_deref().map(str::to_owned),
        }
    }

    fn pending(&self, state: &str) -> PendingPrompt {
        PendingPrompt {
            prompt_id: self.id.to_string(),
            text: self.text.clone(),
            queued_at: self.queued_at_ms,
            state: state.to_owned(),
            originator_client_id: self.originator.as_deref().map(str::to_owned),
        }
    }
}

impl Prompts {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            running: None,
            waiting: VecDeque::new(),
            settled: VecDeque::new(),
            max,
            is_idle_cancel_told: false,
        }
    }

    /// The running prompt and who sent it.
    pub(crate) fn about(&self) -> (Option<&str>, Option<&str>) {
        let prompt = self.told().map(|running| &running.prompt);
        prompt.map_or((None, None), |prompt| {
            (Some(&*prompt.id), prompt.originator.as_deref())
        })
    }

    pub(crate) fn about_owned(&self) -> About {
        self.told()
            .map_or_else(About::default, |running| running.prompt.about())
    }

    /// The running prompt whose outcome is not told.
    fn told(&self) -> Option<&Running> {
        self.running.as_ref().filter(|running| !running.is_told)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.told().is_some()
    }

    /// Whether nothing runs or waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none() && self.waiting.is_empty()
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn add_answer(&mut self, text: &str) {
        if let Some(running) = &mut self.running {
            let room = TURN_RESULT_BYTES_MAX.saturating_sub(running.answer.len());
            running
                .answer
                .push_str(&text[..text.floor_char_boundary(room)]);
        }
    }

    pub(crate) fn pending(&self) -> Vec<PendingPrompt> {
        let running = self.told().map(|running| running.prompt.pending("running"));
        let waiting = self.waiting.iter().map(|asked| asked.pending("queued"));
        running.into_iter().chain(waiting).collect()
    }

    pub(crate) fn turn(&self, session_id: &str, query: TurnQuery<'_>) -> Option<Turn> {
        let running = || {
            self.told().map(|running| Turn {
                started_at: Some(running.started_at_ms),
                ..running.prompt.turn(session_id, "running")
            })
        };
        match query {
            TurnQuery::Current => running().or_else(|| self.settled.back().cloned()),
            TurnQuery::Prompt(id) => running()
                .filter(|turn| turn.prompt_id == id)
                .or_else(|| {
                    let waiting = self.waiting.iter().find(|asked| *asked.id == *id)?;
                    Some(waiting.turn(session_id, "queued"))
                })
                .or_else(|| {
                    let settled = self.settled.iter().rev();
                    settled.clone().find(|turn| turn.prompt_id == id).cloned()
                }),
        }
    }

    fn remember(&mut self, turn: Turn) {
        if self.settled.len() >= TURNS_REMEMBERED_MAX {
            self.settled.pop_front();
        }
        self.settled.push_back(turn);
    }

    /// Takes a waiting prompt out.
    fn take_waiting(&mut self, id: &str) -> Option<Asked> {
        let at = self.waiting.iter().position(|asked| *asked.id == *id)?;
        self.waiting.remove(at)
    }

    /// The running prompt, to be told of once.
    fn tell(&mut self) -> Option<&mut Running> {
        let running = self.running.as_mut().filter(|running| !running.is_told)?;
        running.is_told = true;
        Some(running)
    }
}

/// What the child answers to a prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    stop_reason: Option<String>,
    #[serde(rename = "_meta")]
    meta: Option<AnswerMeta>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnswerMeta {
    #[serde(rename = "qwen.branchPoint")]
    branch_point: Option<Value>,
    #[serde(rename = "qwen.promptCancelled")]
    cancelled: Option<Value>,
    #[serde(rename = "onrecord/recording")]
    recording: Option<RecordingReport>,
}

impl Held<'_> {
    /// Takes a prompt, to be run at once or in its turn.
    pub(crate) fn admit(
        &mut self,
        caller: &Caller,
        prompt: Prompt,
        deadline: Option<Duration>,
    ) -> Result<Accepted, Error> {
        let n_pending = self.prompts.waiting.len() + usize::from(self.prompts.running.is_some());
        if n_pending >= self.prompts.max {
            return Err(Error::PromptQueueFull {
                limit: self.prompts.max,
                n_pending,
            });
        }
        let last_event_id = self.entry.bus.head();
        let queued_at_ms = (self.entry.now_ms)();
        let own = prompt.deadline_ms.map(Duration::from_millis);
        let asked = Asked {
            id: Uuid::new_v4().to_string().into(),
            originator: caller.client_id.as_deref().map(Into::into),
            text: text_of(&prompt.content),
            content: prompt.content,
            meta: prompt.meta,
            queued_at_ms,
            deadline: deadline.map(|server| own.map_or(server, |own| own.min(server))),
            had_to_wait: self.prompts.running.is_some(),
        };
        let accepted = Accepted {
            prompt_id: asked.id.to_string(),
            last_event_id,
            event_epoch: self.entry.bus.epoch().to_owned(),
        };
        self.prompts.is_idle_cancel_told = false;
        self.touch(queued_at_ms);
        if self.is_new {
            self.name_after(&asked.text);
        }
        if asked.had_to_wait {
            let data = json!({
                "sessionId": self.entry.id,
                "promptId": &*asked.id,
                "text": asked.text,
                "queuedAt": queued_at_ms,
            });
            self.publish("pending_prompt_added", &data, &asked.about());
            self.prompts.waiting.push_back(asked);
        } else {
            self.run(asked);
        }
        Ok(accepted)
    }

    /// Names a session that has no title after its first prompt.
    pub(crate) fn name_after(&mut self, text: &str) {
        if self.title.is_none() && !text.trim().is_empty() {
            let text = &text[..text.floor_char_boundary(TITLE_BYTES_MAX)];
            self.title = Some(Title {
                text: text.to_owned(),
                source: None,
            });
        }
    }

    /// Says that a prompt begins.
    fn tell_start(&mut self, asked: &Asked) {
        let about = asked.about();
        if asked.had_to_wait {
            let data =
                json!({"sessionId": self.entry.id, "promptId": &*asked.id, "text": asked.text});
            self.publish("pending_prompt_started", &data, &about);
        }
        let blocks: Vec<Value> = serde_json::from_str(asked.content.get()).unwrap_or_default();
        for block in blocks {
            let at_ms = (self.entry.now_ms)();
            let update = json!({
                "sessionUpdate": "user_message_chunk",
                "content": block,
                "_meta": {"serverTimestamp": at_ms, "source": "bridge-echo"},
            });
            self.publish_own_update(&update, &about);
        }
    }

    /// Runs a prompt now.
    fn run(&mut self, asked: Asked) {
        self.tell_start(&asked);
        self.turn_error = None;
        let params = json!({
            "sessionId": self.entry.id,
            "prompt": asked.content,
            "_meta": meta_of(&asked, &self.entry.id),
        });
        let (id, deadline) = (Arc::clone(&asked.id), asked.deadline);
        self.prompts.running = Some(Running {
            started_at_ms: (self.entry.now_ms)(),
            answer: String::new(),
            is_told: false,
            prompt: asked,
        });
        let (entry, answered) = (Arc::clone(self.entry), Arc::clone(&id));
        let sent =
            self.entry
                .channel
                .peer
                .request_then("session/prompt", &params, move |outcome| {
                    entry.hold().answered(&answered, outcome);
                });
        if let Err(error) = sent {
            return self.answered(&id, Err(error));
        }
        if let Some(deadline) = deadline {
            tokio::spawn(keep_deadline(Arc::clone(self.entry), id, deadline));
        }
    }

    /// The child is done with a prompt, in the order of the wire.
    fn answered(&mut self, id: &str, outcome: Result<Box<RawValue>, RequestError>) {
        let is_running = |running: &Running| *running.prompt.id == *id;
        if !self.prompts.running.as_ref().is_some_and(is_running) {
            return;
        }
        // Whatever it asked within the turn is over.
        self.drop_permissions("agent_cancelled");
        match outcome {
            Ok(result) => {
                let answer: Answer = serde_json::from_str(result.get()).unwrap_or_default();
                self.complete(answer);
            }
            Err(RequestError::Closed(_)) => self.lose_running(Lost::ChildEnded),
            Err(RequestError::Remote(error)) => self.fail_running(&error),
            Err(
                error @ (RequestError::TimedOut
                | RequestError::TooLarge { .. }
                | RequestError::AnswerTooLarge { .. }
                | RequestError::Malformed
                | RequestError::TooMany { .. }
                | RequestError::Encode(_)),
            ) => self.fail_running(&RpcError::internal(&error.to_string())),
        }
        self.prompts.running = None;
        self.run_next();
    }

    /// Runs the prompt that waits longest, where none runs and the session is open.
    pub(crate) fn run_next(&mut self) {
        let is_free = self.phase == Phase::Open
            && self.prompts.running.is_none()
            && !self.entry.channel.peer.is_closed();
        if is_free && let Some(asked) = self.prompts.waiting.pop_front() {
            self.run(asked);
        }
    }

    fn complete(&mut self, answer: Answer) {
        let meta = answer.meta.unwrap_or_default();
        if let Some(report) = &meta.recording {
            self.take_report(report);
        }
        let stop_reason = answer.stop_reason.unwrap_or_else(|| "end_turn".to_owned());
        let Some(about) = self.settle_running(
            if stop_reason == "cancelled" {
                "cancelled"
            } else {
                "completed"
            },
            Some(&stop_reason),
        ) else {
            return;
        };
        let mut data = json!({
            "sessionId": self.entry.id,
            "stopReason": stop_reason,
            "promptId": about.prompt_id.as_deref(),
        });
        if let Some(point) = meta.branch_point {
            data["branchPoint"] = point;
        }
        if let Some(cancelled) = meta.cancelled {
            data["promptCancelled"] = cancelled;
        }
        self.publish("turn_complete", &data, &about);
        self.tell_completed(&about);
    }

    /// Says that a prompt which had to wait is done.
    fn tell_completed(&mut self, about: &About) {
        let had_to_wait =
            (self.prompts.running.as_ref()).is_some_and(|running| running.prompt.had_to_wait);
        if had_to_wait {
            let data = json!({
                "sessionId": self.entry.id,
                "promptId": about.prompt_id.as_deref(),
                "state": "completed",
            });
            self.publish("pending_prompt_completed", &data, about);
        }
    }

    /// The running turn has an outcome, which is about to be told; once.
    fn settle_running(&mut self, state: &str, stop_reason: Option<&str>) -> Option<About> {
        let ended_at = (self.entry.now_ms)();
        let session_id = &self.entry.id;
        let running = self.prompts.tell()?;
        let about = running.prompt.about();
        let turn = Turn {
            started_at: Some(running.started_at_ms),
            ended_at: Some(ended_at),
            stop_reason: stop_reason.map(str::to_owned),
            result_text: Some(std::mem::take(&mut running.answer)).filter(|text| !text.is_empty()),
            ..running.prompt.turn(session_id, state)
        };
        self.prompts.remember(turn);
        Some(about)
    }

    fn fail_running(&mut self, error: &RpcError) {
        let Some(about) = self.settle_running("error", None) else {
            return;
        };
        let data = json!({"sessionId": self.entry.id, "reason": "forward_failed"});
        self.publish("prompt_cancelled", &data, &about);
        let told: ErrorData = error
            .data
            .as_ref()
            .and_then(|data| serde_json::from_str(data.get()).ok())
            .unwrap_or_default();
        let fault = TurnFault {
            message: told.details.unwrap_or_else(|| error.message.clone()),
            code: Some(error.code.to_string()),
            error_kind: told.error_kind,
        };
        self.tell_turn_error(fault, &about);
        self.tell_completed(&about);
    }

    fn tell_turn_error(&mut self, fault: TurnFault, about: &About) {
        let mut data = json!({"sessionId": self.entry.id, "message": fault.message});
        if let Some(code) = &fault.code {
            data["code"] = json!(code);
        }
        if let Some(kind) = &fault.error_kind {
            data["errorKind"] = json!(kind);
        }
        data["promptId"] = json!(about.prompt_id.as_deref());
        self.turn_error = Some(fault);
        self.publish("turn_error", &data, about);
    }

    /// The running turn will not be answered.
    pub(crate) fn lose_running(&mut self, lost: Lost) {
        let Some(about) = self.settle_running("error", None) else {
            return;
        };
        let cancelled = |reason: Option<&str>| {
            let mut data = json!({"sessionId": self.entry.id});
            if let Some(reason) = reason {
                data["reason"] = json!(reason);
            }
            data
        };
        match lost {
            Lost::ChildEnded => {
                let data = cancelled(Some("forward_failed"));
                self.publish("prompt_cancelled", &data, &about);
                self.tell_turn_error(lost.fault(&self.entry.id), &about);
            }
            Lost::Closed | Lost::Shutdown => {
                let data = cancelled(None);
                self.tell_turn_error(lost.fault(&self.entry.id), &about);
                self.publish("prompt_cancelled", &data, &about);
            }
        }
    }

    /// No waiting prompt will run: each begins and fails.
    pub(crate) fn lose_waiting(&mut self, lost: Lost) {
        while let Some(asked) = self.prompts.waiting.pop_front() {
            self.tell_start(&asked);
            let about = asked.about();
            let fault = match lost {
                Lost::ChildEnded => TurnFault {
                    code: Some("channel_closed".to_owned()),
                    ..lost.fault(&self.entry.id)
                },
                Lost::Closed | Lost::Shutdown => lost.fault(&self.entry.id),
            };
            let turn = Turn {
                ended_at: Some((self.entry.now_ms)()),
                ..asked.turn(&self.entry.id, "error")
            };
            self.prompts.remember(turn);
            self.tell_turn_error(fault, &about);
            let data = json!({"sessionId": self.entry.id});
            self.publish("prompt_cancelled", &data, &about);
        }
    }

    /// Cancels the running prompt, or says that there was none.
    pub(crate) fn cancel(&mut self, caller: &Caller) {
        let data = json!({"sessionId": self.entry.id});
        let running = self.about_running().prompt_id;
        if running.is_none() && std::mem::replace(&mut self.prompts.is_idle_cancel_told, true) {
            return;
        }
        let is_running = running.is_some();
        let about = About::caller(caller).of(running);
        self.publish("prompt_cancelled", &data, &about);
        self.drop_permissions("agent_cancelled");
        if is_running {
            ask_to_cancel(self.entry);
        } else {
            self.entry.notify_cancel();
        }
    }

    /// Takes a prompt back; a running one is cancelled. Whether it was there.
    pub(crate) fn take_back(&mut self, caller: &Caller, id: &str) -> bool {
        if self.about_running().prompt_id.as_deref() == Some(id) {
            self.cancel(caller);
            return true;
        }
        let Some(asked) = self.prompts.take_waiting(id) else {
            return false;
        };
        let about = About::caller(caller).of(Some(Arc::clone(&asked.id)));
        let data = json!({"sessionId": self.entry.id, "promptId": id, "state": "removed"});
        self.publish("pending_prompt_completed", &data, &about);
        let data = json!({"sessionId": self.entry.id, "stopReason": "cancelled", "promptId": id});
        self.publish("turn_complete", &data, &about);
        let turn = Turn {
            ended_at: Some((self.entry.now_ms)()),
            stop_reason: Some("cancelled".to_owned()),
            ..asked.turn(&self.entry.id, "cancelled")
        };
        self.prompts.remember(turn);
        true
    }
}

impl Lost {
    fn fault(self, session_id: &str) -> TurnFault {
        let (message, code) = match self {
            Self::Closed => (
                "session closed before the prompt completed".to_owned(),
                Some("session_closed"),
            ),
            Self::ChildEnded => (
                format!("agent channel closed mid-request (session {session_id})"),
                None,
            ),
            Self::Shutdown => (
                "the daemon stopped before the prompt completed".to_owned(),
                Some("daemon_shutdown"),
            ),
        };
        TurnFault {
            message,
            code: code.map(str::to_owned),
            error_kind: None,
        }
    }
}

impl Entry {
    /// The notification that every agent knows.
    fn notify_cancel(&self) {
        let sent = self
            .channel
            .peer
            .notify_now("session/cancel", &json!({"sessionId": self.id}));
        if let Err(error) = sent {
            tracing::debug!(%error, "a cancel was not sent");
        }
    }
}

/// Asks the child to cancel, in its own way where it has one.
pub(crate) fn ask_to_cancel(entry: &Arc<Entry>) {
    let asked = Arc::clone(entry);
    let sent = entry.channel.peer.request_then(
        "craft/cancelPendingPrompt",
        &json!({"sessionId": entry.id}),
        move |outcome| {
            if let Err(RequestError::Remote(error)) = outcome {
                if error.code != METHOD_NOT_FOUND {
                    tracing::debug!(code = error.code, "the agent refused a cancel");
                }
                asked.notify_cancel();
            }
        },
    );
    if let Err(error) = sent {
        tracing::debug!(%error, "a cancel was not sent");
    }
}

/// Ends a turn that takes too long, and then waits a little for the child.
async fn keep_deadline(entry: Arc<Entry>, id: Arc<str>, deadline: Duration) {
    tokio::time::sleep(deadline).await;
    {
        let mut held = entry.hold();
        if held.about_running().prompt_id.as_ref() != Some(&id) {
            return;
        }
        let Some(about) = held.settle_running("error", None) else {
            return;
        };
        let fault = TurnFault {
            message: format!("prompt exceeded the {}ms deadline", deadline.as_millis()),
            code: Some("prompt_deadline_exceeded".to_owned()),
            error_kind: None,
        };
        held.tell_turn_error(fault, &about);
        let data = json!({"sessionId": entry.id});
        held.publish("prompt_cancelled", &data, &about);
        held.tell_completed(&about);
        held.drop_permissions("agent_cancelled");
        ask_to_cancel(&entry);
    }
    tokio::time::sleep(CHILD_ANSWER_WAIT_MAX).await;
    let mut held = entry.hold();
    if (held.prompts.running.as_ref()).is_some_and(|running| running.prompt.id == id) {
        held.prompts.running = None;
        held.run_next();
    }
}

/// Bytes of a first prompt that name a session without a title.
const TITLE_BYTES_MAX: usize = 256;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ErrorData {
    details: Option<String>,
    error_kind: Option<String>,
}

/// The text blocks of a prompt.
fn text_of(content: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Block {
        text: Option<String>,
    }
    let blocks: Vec<Block> = serde_json::from_str(content.get()).unwrap_or_default();
    let texts: Vec<String> = blocks.into_iter().filter_map(|block| block.text).collect();
    texts.join("\n")
}

/// Keys of a prompt's `_meta` that are for the daemon alone to set.
const RESERVED: [&str; 5] = [
    "qwen-code/",
    "qwen.daemon.",
    "qwen.channel.",
    "qwen.goalProposalApproval",
    "onrecord/",
];

fn meta_of(asked: &Asked, session_id: &str) -> Map<String, Value> {
    let meta = asked.meta.as_ref();
    let mut meta: Map<String, Value> = meta
        .and_then(|meta| serde_json::from_str(meta.get()).ok())
        .unwrap_or_default();
    meta.retain(|key, _| !RESERVED.iter().any(|reserved| key.starts_with(reserved)));
    let mut invocation = json!({"version": 1, "sessionId": session_id, "promptId": &*asked.id});
    if let Some(originator) = &asked.originator {
        invocation["originatorClientId"] = json!(&**originator);
    }
    meta.insert("qwen-code/invocation".to_owned(), invocation);
    meta
}
