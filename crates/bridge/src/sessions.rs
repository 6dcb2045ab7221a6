//! Which sessions are open, and which are being opened.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::{BoxFuture, Shared};

use crate::{Error, channel::Channel, entry::Entry};

/// An opening under way, awaited by all who want the same. It says as whom the first of them is
/// registered.
pub(crate) type Opening = Shared<BoxFuture<'static, Result<Opened, Error>>>;

/// What an opening comes to.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) entry: Arc<Entry>,
    pub(crate) client_id: String,
}

/// What is being opened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The workspace's shared session.
    Shared,
    /// One of its own, by a number.
    New(u64),
    /// One of this id: to be created with it, or stored under it.
    Id(String),
}

/// How it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    New,
    Load,
    Resume,
}

impl Action {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Load => "load",
            Self::Resume => "resume",
        }
    }
}

/// An opening, from its request until the child has answered, however late.
pub(crate) struct Slot {
    pub(crate) action: Action,
    /// Absent until there is something to await.
    pub(crate) opening: Option<Opening>,
    /// Tells it from another in its place.
    pub(crate) number: u64,
}

/// See the module. Locked for a few lines, and never while a session is held.
#[derive(Default)]
pub(crate) struct Sessions {
    live: HashMap<String, Arc<Entry>>,
    shared: Option<String>,
    pub(crate) opening: HashMap<Key, Slot>,
    pub(crate) n_opened: u64,
}

impl Sessions {
    pub(crate) fn live(&self, id: &str) -> Option<Arc<Entry>> {
        self.live.get(id).cloned()
    }

    /// The shared session.
    pub(crate) fn shared(&self) -> Option<Arc<Entry>> {
        self.live(self.shared.as_deref()?)
    }

    /// The next who wants the shared session begins another.
    pub(crate) fn unshare(&mut self, entry: &Arc<Entry>) {
        if self.shared.as_deref() == Some(&entry.id) {
            self.shared = None;
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        self.live.values().cloned().collect()
    }

    /// Those of one child.
    pub(crate) fn of(&self, channel: &Arc<Channel>) -> Vec<Arc<Entry>> {
        let mine = |entry: &&Arc<Entry>| Arc::ptr_eq(&entry.channel, channel);
        self.live.values().filter(mine).cloned().collect()
    }

    /// Open and to be.
    pub(crate) fn n_counted(&self) -> usize {
        self.live.len() + self.opening.len()
    }

    pub(crate) fn add(&mut self, entry: Arc<Entry>, is_shared: bool) {
        if is_shared {
            self.shared = Some(entry.id.clone());
        }
        self.live.insert(entry.id.clone(), entry);
    }

    /// Removes exactly this one: another may have its id by now.
    pub(crate) fn remove(&mut self, entry: &Arc<Entry>) {
        let is_it = |other: &Arc<Entry>| Arc::ptr_eq(other, entry);
        if self.live.get(&entry.id).is_some_and(is_it) {
            self.live.remove(&entry.id);
            self.unshare(entry);
        }
    }
}

/// The sessions of a workspace, to be locked.
#[derive(Default)]
pub(crate) struct Table(Mutex<Sessions>);

impl Table {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
