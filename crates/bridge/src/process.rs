//! The life of a child process: its end, and the end of all that it started.
//!
//! A thread of its own waits for the process, so that it is reaped whatever becomes of the runtime. Its
//! group is signalled only while the process is not reaped, for afterwards its number may be another's.

use std::{
    future::Future,
    io,
    os::unix::process::ExitStatusExt,
    pin::Pin,
    process::{Child, ExitStatus},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    launch::{Ended, Handle},
    stderr::Tail,
};

/// The process group of a child. `None` once the child is reaped.
#[derive(Debug, Clone)]
struct Group(Arc<Mutex<Option<Pid>>>);

impl Group {
    fn signal(&self, signal: Signal) {
        let group = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = *group {
            // Dropped: all of it has ended.
            _ = kill_process_group(pid, signal);
        }
    }

    /// Waits for the process, kills what it leaves behind and reaps it.
    fn reap(&self, pid: Pid, child: &mut Child) -> io::Result<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(pid), options).is_err_and(|error| error == Errno::INTR) {}
        let mut group = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = group.take() {
            // Dropped: nothing is left of it.
            _ = kill_process_group(pid, Signal::KILL);
        }
        child.wait()
    }
}

/// A child process in a group of its own. Dropping it kills the group.
#[derive(Debug)]
pub(crate) struct Process {
    group: Group,
    ended: watch::Receiver<Option<Ended>>,
    /// The end of its standard error.
    pub(crate) tail: Arc<Tail>,
    /// Reads its standard error.
    pub(crate) drain: Option<JoinHandle<()>>,
}

impl Process {
    /// Takes care of a process that leads a group of its own.
    pub(crate) fn watch(mut child: Child) -> io::Result<Self> {
        let pid = Pid::from_child(&child);
        let group = Group(Arc::new(Mutex::new(Some(pid))));
        let (tell, ended) = watch::channel(None);
        let process = Self {
            group: group.clone(),
            ended,
            tail: Arc::default(),
            drain: None,
        };
        thread::Builder::new()
            .name("child".to_owned())
            .spawn(move || {
                let status = group.reap(pid, &mut child);
                tell.send_replace(Some(status.map(Ended::from).unwrap_or_default()));
            })?;
        Ok(process)
    }
}

impl Handle for Process {
    fn ended(&mut self) -> Pin<Box<dyn Future<Output = Ended> + Send + '_>> {
        Box::pin(async {
            let ended = self.ended.wait_for(Option::is_some).await;
            // The sender goes only after it has told.
            let ended = ended.ok().and_then(|ended| ended.clone());
            let ended = ended.unwrap_or_default();
            if ended.exit_code != Some(0) {
                self.tail.log(&ended);
            }
            ended
        })
    }

    fn terminate(&mut self) {
        self.group.signal(Signal::TERM);
    }

    fn kill(&mut self) {
        self.group.signal(Signal::KILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.group.signal(Signal::KILL);
        if let Some(drain) = &self.drain {
            drain.abort();
        }
    }
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        Self {
            exit_code: status.code(),
            signal: status.signal().map(signal_name),
        }
    }
}

fn signal_name(number: i32) -> String {
    let known = Signal::from_named_raw(number).and_then(|signal| {
        NAMES
            .iter()
            .find(|(named, _)| *named == signal)
            .map(|(_, name)| *name)
    });
    known.map_or_else(|| format!("SIG{number}"), str::to_owned)
}

const NAMES: [(Signal, &str); 15] = [
    (Signal::ABORT, "SIGABRT"),
    (Signal::ALARM, "SIGALRM"),
    (Signal::BUS, "SIGBUS"),
    (Signal::FPE, "SIGFPE"),
    (Signal::HUP, "SIGHUP"),
    (Signal::ILL, "SIGILL"),
    (Signal::INT, "SIGINT"),
    (Signal::KILL, "SIGKILL"),
    (Signal::PIPE, "SIGPIPE"),
    (Signal::QUIT, "SIGQUIT"),
    (Signal::SEGV, "SIGSEGV"),
    (Signal::TERM, "SIGTERM"),
    (Signal::TRAP, "SIGTRAP"),
    (Signal::XCPU, "SIGXCPU"),
    (Signal::XFSZ, "SIGXFSZ"),
];
