//! The processes of one command, ended together.

use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::watcher::Watcher;

/// Time between two looks at whether a group is gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A process group of which we started the leader. Dropped without [`Group::release`], it is
/// killed: a call that is given up leaves nothing running. Should we be killed ourselves, a watcher
/// ends it.
#[derive(Debug)]
pub(super) struct Group {
    id: Option<Pid>,
    /// `None` where it could not be started; the group is then ours alone to end.
    watcher: Option<Watcher>,
}

impl Group {
    /// The group whose leader has this process id.
    pub(super) fn of_leader(id: Option<u32>) -> Self {
        let id = id
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        let watcher = id.and_then(|id| Watcher::over(id.as_raw_nonzero().get()).ok());
        Self { id, watcher }
    }

    /// Asks the group to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends the group without asking.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Whether any process is left in the group; one that nobody has reaped counts.
    fn is_alive(&self) -> bool {
        self.id
            .is_some_and(|id| rustix::process::test_kill_process_group(id).is_ok())
    }

    /// Waits for the group to be gone, for a bounded time; answers whether it is.
    pub(super) async fn gone_within(&self, time_max: Duration) -> bool {
        let gone = async {
            while self.is_alive() {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        };
        tokio::time::timeout(time_max, gone).await.is_ok()
    }

    /// Lets go of a group that has ended.
    pub(super) async fn release(mut self) {
        self.id = None;
        if let Some(watcher) = self.watcher.take() {
            watcher.call_off().await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // Dropped: it fails where the group is gone, which is what is wanted.
            _ = rustix::process::kill_process_group(id, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
