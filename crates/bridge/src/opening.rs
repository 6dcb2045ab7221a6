//! How a session comes to be open: created, brought back, or attached to.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use jsonrpc::{RequestError, RpcError};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::{sync::oneshot, time::timeout};
use wire::{
    http::{Loaded, NewSession, Opened as Body, Restore, Scope},
    limits::ACP_REPLAY_UPDATES_MAX,
    recording::RecordingReport,
};

use crate::{
    Caller, Error,
    channel::Channel,
    closing::close_unwanted,
    controls,
    entry::{Entry, Held},
    history::Noted,
    sessions::{Action, Key, Opened, Opening, Sessions, Slot},
    times::iso,
    update::{self, Update},
    workspace::Workspace,
};

/// Creates a session or attaches to the shared one.
pub(crate) async fn create(
    workspace: &Arc<Workspace>,
    caller: &Caller,
    new: NewSession,
) -> Result<Body, Error> {
    workspace.refuse_where_draining()?;
    let is_shared = new.scope == Scope::Single && new.session_id.is_none();
    if is_shared && let Some(attached) = attach_to_shared(workspace, caller) {
        return Ok(attached);
    }
    let (opening, is_first) = {
        let mut sessions = workspace.sessions();
        let key = match &new.session_id {
            Some(id) => {
                refuse_taken(&sessions, id)?;
                Key::Id(id.clone())
            }
            None if is_shared => Key::Shared,
            None => Key::New(sessions.n_opened),
        };
        let slot = sessions.opening.get(&key);
        // One that was given up is not waited for.
        let opening = slot.and_then(|slot| slot.opening.clone());
        match opening.filter(|opening| opening.peek().is_none()) {
            Some(opening) => (opening, false),
            None => {
                let reservation = reserve(workspace, &mut sessions, key, Action::New)?;
                let work = open_new(Arc::clone(workspace), caller.clone(), new, reservation);
                (start(&mut sessions, work), true)
            }
        }
    };
    let opened = opening.await?;
    if !is_first {
        return attach(workspace, &opened.entry, caller);
    }
    let mut body = body(workspace, &opened.entry.hold(), opened.client_id, false);
    // Of a session that was just created only what is news is said.
    body.has_active_prompt = None;
    body.recording_degraded = body.recording_degraded.filter(|is_degraded| *is_degraded);
    Ok(body)
}

/// Attaches to the shared session, if there is one that goes on.
fn attach_to_shared(workspace: &Arc<Workspace>, caller: &Caller) -> Option<Body> {
    let entry = workspace.sessions().shared()?;
    let attached = attach(workspace, &entry, caller);
    if attached.is_err() {
        workspace.sessions().unshare(&entry);
    }
    attached.ok()
}

/// Brings a stored session back, or attaches to it.
pub(crate) async fn restore(
    workspace: &Arc<Workspace>,
    caller: &Caller,
    id: &str,
    action: Action,
    restore: Restore,
) -> Result<Loaded, Error> {
    workspace.refuse_where_draining()?;
    let (opening, is_first) = {
        let mut sessions = workspace.sessions();
        if let Some(entry) = sessions.live(id) {
            drop(sessions);
            let opened = attach(workspace, &entry, caller)?;
            return Ok(loaded(&entry.hold(), opened, action));
        }
        let key = Key::Id(id.to_owned());
        match sessions.opening.get(&key) {
            Some(slot) => (same_restore(slot, action)?, false),
            None => {
                let reservation = reserve(workspace, &mut sessions, key, action)?;
                let work = open_stored(
                    Arc::clone(workspace),
                    caller.clone(),
                    id.to_owned(),
                    restore,
                    reservation,
                );
                (start(&mut sessions, work), true)
            }
        }
    };
    let opened = opening.await?;
    let entry = opened.entry;
    if !is_first {
        let opened = attach(workspace, &entry, caller)?;
        return Ok(loaded(&entry.hold(), opened, action));
    }
    let held = entry.hold();
    let body = body(workspace, &held, opened.client_id, false);
    Ok(loaded(&held, body, action))
}

/// The restore under way, where it is the same and may still succeed.
fn same_restore(slot: &Slot, action: Action) -> Result<Opening, Error> {
    if slot.action == Action::New {
        return Err(Error::SessionIdConflict {
            conflict: "pending",
        });
    }
    let in_progress = Error::RestoreInProgress {
        active: slot.action.as_str(),
        requested: action.as_str(),
    };
    // One that was given up, and that the child has not answered, is not waited for.
    let waiting = slot.opening.clone().filter(|open| open.peek().is_none());
    waiting.filter(|_| slot.action == action).ok_or(in_progress)
}

fn refuse_taken(sessions: &Sessions, id: &str) -> Result<(), Error> {
    let conflict = if sessions.live(id).is_some() {
        "live"
    } else if sessions.opening.contains_key(&Key::Id(id.to_owned())) {
        "pending"
    } else {
        return Ok(());
    };
    Err(Error::SessionIdConflict { conflict })
}

/// Keeps the place of an opening until the child has answered.
struct Reservation {
    workspace: Arc<Workspace>,
    key: Key,
    action: Action,
    number: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut sessions = self.workspace.sessions();
        // Another may have the place of one that was given up.
        if (sessions.opening.get(&self.key)).is_some_and(|slot| slot.number == self.number) {
            sessions.opening.remove(&self.key);
        }
    }
}

fn reserve(
    workspace: &Arc<Workspace>,
    sessions: &mut Sessions,
    key: Key,
    action: Action,
) -> Result<Reservation, Error> {
    if let Some(limit) = workspace.options.sessions_max
        && sessions.n_counted() >= limit
    {
        return Err(Error::SessionLimit { limit });
    }
    sessions.n_opened += 1;
    let number = sessions.n_opened;
    let slot = Slot {
        action,
        opening: None,
        number,
    };
    sessions.opening.insert(key.clone(), slot);
    Ok(Reservation {
        workspace: Arc::clone(workspace),
        key,
        action,
        number,
    })
}

/// Starts an opening that nobody's leaving ends.
fn start(
    sessions: &mut Sessions,
    (key, work): (
        Key,
        impl Future<Output = Result<Opened, Error>> + Send + 'static,
    ),
) -> Opening {
    let work = tokio::spawn(work);
    let opening = async move { work.await.unwrap_or(Err(Error::AgentGone)) }
        .boxed()
        .shared();
    if let Some(slot) = sessions.opening.get_mut(&key) {
        slot.opening = Some(opening.clone());
    }
    opening
}

/// Who of two, the one that waits and the answer, was first.
#[derive(Debug, Default)]
struct Claim(AtomicU8);

impl Claim {
    const ANSWERED: u8 = 1;
    const GIVEN_UP: u8 = 2;

    fn is_first(&self, who: u8) -> bool {
        let claimed = self
            .0
            .compare_exchange(0, who, Ordering::AcqRel, Ordering::Acquire);
        claimed.is_ok()
    }
}

type Work = (
    Key,
    futures_util::future::BoxFuture<'static, Result<Opened, Error>>,
);

fn open_new(
    workspace: Arc<Workspace>,
    caller: Caller,
    new: NewSession,
    reservation: Reservation,
) -> Work {
    let key = reservation.key.clone();
    let work = async move {
        let wait = workspace.options.initialize_wait;
        let late = Error::InitTimeout {
            timeout_ms: millis(wait),
            phase: "session_new",
        };
        let channel = workspace.channel().await?;
        let deadline_ms = (workspace.options.now_ms)().saturating_add(millis(wait));
        let mut meta = json!({"qwen.daemon.sessionInitializationDeadlineMs": deadline_ms});
        if let Some(id) = &new.session_id {
            meta["qwen-code/sessionId"] = json!(id);
            channel.early().expect(id);
        }
        let params = json!({
            "cwd": workspace.options.workspace.to_string_lossy(),
            "mcpServers": [],
            "_meta": meta,
        });
        let wished = new.session_id.clone();
        let at = At {
            workspace: Arc::clone(&workspace),
            channel: Arc::clone(&channel),
            caller: caller.clone(),
            reservation,
        };
        let opened = at
            .ask(
                "session/new",
                &params,
                wait,
                late.clone(),
                move |at, answer| at.created(wished.as_deref(), answer),
            )
            .await
            .map_err(|error| said_late(error, late));
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // A child that cannot even begin, and serves nobody else, is not kept.
                let is_late = matches!(error, Error::InitTimeout { .. });
                if is_late && workspace.entries_of(&channel).is_empty() {
                    channel.kill();
                }
                return Err(error);
            }
        };
        begin_with(&opened, &new).await;
        workspace.bump();
        Ok(opened)
    };
    (key, work.boxed())
}

/// An agent may say itself that it took too long.
fn said_late(error: Error, late: Error) -> Error {
    let Error::Agent(rpc) = &error else {
        return error;
    };
    let data = rpc.data.as_ref();
    let data: Option<Value> = data.and_then(|data| serde_json::from_str(data.get()).ok());
    let kind = data.as_ref().and_then(|data| data.get("errorKind"));
    if kind.is_some_and(|kind| kind == "session_initialization_timeout") {
        return late;
    }
    error
}

/// Sets the mode and the model that a new session was asked to begin with. That it cannot be done is
/// told by the session itself.
async fn begin_with(opened: &Opened, new: &NewSession) {
    let caller = Caller {
        client_id: Some(opened.client_id.clone()),
        is_local: true,
    };
    let current = opened.entry.view();
    if let Some(mode) = &new.approval_mode
        && current.current_approval_mode.as_deref() != Some(mode)
    {
        let set = controls::set_mode(Arc::clone(&opened.entry), caller.clone(), mode.clone()).await;
        if let Err(error) = set {
            tracing::warn!(%error, "a session does not begin in its mode");
        }
    }
    if let Some(model) = &new.model
        && current.current_model_id.as_deref() != Some(model)
    {
        let set = controls::set_model(Arc::clone(&opened.entry), caller, model.clone()).await;
        if let Err(error) = set {
            tracing::warn!(%error, "a session does not begin with its model");
        }
    }
}

fn open_stored(
    workspace: Arc<Workspace>,
    caller: Caller,
    id: String,
    restore: Restore,
    reservation: Reservation,
) -> Work {
    let (key, action) = (reservation.key.clone(), reservation.action);
    let work = async move {
        let wait = workspace.options.restore_wait;
        let late = Error::RestoreTimeout {
            timeout_ms: millis(wait),
        };
        let channel = workspace.channel().await?;
        channel.early().expect_restore(&id);
        let mut meta = Map::new();
        if action == Action::Load {
            meta.insert("qwen.session.loadReplayMode".to_owned(), json!("bulk"));
            if let Some(size) = restore.history_page_size {
                meta.insert("qwen.session.loadReplayPageSize".to_owned(), json!(size));
            }
        }
        let params = json!({
            "sessionId": id,
            "cwd": workspace.options.workspace.to_string_lossy(),
            "mcpServers": [],
            "_meta": meta,
        });
        let at = At {
            workspace: Arc::clone(&workspace),
            channel: Arc::clone(&channel),
            caller,
            reservation,
        };
        let method = match action {
            Action::Load | Action::New => "session/load",
            Action::Resume => "session/resume",
        };
        let session_id = id.clone();
        let opened = at
            .ask(method, &params, wait, late, move |at, answer| {
                at.restored(&session_id, answer)
            })
            .await;
        let opened = opened?;
        workspace.bump();
        Ok(opened)
    };
    (key, work.boxed())
}

/// An opening at its child.
struct At {
    workspace: Arc<Workspace>,
    channel: Arc<Channel>,
    caller: Caller,
    reservation: Reservation,
}

impl At {
    /// Asks the child and awaits what its answer comes to. The answer is taken in its place among the
    /// child's messages, so that what follows it finds the session open.
    async fn ask(
        self,
        method: &str,
        params: &Value,
        wait: Duration,
        late: Error,
        take: impl FnOnce(&Self, Answered) -> Result<Opened, Error> + Send + 'static,
    ) -> Result<Opened, Error> {
        let claim = Arc::new(Claim::default());
        let (tell, mut told) = oneshot::channel();
        let (channel, key) = (Arc::clone(&self.channel), self.reservation.key.clone());
        let claimed = Arc::clone(&claim);
        channel.peer.request_then(method, params, move |outcome| {
            let is_wanted = claimed.is_first(Claim::ANSWERED);
            let opened = take(&self, Answered { outcome, is_wanted });
            drop(self);
            // Dropped: whoever asked does not wait any more.
            _ = tell.send(opened);
        })?;
        if let Ok(opened) = timeout(wait, &mut told).await {
            return opened.unwrap_or(Err(Error::AgentGone));
        }
        {
            // Given up and fenced in one step: the answer, which lifts the fence, comes before or after.
            let mut early = channel.early();
            if claim.is_first(Claim::GIVEN_UP) {
                if let Key::Id(id) = &key {
                    early.fence(id);
                }
                return Err(late);
            }
        }
        told.await.unwrap_or(Err(Error::AgentGone))
    }
}

/// What a child answered.
struct Answered {
    outcome: Result<Box<RawValue>, RequestError>,
    /// Whoever asked still waits.
    is_wanted: bool,
}

/// What it says of the session.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OpenAnswer {
    session_id: Option<String>,
    models: Option<Box<RawValue>>,
    modes: Option<Box<RawValue>>,
    config_options: Option<Box<RawValue>>,
    #[serde(rename = "_meta")]
    meta: Option<OpenMeta>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenMeta {
    #[serde(rename = "onrecord/recording")]
    recording: Option<Value>,
    #[serde(rename = "qwen.session.loadReplay")]
    replay: Option<Box<RawValue>>,
}

/// A stored session's updates within the answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bulk {
    v: u32,
    updates: VecDeque<Box<RawValue>>,
    partial: Option<bool>,
    replay_error: Option<String>,
    has_more: Option<bool>,
    anchor_record_id: Option<String>,
}

/// What is known of a stored history beside it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    has_more: Option<bool>,
    anchor_record_id: Option<String>,
    partial: Option<bool>,
    error: Option<String>,
}

impl OpenAnswer {
    fn read(answer: &RawValue) -> Result<Self, Error> {
        if answer.get() == "null" {
            return Ok(Self::default());
        }
        serde_json::from_str(answer.get()).map_err(|_error| malformed("the answer is malformed"))
    }

    /// Modes, models and options, as the agent said them.
    fn choices(&self) -> Option<Box<RawValue>> {
        let members = [
            ("modes", &self.modes),
            ("models", &self.models),
            ("configOptions", &self.config_options),
        ];
        let choices: Map<String, Value> = members
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), json!(value.as_ref()?))))
            .collect();
        serde_json::value::to_raw_value(&choices).ok()
    }

    fn current(of: Option<&RawValue>, key: &str) -> Option<String> {
        let of: Value = serde_json::from_str(of?.get()).ok()?;
        let current = of.get(key)?.as_str()?;
        (!current.is_empty()).then(|| current.to_owned())
    }
}

/// Approval modes that are known.
const MODES: [&str; 5] = ["plan", "default", "auto-edit", "auto", "yolo"];

fn malformed(words: &str) -> Error {
    Error::Agent(RpcError::internal(words))
}

impl At {
    /// A new session was made.
    fn created(&self, wished: Option<&str>, answered: Answered) -> Result<Opened, Error> {
        if let Some(wished) = wished {
            self.channel.early().settle(wished);
        }
        let answer = OpenAnswer::read(&answered.outcome?)?;
        let id = answer.session_id.clone().filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| malformed("the agent named no session"))?;
        if !answered.is_wanted {
            close_unwanted(&self.channel, &id);
            return Err(Error::AgentTimeout);
        }
        if wished.is_some_and(|wished| wished != id) {
            close_unwanted(&self.channel, &id);
            return Err(Error::SessionIdNotHonored);
        }
        if self.workspace.sessions().live(&id).is_some() {
            return Err(Error::SessionIdConflict { conflict: "live" });
        }
        Ok(self.register(id, &answer, |_held| {}))
    }

    /// A stored session was brought back.
    fn restored(&self, id: &str, answered: Answered) -> Result<Opened, Error> {
        let streamed = self.channel.early().settle(id);
        let answer = match answered.outcome {
            Ok(answer) => OpenAnswer::read(&answer)?,
            Err(RequestError::Remote(error)) if is_not_found(&error, id) => {
                return Err(Error::SessionNotFound(id.to_owned()));
            }
            Err(error) => return Err(error.into()),
        };
        if !answered.is_wanted {
            close_unwanted(&self.channel, id);
            return Err(Error::AgentTimeout);
        }
        let bulk = answer.meta.as_ref().and_then(|meta| meta.replay.as_ref());
        let bulk = bulk.map(|bulk| serde_json::from_str::<Bulk>(bulk.get()));
        let (mut updates, stored) = match bulk {
            Some(Ok(bulk)) if bulk.v == 1 => {
                let stored = Stored {
                    has_more: bulk.has_more,
                    anchor_record_id: bulk.anchor_record_id,
                    partial: bulk.partial,
                    error: bulk.replay_error,
                };
                (bulk.updates, stored)
            }
            Some(_) => {
                close_unwanted(&self.channel, id);
                return Err(malformed("the stored session cannot be shown"));
            }
            None => {
                let stored = Stored {
                    partial: streamed.is_partial.then_some(true),
                    ..Stored::default()
                };
                (streamed.updates, stored)
            }
        };
        let n_beyond = updates.len().saturating_sub(ACP_REPLAY_UPDATES_MAX);
        updates.drain(..n_beyond);
        let action = self.reservation.action;
        let is_partial = n_beyond > 0;
        Ok(self.register(id.to_owned(), &answer, |held| {
            held.is_new = false;
            held.choices = answer.choices();
            held.stored = stored;
            if is_partial {
                held.stored.partial = Some(true);
            }
            match action {
                Action::Load => held.seed(&updates),
                // What was said before was not asked for; what the agent says of it all the same is news.
                Action::Resume | Action::New => held.replay(&updates),
            }
        }))
    }

    /// Opens the session here. What was kept of it is told before anybody is answered (R17).
    fn register(
        &self,
        id: String,
        answer: &OpenAnswer,
        fill: impl FnOnce(&mut Held<'_>),
    ) -> Opened {
        let options = &self.workspace.options;
        let entry = Entry::new(
            id,
            Arc::clone(&self.channel),
            options.bus,
            options.now_ms,
            options.prompts_max,
        );
        {
            let mut view = entry.lock_view();
            view.current_model_id = OpenAnswer::current(answer.models.as_deref(), "currentModelId");
            let mode = OpenAnswer::current(answer.modes.as_deref(), "currentModeId");
            view.current_approval_mode = mode.filter(|mode| MODES.contains(&mode.as_str()));
        }
        let early = self.channel.early().drain(&entry.id);
        let report = answer
            .meta
            .as_ref()
            .and_then(|meta| meta.recording.as_ref());
        let report = report.and_then(|report| RecordingReport::deserialize(report).ok());
        let mut held = entry.hold();
        fill(&mut held);
        for event in early {
            held.take_record_event(event);
        }
        if let Some(report) = report {
            held.take_report(&report);
        }
        let client_id = held.register(&self.caller);
        drop(held);
        let is_shared = self.reservation.key == Key::Shared;
        self.workspace.sessions().add(Arc::clone(&entry), is_shared);
        Opened { entry, client_id }
    }
}

impl Held<'_> {
    /// Takes in stored updates: they have ids and are told within the answer, and are in no ring.
    fn seed(&mut self, updates: &VecDeque<Box<RawValue>>) {
        let now_ms = (self.entry.now_ms)();
        let mut id = 0;
        for raw in updates {
            let Some(update) = update::read::<Update<'_>>(raw) else {
                tracing::debug!("a stored update is malformed");
                continue;
            };
            // The first of a whole history names the session.
            if update.kind == "user_message_chunk"
                && self.stored.has_more != Some(true)
                && let Some(text) = update.chunk_text()
            {
                self.name_after(&text);
            }
            id += 1;
            let data = json!({"sessionId": self.entry.id, "update": raw});
            let data = crate::history::raw(&data);
            let noted = Noted {
                id,
                kind: "session_update",
                data: &data,
                prompt_id: None,
                originator: None,
                at_ms: update.recorded_at_ms().unwrap_or(now_ms),
            };
            self.history.seed(&noted, &update);
        }
        self.history.end_turn();
        self.entry.bus.seed(id);
    }

    fn replay(&mut self, updates: &VecDeque<Box<RawValue>>) {
        for raw in updates {
            self.publish_own_update(&json!(raw), &crate::entry::About::default());
        }
    }
}

fn is_not_found(error: &RpcError, id: &str) -> bool {
    /// ACP's code for a resource that is not there.
    const NOT_FOUND: i64 = -32_002;
    let uri = format!("session:{id}");
    let data = error.data.as_ref();
    let data: Option<Value> = data.and_then(|data| serde_json::from_str(data.get()).ok());
    let names_it = data.is_some_and(|data| data.get("uri") == Some(&json!(uri)));
    error.code == NOT_FOUND && (names_it || error.message == format!("Resource not found: {uri}"))
}

/// Attaches to a live session.
fn attach(workspace: &Arc<Workspace>, entry: &Arc<Entry>, caller: &Caller) -> Result<Body, Error> {
    // Whoever comes may be known here or not.
    let mut held = entry.hold_for(&Caller::default())?;
    let client_id = held.register(caller);
    let at_ms = (entry.now_ms)();
    held.touch(at_ms);
    Ok(body(workspace, &held, client_id, true))
}

fn body(workspace: &Workspace, held: &Held<'_>, client_id: String, attached: bool) -> Body {
    let entry = held.entry;
    let view = entry.view();
    Body {
        session_id: entry.id.clone(),
        workspace_cwd: workspace.options.workspace.to_string_lossy().into_owned(),
        attached,
        client_id,
        created_at: iso(entry.created_at_ms),
        has_running_background_tasks: entry.channel.work().has_background(&entry.id),
        has_active_prompt: Some(held.prompts.is_running()),
        recording_degraded: Some(view.recording_degraded),
        recording_state: view.recording_state,
    }
}

fn loaded(held: &Held<'_>, opened: Body, action: Action) -> Loaded {
    let entry = held.entry;
    let stored = if opened.attached {
        Stored::default()
    } else {
        held.stored.clone()
    };
    let is_saved = !entry.view().recording_degraded;
    let shows = action == Action::Load;
    let history = &held.history;
    Loaded {
        state: held
            .choices
            .clone()
            .unwrap_or_else(|| crate::history::raw(&json!({}))),
        compacted_replay: shows.then(|| history.compacted(&entry.id, is_saved)),
        live_journal: shows.then(|| history.journal(&entry.id, is_saved)),
        history_has_more: stored.has_more.filter(|_| shows),
        history_anchor_record_id: stored.anchor_record_id.filter(|_| shows),
        partial: stored.partial.filter(|_| shows),
        replay_error: stored.error.filter(|_| shows),
        last_event_id: entry.bus.head(),
        event_epoch: entry.bus.epoch().to_owned(),
        opened,
    }
}

fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}
