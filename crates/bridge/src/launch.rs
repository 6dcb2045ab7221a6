//! How a child is started.

use std::{
    ffi::OsString,
    fmt,
    future::Future,
    io,
    os::unix::process::CommandExt,
    path::PathBuf,
    pin::Pin,
    process::{self, Stdio},
    sync::Arc,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    process::{ChildStderr, ChildStdin, ChildStdout},
};

use crate::{process::Process, stderr::drain};

/// Starts children; the product starts processes, tests also start fakes over pipes in memory.
pub trait Launch: Send + Sync + fmt::Debug + 'static {
    /// Starts one.
    ///
    /// # Errors
    /// It cannot be started.
    fn launch(&self) -> io::Result<Child>;
}

/// A running child.
pub struct Child {
    /// What it says.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// What it is told.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// Ends once it has ended, with its exit code or signal. It kills what is left of it when it is dropped.
    pub handle: Box<dyn Handle>,
}

/// The life of a child.
pub trait Handle: Send {
    /// Waits for its end.
    fn ended(&mut self) -> Pin<Box<dyn Future<Output = Ended> + Send + '_>>;
    /// Asks it to end (SIGTERM to its group).
    fn terminate(&mut self);
    /// Ends it and all that it started (SIGKILL to its group).
    fn kill(&mut self);
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ended {
    /// Its exit code; absent where a signal ended it.
    pub exit_code: Option<i32>,
    /// The name of the signal (`SIGKILL`).
    pub signal: Option<String>,
}

/// A child process, in a process group of its own.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// What is changed in its environment: set, or removed where `None`.
    pub env: Vec<(OsString, Option<OsString>)>,
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").finish_non_exhaustive()
    }
}

impl Launch for Command {
    fn launch(&self) -> io::Result<Child> {
        let mut command = process::Command::new(&self.program);
        command
            .args(&self.args)
            .current_dir(&self.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command.spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // From here on the process ends with its handle, whatever fails.
        let mut process = Process::watch(child)?;
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let stderr = ChildStderr::from_std(stderr)?;
        process.drain = Some(tokio::spawn(drain(stderr, Arc::clone(&process.tail))));
        Ok(Child {
            output: Box::new(ChildStdout::from_std(stdout)?),
            input: Box::new(ChildStdin::from_std(stdin)?),
            handle: Box::new(process),
        })
    }
}
