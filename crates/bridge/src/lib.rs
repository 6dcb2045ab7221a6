//! The daemon's side of an agent: its process, its sessions, who may vote, and what is told to whom.
//!
//! It knows ACP and no HTTP. One bridge serves one workspace through one child process.

mod channel;
mod closing;
mod controls;
mod early;
mod entry;
mod error;
mod history;
mod launch;
mod opening;
mod permissions;
mod process;
mod prompts;
mod record;
mod router;
mod rows;
mod sessions;
mod stderr;
mod times;
mod update;
mod work;
mod workspace;

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use bus::{From as Since, SubscribeError, Subscription};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use wire::{
    http::{
        Accepted, CatalogVersion, Closed, Health, Heartbeat, LiveState, Loaded, ModeSet,
        NewSession, Opened, PendingPrompts, Prompt, Restore, SessionRow, TitleSet, Turn, Vote,
    },
    state::SessionState,
};

use crate::{closing::How, entry::Entry, sessions::Action, workspace::Workspace};

pub use entry::Source;
pub use error::Error;
pub use jsonrpc::RpcError;
pub use launch::{Child, Command, Ended, Handle, Launch};
pub use workspace::Tally;

/// How a bridge is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of all its sessions, absolute.
    pub workspace: PathBuf,
    /// Who may decide.
    pub permission_policy: PermissionPolicy,
    /// How long a permission request stays open; for ever where absent.
    pub permission_wait: Option<Duration>,
    /// Prompts of one session, running and waiting.
    pub prompts_max: usize,
    /// Live sessions; no limit where absent.
    pub sessions_max: Option<usize>,
    /// How long a prompt may take; for ever where absent.
    pub prompt_deadline: Option<Duration>,
    /// How long a child may take to start and answer `initialize`.
    pub initialize_wait: Duration,
    /// How long a restore may take.
    pub restore_wait: Duration,
    /// How long a session may be idle, without streams, before it is closed; for ever where absent.
    pub idle_max: Option<Duration>,
    /// Bounds of each session's bus.
    pub bus: bus::Limits,
    /// The time, ms since 1970.
    pub now_ms: fn() -> u64,
}

/// Who may decide about a permission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PermissionPolicy {
    /// Whoever answers first.
    #[default]
    FirstResponder,
    /// The client whose prompt it belongs to; whoever answers first where that is anonymous.
    Designated,
    /// Clients on this machine alone.
    LocalOnly,
}

/// Who asks.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// `X-Qwen-Client-Id`, well-formed; absent where it is anonymous.
    pub client_id: Option<String>,
    /// Whether it connects from this machine.
    pub is_local: bool,
}

/// The turn that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnQuery<'a> {
    /// The running one, else the last.
    Current,
    /// The turn of this prompt.
    Prompt(&'a str),
}

/// A stream that is asked for.
#[derive(Debug, Clone)]
pub struct Subscribe {
    /// `Last-Event-ID`; live only where absent.
    pub after: Option<u64>,
    /// `X-Qwen-Event-Epoch`.
    pub epoch: Option<String>,
    /// `maxQueued`.
    pub queue_frames: usize,
    /// `snapshot=1` (R18).
    pub with_snapshot: bool,
}

/// The bridge of one workspace. Cheap to clone. Once the last clone is dropped its child is killed.
#[derive(Debug, Clone)]
pub struct Bridge {
    owner: Arc<Owner>,
}

/// Ends what runs for a bridge when nobody has it any more.
#[derive(Debug)]
struct Owner {
    workspace: Arc<Workspace>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.workspace.end.cancel();
    }
}

impl Bridge {
    /// A bridge whose child is started by the first request that needs it. To be called within a tokio
    /// runtime.
    #[must_use]
    pub fn new(options: Options, launch: Arc<dyn Launch>) -> Self {
        let idle_max = options.idle_max;
        let workspace = Workspace::new(options, launch);
        if let Some(idle_max) = idle_max {
            tokio::spawn(Arc::clone(&workspace).reap(idle_max));
        }
        Self {
            owner: Arc::new(Owner { workspace }),
        }
    }

    fn workspace(&self) -> &Arc<Workspace> {
        &self.owner.workspace
    }

    fn entry(&self, id: &str) -> Result<Arc<Entry>, Error> {
        self.workspace().entry(id)
    }

    /// Does what must not end half-way where its caller goes.
    async fn detached<T: Send + 'static>(
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        tokio::spawn(work).await.unwrap_or(Err(Error::AgentGone))
    }

    /// Starts the child ahead of the first request; a failure is logged.
    pub async fn preheat(&self) {
        let workspace = Arc::clone(self.workspace());
        let started = Self::detached(async move { workspace.channel().await.map(drop) }).await;
        if let Err(error) = started {
            tracing::warn!(%error, "the agent was not started ahead");
        }
    }

    /// Creates a session or attaches to the shared one.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create(&self, caller: &Caller, new: NewSession) -> Result<Opened, Error> {
        opening::create(self.workspace(), caller, new).await
    }

    /// Brings a stored session back, or attaches to it, with its history.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn load(&self, caller: &Caller, id: &str, restore: Restore) -> Result<Loaded, Error> {
        opening::restore(self.workspace(), caller, id, Action::Load, restore).await
    }

    /// The same without its history.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn resume(&self, caller: &Caller, id: &str) -> Result<Loaded, Error> {
        let restore = Restore::default();
        opening::restore(self.workspace(), caller, id, Action::Resume, restore).await
    }

    /// Queues a prompt; its outcome comes as events. To be called within a tokio runtime.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn prompt(&self, caller: &Caller, id: &str, prompt: Prompt) -> Result<Accepted, Error> {
        self.workspace().refuse_where_draining()?;
        let entry = self.entry(id)?;
        let deadline = self.workspace().options.prompt_deadline;
        let accepted = entry.hold_for(caller)?.admit(caller, prompt, deadline);
        if matches!(accepted, Err(Error::PromptQueueFull { .. })) {
            self.workspace()
                .n_queue_full
                .fetch_add(1, Ordering::Relaxed);
        }
        accepted
    }

    /// Cancels the running prompt, if any. It does not wait for the agent.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn cancel(&self, caller: &Caller, id: &str) -> Result<(), Error> {
        self.entry(id)?.hold_for(caller)?.cancel(caller);
        Ok(())
    }

    /// Votes about a permission request; of this session, or of whichever has it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn vote(
        &self,
        caller: &Caller,
        id: Option<&str>,
        request_id: &str,
        vote: Vote,
    ) -> Result<(), Error> {
        let policy = self.workspace().options.permission_policy;
        if let Some(id) = id {
            let entry = self.entry(id)?;
            return entry
                .hold_for(caller)?
                .vote(caller, request_id, vote, policy);
        }
        let entries = self.workspace().entries();
        let knows = |entry: &&Arc<Entry>| entry.hold().permissions.knows(request_id);
        let unknown = Error::RequestNotFound { session_id: None };
        let Some(entry) = entries.iter().find(knows) else {
            return Err(unknown);
        };
        let voted = entry
            .hold_for(caller)?
            .vote(caller, request_id, vote, policy);
        // Who does not name a session is not told of one.
        voted.map_err(|error| {
            if matches!(error, Error::RequestNotFound { .. }) {
                return unknown;
            }
            error
        })
    }

    /// Switches the model; the agent's answer as it is.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn set_model(
        &self,
        caller: &Caller,
        id: &str,
        model: &str,
    ) -> Result<Box<RawValue>, Error> {
        let entry = self.entry(id)?;
        Self::detached(controls::set_model(entry, caller.clone(), model.to_owned())).await
    }

    /// Sets the approval mode.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn set_approval_mode(
        &self,
        caller: &Caller,
        id: &str,
        mode: &str,
    ) -> Result<ModeSet, Error> {
        let entry = self.entry(id)?;
        Self::detached(controls::set_mode(entry, caller.clone(), mode.to_owned())).await
    }

    /// Gives a session a title, checked by the caller; reads it where absent.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn set_title(
        &self,
        caller: &Caller,
        id: &str,
        title: Option<&str>,
    ) -> Result<TitleSet, Error> {
        let entry = self.entry(id)?;
        let title = title.map(str::to_owned);
        Self::detached(controls::set_title(entry, caller.clone(), title)).await
    }

    /// Says that a client is there.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn heartbeat(&self, caller: &Caller, id: &str) -> Result<Heartbeat, Error> {
        let entry = self.entry(id)?;
        entry.hold_for(caller)?.see(caller);
        Ok(Heartbeat {
            session_id: entry.id.clone(),
            client_id: caller.client_id.clone(),
            last_seen_at: (entry.now_ms)(),
        })
    }

    /// Says that a client leaves; the last one closes an idle session.
    pub async fn detach(&self, caller: &Caller, id: &str) {
        let Ok(entry) = self.entry(id) else { return };
        let is_over = {
            let mut held = entry.hold();
            held.unregister(caller) && held.prompts.is_idle() && entry.bus.n_subscribers() == 0
        };
        if is_over {
            let closing = closing::close(Arc::clone(self.workspace()), entry, How::last_detached());
            if let Err(error) = Self::detached(closing).await {
                tracing::debug!(%error, "a session without clients was not closed");
            }
        }
    }

    /// Closes a session as well as it goes (R21).
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn close(&self, caller: &Caller, id: &str) -> Result<Closed, Error> {
        let entry = self.entry(id)?;
        drop(entry.hold_for(caller)?);
        let how = How::client(caller);
        Self::detached(closing::close(Arc::clone(self.workspace()), entry, how)).await
    }

    /// Closes a session only if its record is on disk (R21); it stays open otherwise. Whether it was live.
    ///
    /// # Errors
    /// [`Error::FlushFailed`], and see [`Error`].
    pub async fn close_strict(&self, id: &str) -> Result<bool, Error> {
        let Ok(entry) = self.entry(id) else {
            return Ok(false);
        };
        let closing = closing::close(Arc::clone(self.workspace()), entry, How::strict());
        Self::detached(closing).await.map(|_closed| true)
    }

    /// A live session.
    ///
    /// # Errors
    /// It is not live.
    pub fn status(&self, id: &str) -> Result<SessionRow, Error> {
        let entry = self.entry(id)?;
        Ok(rows::session_row(self.workspace(), &entry.hold()))
    }

    /// The live sessions, the last active first.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionRow> {
        rows::session_rows(self.workspace())
    }

    /// The same in short.
    #[must_use]
    pub fn live_state(&self) -> LiveState {
        let rows = rows::session_rows(self.workspace());
        LiveState {
            v: 1,
            catalog_version: self.catalog(self.workspace().revision.load(Ordering::Acquire)),
            sessions: rows.into_iter().map(rows::live_row).collect(),
        }
    }

    fn catalog(&self, revision: u64) -> CatalogVersion {
        CatalogVersion {
            generation: self.workspace().generation.clone(),
            revision,
        }
    }

    /// Says that stored sessions changed.
    pub fn catalog_changed(&self) -> CatalogVersion {
        self.catalog(self.workspace().bump())
    }

    /// Running and waiting prompts.
    ///
    /// # Errors
    /// It is not live.
    pub fn pending_prompts(&self, id: &str) -> Result<PendingPrompts, Error> {
        let pending_prompts = self.entry(id)?.hold().prompts.pending();
        Ok(PendingPrompts { pending_prompts })
    }

    /// Takes a prompt back; a running one is cancelled. Whether it was there.
    ///
    /// # Errors
    /// It is not live.
    pub async fn remove_prompt(
        &self,
        caller: &Caller,
        id: &str,
        prompt_id: &str,
    ) -> Result<bool, Error> {
        Ok(self
            .entry(id)?
            .hold_for(caller)?
            .take_back(caller, prompt_id))
    }

    /// A turn.
    ///
    /// # Errors
    /// There is none.
    pub fn turn(&self, id: &str, query: TurnQuery<'_>) -> Result<Turn, Error> {
        let turn = self.entry(id)?.hold().prompts.turn(id, query);
        turn.ok_or(Error::PromptNotFound)
    }

    /// Asks the child itself: a read of the session's or the workspace's status, within `wait`. The child is
    /// started where it is not running.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn ask(
        &self,
        method: &str,
        params: &Value,
        wait: Duration,
    ) -> Result<Box<RawValue>, Error> {
        self.workspace()
            .channel()
            .await?
            .ask(method, params, wait)
            .await
    }

    /// The events of a session, and the epoch of their ids.
    ///
    /// # Errors
    /// It is not live, or has too many streams.
    pub fn subscribe(
        &self,
        id: &str,
        subscribe: Subscribe,
    ) -> Result<(String, Subscription), Error> {
        let entry = self.entry(id)?;
        let snapshot = subscribe.with_snapshot.then(|| snapshot_of(&entry));
        let subscription = entry.bus.subscribe(bus::Subscribe {
            from: subscribe.after.map_or(Since::Live, Since::After),
            epoch: subscribe.epoch,
            queue_frames: subscribe.queue_frames,
            snapshot,
            now_ms: entry.now_ms,
        });
        let subscription = subscription
            .map_err(|SubscribeError::TooMany { limit }| Error::TooManyStreams { limit })?;
        Ok((entry.bus.epoch().to_owned(), subscription))
    }

    /// Keeps where a session was asked for; the first word stays.
    pub fn note_source(&self, session_id: &str, source: Source) {
        if let Some(entry) = self.workspace().sessions().live(session_id) {
            entry.hold().source.get_or_insert(source);
        }
    }

    /// What was counted of records since the start.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.workspace().tally()
    }

    /// Counts and ages.
    #[must_use]
    pub fn health(&self) -> Health {
        rows::health(self.workspace())
    }

    /// Tells all sessions, ends the child with their records flushed, and waits for it. Whether it all
    /// ended well.
    pub async fn shutdown(&self) -> bool {
        let ending = Arc::clone(self.workspace()).shutdown();
        tokio::spawn(ending).await.unwrap_or(false)
    }
}

/// What is current in a session, at the moment when it is written (R18).
fn snapshot_of(entry: &Entry) -> Box<dyn Fn() -> String + Send> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Snapshot<'a> {
        session_id: &'a str,
        #[serde(flatten)]
        state: &'a SessionState,
    }
    let (id, view) = (entry.id.clone(), Arc::clone(&entry.view));
    Box::new(move || {
        let state = view.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let snapshot = Snapshot {
            session_id: &id,
            state: &state,
        };
        serde_json::to_string(&snapshot).expect("texts and words are JSON")
    })
}
