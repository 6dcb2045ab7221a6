//! What a process knows about its sessions, and the boundary at which it learns that recording
//! failed (R6–R10).

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;
use transcript::{
    disk::Disk,
    local_log::LocalLog,
    record::Title,
    recorder::{Bounds, Options, Recorder, RecordingFailure, Start},
};
use wire::recording::{RecordingReport, RecordingState};

/// What a listener answers. An error of it concerns nobody else (R8).
pub type ListenerResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

type Listener = dyn Fn(&RecordingFailure) -> ListenerResult + Send + Sync;

/// Gives the time of a record.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// Where and whether sessions are recorded.
#[derive(Clone)]
pub struct RecordingSettings {
    /// `false` is the person's choice (`off`).
    pub enabled: bool,
    /// A strict run: no turn without a record (B6).
    pub required: bool,
    /// The disk that recorders write to.
    pub disk: Arc<dyn Disk>,
    /// Where failures are noted for `doctor` (B4).
    pub log: LocalLog,
    /// The program that writes, for the records' `version`.
    pub version: String,
    /// The time of records.
    pub clock: Clock,
}

impl std::fmt::Debug for RecordingSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingSettings")
            .field("enabled", &self.enabled)
            .field("required", &self.required)
            .finish_non_exhaustive()
    }
}

/// The session that a recorder is made for.
#[derive(Debug)]
pub struct RecordedSession {
    /// The transcript; `None` where no data root is known.
    pub path: Option<PathBuf>,
    /// The session's id.
    pub session_id: String,
    /// The project root.
    pub cwd: String,
    /// Whether it begins or goes on.
    pub start: Start,
}

/// Shared by everything that works for one process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Config {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    recording: RecordingSettings,
    subscriptions: Arc<Subscriptions>,
    recorder: watch::Sender<Option<Recorder>>,
    /// Recorders of earlier sessions that may still have something to write; the others are let go.
    retired: Mutex<Vec<Recorder>>,
    /// Part of an earlier session is not saved and never will be.
    lost_earlier: AtomicBool,
}

impl Config {
    /// A configuration that has no session yet.
    #[must_use]
    pub fn new(recording: RecordingSettings) -> Self {
        Self {
            inner: Arc::new(Inner {
                recording,
                subscriptions: Arc::default(),
                recorder: watch::Sender::new(None),
                retired: Mutex::default(),
                lost_earlier: AtomicBool::new(false),
            }),
        }
    }

    /// Whether a turn may run without a record (B6).
    #[must_use]
    pub fn recording_required(&self) -> bool {
        self.inner.recording.required
    }

    /// Calls `listener` once for every recorder that fails from now on (R6), whichever session it
    /// wrote (R9), until the disposer is used.
    ///
    /// It is called on the thread that found the failure, before a flush answers, and should only
    /// pass the news on. Its error or panic disturbs nobody (R8).
    pub fn on_chat_recording_failure(
        &self,
        listener: impl Fn(&RecordingFailure) -> ListenerResult + Send + Sync + 'static,
    ) -> Disposer {
        self.inner.subscriptions.add(Arc::new(listener))
    }

    /// Replaces the recorder by one for `session`; nothing touches the disk before its first record.
    ///
    /// The recorder before it writes what it has accepted, and [`Config::shutdown`] waits for it too.
    pub fn record_session(&self, session: RecordedSession) {
        if !self.inner.recording.enabled {
            return;
        }
        let recording = &self.inner.recording;
        let subscriptions = Arc::clone(&self.inner.subscriptions);
        let recorder = Recorder::start(
            Options {
                path: session.path,
                session_id: session.session_id,
                cwd: session.cwd,
                version: recording.version.clone(),
                start: session.start,
                log: recording.log.clone(),
                disk: Arc::clone(&recording.disk),
                clock: Arc::clone(&recording.clock),
                bounds: Bounds::default(),
            },
            move |failure| subscriptions.deliver(failure),
        );
        if let Some(previous) = self.inner.recorder.send_replace(Some(recorder)) {
            // Dropped: who waits for the end of it, asks again.
            _ = previous.close();
            let mut retired = self.retired();
            retired.push(previous);
            retired.retain(|recorder| match recorder.report().state {
                RecordingState::Pending => true,
                RecordingState::Saved | RecordingState::Off => false,
                RecordingState::NeverStarted | RecordingState::Degraded => {
                    self.inner.lost_earlier.store(true, Ordering::Release);
                    false
                }
            });
        }
    }

    /// Whether part of a session before the current one is not saved; complete after
    /// [`Config::shutdown`].
    #[must_use]
    pub fn lost_earlier(&self) -> bool {
        self.inner.lost_earlier.load(Ordering::Acquire)
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Recorder>> {
        self.inner
            .retired
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The current recorder; `None` before the first session and where recording is off.
    #[must_use]
    pub fn recorder(&self) -> Option<Recorder> {
        self.inner.recorder.borrow().clone()
    }

    /// The level of the current record (B1).
    #[must_use]
    pub fn recording(&self) -> RecordingReport {
        match (&*self.inner.recorder.borrow(), self.inner.recording.enabled) {
            (Some(recorder), _) => recorder.report(),
            (None, false) => RecordingReport::off(),
            (None, true) => RecordingReport {
                state: RecordingState::Saved,
                class: None,
                last_record_uuid: None,
            },
        }
    }

    /// Waits at most `wait` until everything accepted so far is on disk.
    ///
    /// # Errors
    /// It is not: the level of the record says why.
    pub async fn flush(&self, wait: Duration) -> Result<(), RecordingReport> {
        let Some(recorder) = self.recorder() else {
            return Ok(());
        };
        match tokio::time::timeout(wait, recorder.flush()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(recorder.report()),
            Err(_) => {
                let mut report = recorder.report();
                if report.state == RecordingState::Saved {
                    // Nobody has confirmed it (R27).
                    report.state = RecordingState::Pending;
                }
                Err(report)
            }
        }
    }

    /// Mends the torn end of a record that is taken up again (B3), in at most `wait`. Where that fails, the record
    /// has failed, and is told as such.
    pub async fn mend(&self, wait: Duration) {
        if let Some(recorder) = self.recorder() {
            // Dropped: what came of it is the level of the record.
            _ = tokio::time::timeout(wait, recorder.mend()).await;
        }
    }

    /// Names the session. Answers whether the name is on disk (R27), after at most `wait`.
    pub async fn rename(&self, title: Title, wait: Duration) -> bool {
        let Some(recorder) = self.recorder() else {
            return false;
        };
        let renamed = tokio::time::timeout(wait, recorder.rename(title)).await;
        matches!(renamed, Ok(Ok(())))
    }

    /// The word of [`Config::recording`].
    #[must_use]
    pub fn recording_state(&self) -> RecordingState {
        self.recording().state
    }

    /// Follows the level through every change, across recorders.
    #[must_use]
    pub fn watch_recording(&self) -> RecordingWatch {
        let mut recorders = self.inner.recorder.subscribe();
        let states = recorders.borrow_and_update().as_ref().map(Recorder::watch);
        RecordingWatch {
            config: self.clone(),
            recorders,
            states,
        }
    }

    /// Finalizes and flushes the recorder, and those before it that still write, waiting at most
    /// `wait` for all, and only then forgets the listeners, so that a failure found by the last flush
    /// still reaches them (R10). Answers the level of the last session's record.
    ///
    /// The write is not cancelled by the end of the wait.
    pub async fn shutdown(&self, wait: Duration) -> RecordingReport {
        let current = self.recorder().map(|recorder| recorder.close());
        let retired = std::mem::take(&mut *self.retired());
        let mut closed = true;
        // Dropped: what became of each record its listeners know, and the report says.
        _ = tokio::time::timeout(wait, async {
            if let Some(current) = current {
                closed = false;
                // Dropped: as above.
                _ = current.await;
                closed = true;
            }
            for recorder in &retired {
                // Dropped: as above.
                _ = recorder.close().await;
            }
        })
        .await;
        if retired
            .iter()
            .any(|recorder| recorder.report().state != RecordingState::Saved)
        {
            self.inner.lost_earlier.store(true, Ordering::Release);
        }
        let mut report = self.recording();
        if !closed && report.state == RecordingState::Saved {
            // Nobody has confirmed it (R27).
            report.state = RecordingState::Pending;
        }
        self.inner.subscriptions.clear();
        report
    }
}

/// Follows the level of the record, see [`Config::watch_recording`].
#[derive(Debug)]
pub struct RecordingWatch {
    config: Config,
    recorders: watch::Receiver<Option<Recorder>>,
    states: Option<watch::Receiver<RecordingState>>,
}

impl RecordingWatch {
    /// The level now.
    #[must_use]
    pub fn current(&self) -> RecordingReport {
        self.config.recording()
    }

    /// Waits for the next change, and gives the level after it.
    pub async fn changed(&mut self) -> RecordingReport {
        let state_changed = async {
            let gone = match &mut self.states {
                Some(states) => states.changed().await.is_err(),
                None => true,
            };
            if gone {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            changed = self.recorders.changed() => {
                // The sender lives as long as `self.config`.
                if changed.is_ok() {
                    self.states = self.recorders.borrow_and_update().as_ref().map(Recorder::watch);
                }
            }
            () = state_changed => {}
        }
        self.config.recording()
    }
}

/// Ends one subscription. Dropping it does not; using it twice does nothing more.
#[derive(Debug, Clone)]
pub struct Disposer {
    subscriptions: std::sync::Weak<Subscriptions>,
    id: u64,
}

impl Disposer {
    /// Ends the subscription, for every delivery that begins after this.
    pub fn dispose(&self) {
        if let Some(subscriptions) = self.subscriptions.upgrade() {
            subscriptions.lock().retain(|(id, _)| *id != self.id);
        }
    }
}

#[derive(Default)]
struct Subscriptions {
    listeners: Mutex<Vec<(u64, Arc<Listener>)>>,
    next_id: AtomicU64,
}

impl std::fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscriptions")
            .field("n_listeners", &self.lock().len())
            .finish()
    }
}

impl Subscriptions {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Arc<Listener>)>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, listener: Arc<Listener>) -> Disposer {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.lock().push((id, listener));
        Disposer {
            subscriptions: Arc::downgrade(self),
            id,
        }
    }

    fn clear(&self) {
        self.lock().clear();
    }

    /// Tells a snapshot of the listeners (R7), each for itself (R8).
    fn deliver(&self, failure: &RecordingFailure) {
        let snapshot: Vec<_> = self
            .lock()
            .iter()
            .map(|(_, listener)| Arc::clone(listener))
            .collect();
        for listener in snapshot {
            // Dropped: what a listener makes of the news is its own affair; the panic hook has
            // already said where it happened.
            _ = catch_unwind(AssertUnwindSafe(|| listener(failure)));
        }
    }
}
