//! The daemon's side of an agent: its process, its sessions, who may vote, and what is told to whom.
//!
//! It knows ACP and no HTTP. One bridge serves one workspace through one child process.

mod error;
mod launch;

use std::{path::PathBuf, sync::Arc, time::Duration};

use bus::Subscription;
use serde_json::{Value, value::RawValue};
use wire::http::{
    Accepted, CatalogVersion, Closed, Health, Heartbeat, LiveState, Loaded, ModeSet, NewSession,
    Opened, PendingPrompts, Prompt, Restore, SessionRow, TitleSet, Turn, Vote,
};

pub use error::Error;
pub use launch::{Child, Command, Launch};

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

/// The bridge of one workspace. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bridge {
    _shared: Arc<()>,
}

impl Bridge {
    /// A bridge whose child is started by the first request that needs it.
    #[must_use]
    pub fn new(_options: Options, _launch: Arc<dyn Launch>) -> Self {
        unimplemented!()
    }

    /// Starts the child ahead of the first request; a failure is logged.
    pub async fn preheat(&self) {
        unimplemented!()
    }

    /// Creates a session or attaches to the shared one.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create(&self, _caller: &Caller, _new: NewSession) -> Result<Opened, Error> {
        unimplemented!()
    }

    /// Brings a stored session back, or attaches to it, with its history.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn load(
        &self,
        _caller: &Caller,
        _id: &str,
        _restore: Restore,
    ) -> Result<Loaded, Error> {
        unimplemented!()
    }

    /// The same without its history.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn resume(&self, _caller: &Caller, _id: &str) -> Result<Loaded, Error> {
        unimplemented!()
    }

    /// Queues a prompt; its outcome comes as events.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn prompt(&self, _caller: &Caller, _id: &str, _prompt: Prompt) -> Result<Accepted, Error> {
        unimplemented!()
    }

    /// Cancels the running prompt, if any.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn cancel(&self, _caller: &Caller, _id: &str) -> Result<(), Error> {
        unimplemented!()
    }

    /// Votes about a permission request; of this session, or of whichever has it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn vote(
        &self,
        _caller: &Caller,
        _id: Option<&str>,
        _request_id: &str,
        _vote: Vote,
    ) -> Result<(), Error> {
        unimplemented!()
    }

    /// Switches the model; the agent's answer as it is.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn set_model(
        &self,
        _caller: &Caller,
        _id: &str,
        _model: &str,
    ) -> Result<Box<RawValue>, Error> {
        unimplemented!()
    }

    /// Sets the approval mode.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn set_approval_mode(
        &self,
        _caller: &Caller,
        _id: &str,
        _mode: &str,
    ) -> Result<ModeSet, Error> {
        unimplemented!()
    }

    /// Gives a session a title, checked by the caller; reads it where absent.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn set_title(
        &self,
        _caller: &Caller,
        _id: &str,
        _title: Option<&str>,
    ) -> Result<TitleSet, Error> {
        unimplemented!()
    }

    /// Says that a client is there.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn heartbeat(&self, _caller: &Caller, _id: &str) -> Result<Heartbeat, Error> {
        unimplemented!()
    }

    /// Says that a client leaves; the last one closes an idle session.
    pub async fn detach(&self, _caller: &Caller, _id: &str) {
        unimplemented!()
    }

    /// Closes a session as well as it goes (R21).
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn close(&self, _caller: &Caller, _id: &str) -> Result<Closed, Error> {
        unimplemented!()
    }

    /// Closes a session only if its record is on disk (R21); it stays open otherwise. Whether it was live.
    ///
    /// # Errors
    /// [`Error::FlushFailed`], and see [`Error`].
    pub async fn close_strict(&self, _id: &str) -> Result<bool, Error> {
        unimplemented!()
    }

    /// A live session.
    ///
    /// # Errors
    /// It is not live.
    pub fn status(&self, _id: &str) -> Result<SessionRow, Error> {
        unimplemented!()
    }

    /// The live sessions, the last active first.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionRow> {
        unimplemented!()
    }

    /// The same in short.
    #[must_use]
    pub fn live_state(&self) -> LiveState {
        unimplemented!()
    }

    /// Says that stored sessions changed.
    pub fn catalog_changed(&self) -> CatalogVersion {
        unimplemented!()
    }

    /// Running and waiting prompts.
    ///
    /// # Errors
    /// It is not live.
    pub fn pending_prompts(&self, _id: &str) -> Result<PendingPrompts, Error> {
        unimplemented!()
    }

    /// Takes a prompt back; a running one is cancelled. Whether it was there.
    ///
    /// # Errors
    /// It is not live.
    pub async fn remove_prompt(
        &self,
        _caller: &Caller,
        _id: &str,
        _prompt_id: &str,
    ) -> Result<bool, Error> {
        unimplemented!()
    }

    /// A turn.
    ///
    /// # Errors
    /// There is none.
    pub fn turn(&self, _id: &str, _query: TurnQuery<'_>) -> Result<Turn, Error> {
        unimplemented!()
    }

    /// Asks the child itself: a read of the session's or the workspace's status, within `wait`. The child is
    /// started where it is not running.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn ask(
        &self,
        _method: &str,
        _params: &Value,
        _wait: Duration,
    ) -> Result<Box<RawValue>, Error> {
        unimplemented!()
    }

    /// The events of a session.
    ///
    /// # Errors
    /// It is not live, or has too many streams.
    pub fn subscribe(
        &self,
        _id: &str,
        _subscribe: Subscribe,
    ) -> Result<(String, Subscription), Error> {
        unimplemented!()
    }

    /// Counts and ages.
    #[must_use]
    pub fn health(&self) -> Health {
        unimplemented!()
    }

    /// Tells all sessions, ends the child with their records flushed, and waits for it. Whether it all
    /// ended well.
    pub async fn shutdown(&self) -> bool {
        unimplemented!()
    }
}
