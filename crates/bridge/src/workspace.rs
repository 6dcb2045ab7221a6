//! What all parts of a bridge share: its options, its sessions, and the child of now.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bus::Counts;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wire::{
    limits::{REAPER_INTERVAL, SHUTDOWN_STREAMS_WAIT_MAX},
    recording::FaultClass,
};

use crate::{
    Error, Options,
    channel::Channel,
    closing::{self, How},
    entry::{About, Entry, Phase},
    launch::{Ended, Launch},
    prompts::{self, Lost},
    sessions::{Sessions, Table},
};

/// See the module.
pub(crate) struct Workspace {
    pub(crate) options: Options,
    pub(crate) launch: Arc<dyn Launch>,
    /// Fires once nobody uses the bridge any more.
    pub(crate) end: CancellationToken,
    table: Table,
    child: Mutex<Option<Arc<Channel>>>,
    /// Held while a child starts, so that there is one.
    starting: tokio::sync::Mutex<()>,
    is_draining: AtomicBool,
    /// A session that died had a record that failed.
    has_degraded: AtomicBool,
    pub(crate) generation: String,
    pub(crate) revision: AtomicU64,
    pub(crate) n_queue_full: AtomicU64,
    n_early_kept: AtomicU64,
    n_early_dropped: AtomicU64,
    /// Records that failed in sessions that are gone, by class.
    past_failures: Mutex<BTreeMap<&'static str, u64>>,
    /// Of streams whose session is gone.
    past: Mutex<Counts>,
    /// The last activity of sessions that are gone; 0 where there was none.
    past_activity_ms: AtomicU64,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Workspace {
    pub(crate) fn new(options: Options, launch: Arc<dyn Launch>) -> Arc<Self> {
        Arc::new(Self {
            options,
            launch,
            end: CancellationToken::new(),
            table: Table::default(),
            child: Mutex::default(),
            starting: tokio::sync::Mutex::default(),
            is_draining: AtomicBool::new(false),
            has_degraded: AtomicBool::new(false),
            generation: Uuid::new_v4().to_string(),
            revision: AtomicU64::new(0),
            n_queue_full: AtomicU64::new(0),
            n_early_kept: AtomicU64::new(0),
            n_early_dropped: AtomicU64::new(0),
            past_failures: Mutex::default(),
            past: Mutex::default(),
            past_activity_ms: AtomicU64::new(0),
        })
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.table.lock()
    }

    /// The live sessions, with the table not locked.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        self.sessions().all()
    }

    /// Those of one child.
    pub(crate) fn entries_of(&self, channel: &Arc<Channel>) -> Vec<Arc<Entry>> {
        self.sessions().of(channel)
    }

    /// A live session.
    pub(crate) fn entry(&self, id: &str) -> Result<Arc<Entry>, Error> {
        let entry = self.sessions().live(id);
        entry.ok_or_else(|| Error::SessionNotFound(id.to_owned()))
    }

    pub(crate) fn refuse_where_draining(&self) -> Result<(), Error> {
        if self.is_draining.load(Ordering::Acquire) {
            return Err(Error::Draining);
        }
        Ok(())
    }

    /// The child of now, where one is running.
    pub(crate) fn child(&self) -> Option<Arc<Channel>> {
        let child = self.lock_child().clone();
        child.filter(|child| child.is_alive())
    }

    fn lock_child(&self) -> MutexGuard<'_, Option<Arc<Channel>>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The child of now; started where there is none.
    pub(crate) async fn channel(self: &Arc<Self>) -> Result<Arc<Channel>, Error> {
        let _starting = self.starting.lock().await;
        self.refuse_where_draining()?;
        if let Some(child) = self.child() {
            return Ok(child);
        }
        let channel = Channel::start(self).await?;
        *self.lock_child() = Some(Arc::clone(&channel));
        Ok(channel)
    }

    /// A session is gone: lists of sessions are stale.
    pub(crate) fn forget(&self, entry: &Arc<Entry>) {
        self.sessions().remove(entry);
        let at_ms = entry.hold().updated_at_ms.unwrap_or_default();
        self.past_activity_ms.fetch_max(at_ms, Ordering::Relaxed);
        let counts = entry.bus.counts();
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.evictions += counts.evictions;
        past.resyncs += counts.resyncs;
        drop(past);
        if let Some(class) = class_of_failure(entry) {
            let mut past = self.lock_past_failures();
            *past.entry(class).or_default() += 1;
        }
        self.bump();
    }

    fn lock_past_failures(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.past_failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// An event about a session that is not open.
    pub(crate) fn count_early(&self, is_kept: bool) {
        let counter = if is_kept {
            &self.n_early_kept
        } else {
            &self.n_early_dropped
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted of records since the start.
    pub(crate) fn tally(&self) -> Tally {
        let entries = self.entries();
        let mut failures = self.lock_past_failures().clone();
        for class in entries.iter().filter_map(class_of_failure) {
            *failures.entry(class).or_default() += 1;
        }
        Tally {
            early_kept: self.n_early_kept.load(Ordering::Relaxed),
            early_dropped: self.n_early_dropped.load(Ordering::Relaxed),
            recordings_degraded: failures,
        }
    }

    /// Lists of sessions are stale.
    pub(crate) fn bump(&self) -> u64 {
        self.revision.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// When anything last happened in any session, ms since 1970.
    pub(crate) fn last_activity_ms(&self) -> Option<u64> {
        let entries = self.entries();
        let live = entries
            .iter()
            .filter_map(|entry| entry.hold().updated_at_ms);
        let past = self.past_activity_ms.load(Ordering::Relaxed);
        live.chain((past > 0).then_some(past)).max()
    }

    /// What happened to streams since the start.
    pub(crate) fn counts(&self) -> Counts {
        let entries = self.entries();
        let past = *self.past.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().fold(past, |sum, entry| {
            let counts = entry.bus.counts();
            Counts {
                evictions: sum.evictions + counts.evictions,
                resyncs: sum.resyncs + counts.resyncs,
            }
        })
    }

    /// A child ended: so do its sessions.
    pub(crate) fn child_ended(&self, channel: &Arc<Channel>, ended: &Ended) {
        let is_draining = self.is_draining.load(Ordering::Acquire);
        let entries = self.entries_of(channel);
        for entry in entries {
            if is_draining {
                self.end_with_daemon(&entry);
                continue;
            }
            let data = json!({
                "sessionId": entry.id,
                "reason": "channel_closed",
                "exitCode": ended.exit_code,
                "signalCode": ended.signal,
            });
            self.end_entry(&entry, Lost::ChildEnded, &data);
        }
    }

    fn end_with_daemon(&self, entry: &Arc<Entry>) {
        let data = json!({"sessionId": entry.id, "reason": "daemon_shutdown"});
        self.end_entry(entry, Lost::Shutdown, &data);
    }

    /// Ends a session that died: what runs and waits in it fails, and its last event says why.
    fn end_entry(&self, entry: &Arc<Entry>, lost: Lost, died: &serde_json::Value) {
        let mut held = entry.hold();
        if held.phase == Phase::Gone {
            return;
        }
        held.drop_permissions("agent_cancelled");
        held.lose_running(lost);
        held.lose_waiting(lost);
        held.publish("session_died", died, &About::default());
        if entry.view().recording_degraded {
            self.has_degraded.store(true, Ordering::Release);
        }
        held.phase = Phase::Gone;
        drop(held);
        entry.bus.close();
        self.forget(entry);
    }

    /// See [`Bridge::shutdown`](crate::Bridge::shutdown).
    pub(crate) async fn shutdown(self: Arc<Self>) -> bool {
        self.is_draining.store(true, Ordering::Release);
        // A child that is being started is not waited for: it is ended by whoever starts it.
        let channel = self.lock_child().take().filter(|child| child.is_alive());
        let streams_until = Instant::now() + SHUTDOWN_STREAMS_WAIT_MAX;
        for entry in self.entries() {
            let mut held = entry.hold();
            // What waits does not run any more, and is told after what runs.
            held.phase = Phase::Closing;
            if held.prompts.is_running() {
                prompts::ask_to_cancel(&entry);
            }
            held.drop_permissions("daemon_shutdown");
        }
        let Some(channel) = channel else {
            self.end.cancel();
            return true;
        };
        channel.terminate();
        let mut ended = channel.ended();
        let is_told = async {
            // Dropped: the sender lives as long as the channel does.
            _ = ended.wait_for(Option::is_some).await;
        };
        let in_time = tokio::time::timeout_at(streams_until, is_told).await;
        for entry in self.entries() {
            // The child is late; streams do not wait for it any more.
            self.end_with_daemon(&entry);
        }
        if in_time.is_err() {
            // Dropped: as above. The child is killed in time.
            _ = ended.wait_for(Option::is_some).await;
        }
        self.end.cancel();
        let ended = ended.borrow().clone().unwrap_or_default();
        // Some agents end with a failure where a record failed; that was told, and is not this one's.
        let is_degraded = self.has_degraded.load(Ordering::Acquire);
        ended.exit_code == Some(0) || (ended.exit_code.is_some() && is_degraded)
    }

    /// Closes sessions that nobody uses, until the bridge ends.
    pub(crate) async fn reap(self: Arc<Self>, idle_max: Duration) {
        loop {
            tokio::select! {
                () = self.end.cancelled() => return,
                () = sleep(REAPER_INTERVAL) => {}
            }
            for entry in self.entries() {
                let is_idle = {
                    let held = entry.hold();
                    held.phase == Phase::Open
                        && held.prompts.is_idle()
                        && held.permissions.len() == 0
                        && entry.bus.n_subscribers() == 0
                        && held.active_at.elapsed() >= idle_max
                };
                if is_idle {
                    let how = How::idle(entry.channel.work().is_told());
                    if let Err(error) = closing::close(Arc::clone(&self), entry, how).await {
                        tracing::debug!(%error, "an idle session was not closed");
                    }
                }
            }
        }
    }
}

/// What was counted of records since the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Events about sessions that were not open, and that were kept for them (R17).
    pub early_kept: u64,
    /// Those that were dropped: too many, or of a session that was closed.
    pub early_dropped: u64,
    /// Records that failed, by class; `unknown` where the agent does not say it.
    pub recordings_degraded: BTreeMap<&'static str, u64>,
}

/// Why the record of a session failed, if it did.
fn class_of_failure(entry: &Arc<Entry>) -> Option<&'static str> {
    if !entry.view().recording_degraded {
        return None;
    }
    let fault = entry.hold().fault;
    Some(fault.map_or("unknown", FaultClass::as_str))
}
