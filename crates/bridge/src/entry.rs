//! A live session: its bus, its state, and how something is said in it.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bus::{Batch, Bus};
use serde_json::{Value, value::RawValue};
use tokio::time::Instant;
use uuid::Uuid;
use wire::{
    event::NewEvent, http::TurnFault, limits::CLIENTS_MAX, recording::FaultClass,
    state::SessionState,
};

use crate::{
    Caller, Error,
    channel::Channel,
    history::{History, Noted, raw},
    opening::Stored,
    permissions::Permissions,
    prompts::Prompts,
    update::Params,
};

/// A live session. What is said in it is said while it is held, so that the order of its events is that
/// of its changes.
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) channel: Arc<Channel>,
    pub(crate) bus: Bus,
    pub(crate) created_at_ms: u64,
    pub(crate) now_ms: fn() -> u64,
    /// What is current, for snapshots. Nothing else is locked while it is.
    pub(crate) view: Arc<Mutex<SessionState>>,
    state: Mutex<State>,
}

/// How far a session is from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// Its child was asked to close it.
    Closing,
    /// Its last event is told.
    Gone,
}

/// What changes of a session.
pub(crate) struct State {
    pub(crate) phase: Phase,
    /// Registered clients.
    pub(crate) clients: BTreeMap<String, Client>,
    pub(crate) prompts: Prompts,
    pub(crate) permissions: Permissions,
    pub(crate) history: History,
    /// What the agent said of modes, models and options when it was brought back.
    pub(crate) choices: Option<Box<RawValue>>,
    /// What is known of its stored history.
    pub(crate) stored: Stored,
    pub(crate) title: Option<Title>,
    /// Its first prompt is the first that is sent here, and names it.
    pub(crate) is_new: bool,
    pub(crate) turn_error: Option<TurnFault>,
    /// Where it was asked for, in the words of whoever asked.
    pub(crate) source: Option<Source>,
    /// Why its record failed, where the agent says it.
    pub(crate) fault: Option<FaultClass>,
    pub(crate) updated_at_ms: Option<u64>,
    pub(crate) active_at: Instant,
}

/// Where a session was asked for: a kind, and which one of that kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Such as `default` or `channel`.
    pub kind: String,
    /// Absent where there is only one.
    pub id: Option<String>,
}

/// A registered client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    /// How often it came and did not leave.
    n: usize,
    seen_at: Instant,
}

/// The name of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Title {
    pub(crate) text: String,
    /// `manual` or `auto`; absent where it is the beginning of its first prompt.
    pub(crate) source: Option<String>,
}

/// What an event is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct About {
    pub(crate) prompt_id: Option<Arc<str>>,
    pub(crate) originator: Option<Arc<str>>,
}

impl About {
    /// Caused by a request.
    pub(crate) fn caller(caller: &Caller) -> Self {
        Self {
            prompt_id: None,
            originator: caller.client_id.as_deref().map(Into::into),
        }
    }

    /// The same, about a prompt.
    pub(crate) fn of(self, prompt_id: Option<Arc<str>>) -> Self {
        Self { prompt_id, ..self }
    }
}

impl Entry {
    pub(crate) fn new(
        id: String,
        channel: Arc<Channel>,
        limits: bus::Limits,
        now_ms: fn() -> u64,
        prompts_max: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            channel,
            bus: Bus::new(Uuid::new_v4().to_string(), limits),
            created_at_ms: now_ms(),
            now_ms,
            view: Arc::default(),
            state: Mutex::new(State {
                phase: Phase::Open,
                clients: BTreeMap::new(),
                prompts: Prompts::new(prompts_max),
                permissions: Permissions::default(),
                history: History::default(),
                choices: None,
                stored: Stored::default(),
                title: None,
                is_new: true,
                turn_error: None,
                source: None,
                fault: None,
                updated_at_ms: None,
                active_at: Instant::now(),
            }),
        })
    }

    /// Locks its state, for a few lines.
    pub(crate) fn hold(self: &Arc<Self>) -> Held<'_> {
        Held {
            state: self.state.lock().unwrap_or_else(PoisonError::into_inner),
            batch: self.bus.batch(),
            entry: self,
        }
    }

    /// The same for a request of this caller.
    pub(crate) fn hold_for(self: &Arc<Self>, caller: &Caller) -> Result<Held<'_>, Error> {
        let held = self.hold();
        match held.phase {
            Phase::Open => {}
            Phase::Closing => return Err(Error::SessionClosing),
            Phase::Gone => return Err(Error::SessionNotFound(self.id.clone())),
        }
        let is_known = |id: &String| held.clients.contains_key(id);
        if !caller.client_id.as_ref().is_none_or(is_known) {
            return Err(Error::UnknownClient);
        }
        Ok(held)
    }

    /// What is current.
    pub(crate) fn view(&self) -> SessionState {
        self.lock_view().clone()
    }

    pub(crate) fn lock_view(&self) -> MutexGuard<'_, SessionState> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session whose state is locked. Subscribers are woken once, when it is let go.
pub(crate) struct Held<'a> {
    state: MutexGuard<'a, State>,
    batch: Batch<'a>,
    pub(crate) entry: &'a Arc<Entry>,
}

impl Deref for Held<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Held<'_> {
    /// Publishes an event. Nothing is published behind the last one.
    pub(crate) fn publish(&mut self, kind: &str, data: &Value, about: &About) {
        if self.phase == Phase::Gone {
            return;
        }
        let data = raw(data);
        self.entry.lock_view().apply(kind, &data);
        let at_ms = (self.entry.now_ms)();
        let event = NewEvent {
            kind,
            data: &data,
            prompt_id: about.prompt_id.as_deref(),
            originator: about.originator.as_deref(),
            at_ms,
        };
        if let Some(id) = self.batch.publish(&event) {
            self.state.history.note(&noted(id, &event), None, None);
            self.touch(at_ms);
        }
    }

    /// Publishes an update of the child, as it came: `params` is what it was read from.
    pub(crate) fn publish_update(&mut self, raw: &RawValue, params: &Params<'_>) {
        if self.phase == Phase::Gone {
            return;
        }
        let at_ms = (self.entry.now_ms)();
        let update = &params.update;
        let text = update.chunk_text();
        if update.kind == "current_mode_update" {
            self.entry.lock_view().apply("session_update", raw);
        }
        let State {
            prompts, history, ..
        } = &mut *self.state;
        let (prompt_id, originator) = prompts.about();
        let event = NewEvent {
            kind: "session_update",
            data: raw,
            prompt_id,
            originator,
            at_ms,
        };
        if let Some(id) = self.batch.publish(&event) {
            history.note(&noted(id, &event), Some(update), text.clone());
            if let (Some(text), "agent_message_chunk") = (text, &*update.kind) {
                prompts.add_answer(&text);
            }
        }
        self.touch(at_ms);
    }

    /// Publishes an update of the daemon's own, about a prompt.
    pub(crate) fn publish_own_update(&mut self, update: &Value, about: &About) {
        if self.phase == Phase::Gone {
            return;
        }
        let data = raw(&serde_json::json!({"sessionId": self.entry.id, "update": update}));
        let at_ms = (self.entry.now_ms)();
        let event = NewEvent {
            kind: "session_update",
            data: &data,
            prompt_id: about.prompt_id.as_deref(),
            originator: about.originator.as_deref(),
            at_ms,
        };
        if let Some(id) = self.batch.publish(&event)
            && let Some(params) = crate::update::read::<Params<'_>>(&data)
        {
            let text = params.update.chunk_text();
            let noted = noted(id, &event);
            self.state.history.note(&noted, Some(&params.update), text);
            self.touch(at_ms);
        }
    }

    /// The running prompt and who sent it.
    pub(crate) fn about_running(&self) -> About {
        self.prompts.about_owned()
    }

    /// Something happened in it.
    pub(crate) fn touch(&mut self, at_ms: u64) {
        self.state.updated_at_ms = Some(at_ms);
        self.state.active_at = Instant::now();
    }

    /// Registers a client: the one that is known here, else a new one.
    pub(crate) fn register(&mut self, caller: &Caller) -> String {
        let known = caller
            .client_id
            .as_ref()
            .filter(|id| self.clients.contains_key(*id));
        let id = known
            .cloned()
            .unwrap_or_else(|| format!("client_{}", Uuid::new_v4()));
        if self.clients.len() >= CLIENTS_MAX && !self.clients.contains_key(&id) {
            let oldest = self.clients.iter().min_by_key(|(_, client)| client.seen_at);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.clients.remove(&oldest);
            }
        }
        let seen_at = Instant::now();
        let client = self
            .clients
            .entry(id.clone())
            .or_insert(Client { n: 0, seen_at });
        client.n += 1;
        client.seen_at = seen_at;
        id
    }

    /// A client is there.
    pub(crate) fn see(&mut self, caller: &Caller) {
        let seen_at = Instant::now();
        self.active_at = seen_at;
        let id = caller.client_id.as_ref();
        if let Some(client) = id.and_then(|id| self.clients.get_mut(id)) {
            client.seen_at = seen_at;
        }
    }

    /// Takes a client back; whether it was the last one.
    pub(crate) fn unregister(&mut self, caller: &Caller) -> bool {
        let Some(id) = &caller.client_id else {
            return false;
        };
        let Some(client) = self.clients.get_mut(id) else {
            return false;
        };
        client.n -= 1;
        if client.n == 0 {
            self.clients.remove(id);
        }
        self.clients.is_empty()
    }
}

fn noted<'a>(id: u64, event: &NewEvent<'a>) -> Noted<'a> {
    Noted {
        id,
        kind: event.kind,
        data: event.data,
        prompt_id: event.prompt_id,
        originator: event.originator,
        at_ms: event.at_ms,
    }
}
