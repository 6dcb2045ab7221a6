//! `run_shell_command`: a command in a shell, in a process group of its own.
//!
//! Nothing that stays in that group outlives the call, however it ends.

use std::{
    io::{self, PipeWriter},
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe::Receiver,
    process::{Child, Command},
    time::Instant,
};
use wire::limits::{
    SHELL_GRACE_MAX, SHELL_OUTPUT_BYTES_MAX, SHELL_OUTPUT_LINGER_MAX, SHELL_TIME_DEFAULT,
    SHELL_TIME_MAX, TOOL_RESULT_BYTES_MAX,
};

use super::{
    Context, Display, Kind, Output, Preview, Tool, ToolError, Workspace, args, group::Group,
    kept::Kept, progress::Progress,
};
use crate::model::ToolSpec;

/// Bytes of output read at once.
const READ_BYTES: usize = 64 << 10;

/// How long what is just ending may take: processes before they count as left behind, and the last
/// output of a command that has ended.
const SETTLE_TIME_MAX: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Debug)]
pub(super) struct RunShellCommand;

#[derive(Debug, Deserialize)]
struct Args {
    command: String,
    timeout: Option<u64>,
    directory: Option<String>,
    is_background: Option<bool>,
}

/// Arguments that were checked.
#[derive(Debug)]
struct Job {
    command: String,
    directory: PathBuf,
    time_max: Duration,
    open_files: Option<u64>,
}

impl Tool for RunShellCommand {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "run_shell_command".into(),
            description: "Runs a command with `bash -c` (`sh -c` where there is no bash) and \
                          gives its output and errors in the order in which they came. Standard \
                          input is empty. Everything the command starts ends with it, so nothing \
                          can be left running in the background."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "command": { "type": "string", "description": "The command." },
                    "description": {
                        "type": "string",
                        "description": "What it is for, in a few words, for the person."
                    },
                    "timeout": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": millis(SHELL_TIME_MAX),
                        "description": format!(
                            "Milliseconds after which it is ended; {} by default.",
                            millis(SHELL_TIME_DEFAULT)
                        )
                    },
                    "directory": {
                        "type": "string",
                        "description": "Where to run it; the project root by default."
                    },
                    "is_background": {
                        "type": "boolean",
                        "description": "Has to be false."
                    }
                },
                "required": ["command"]
            }),
        }
    }

    fn kind(&self) -> Kind {
        Kind::Execute
    }

    fn preview(&self, args: &str, workspace: &Workspace) -> Result<Preview, ToolError> {
        let job = self.job(args, workspace)?;
        Ok(Preview::Command {
            command: job.command,
            directory: job.directory,
        })
    }

    fn run<'a>(
        &'a self,
        args: &'a str,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let job = self.job(args, &context.workspace)?;
            if context.cancel.is_cancelled() {
                return Err(ToolError::cancelled());
            }
            let mut running = Running::start(&job)
                .map_err(|error| ToolError::io("The command could not be started", &error))?;
            let end = running.watch(context, job.time_max).await;
            running.finish(end, job).await
        })
    }
}

impl RunShellCommand {
    fn job(&self, args: &str, workspace: &Workspace) -> Result<Job, ToolError> {
        let args: Args = args::parse(self, args)?;
        if args.is_background == Some(true) {
            return Err(args::refused(
                self,
                "nothing can be left running in the background; run the command with \
                 is_background false and a timeout, or ask the person to start it",
            ));
        }
        if args.command.trim().is_empty() || args.command.contains('\0') {
            return Err(args::refused(
                self,
                "the command is empty or holds a zero byte",
            ));
        }
        let time_max = args
            .timeout
            .map_or(SHELL_TIME_DEFAULT, Duration::from_millis);
        if time_max.is_zero() || time_max > SHELL_TIME_MAX {
            let max = millis(SHELL_TIME_MAX);
            let reason = format!("timeout has to be between 1 and {max} milliseconds");
            return Err(args::refused(self, &reason));
        }
        let directory = workspace.resolve(args.directory.as_deref().unwrap_or("."))?;
        if !directory.is_dir() {
            let shown = workspace.shown(&directory);
            return Err(ToolError::new(
                "not_found",
                format!("`{shown}` is no folder."),
            ));
        }
        Ok(Job {
            command: args.command,
            directory,
            time_max,
            open_files: workspace.open_files,
        })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Why a command is watched no more.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The shell ended by itself.
    Exited(ExitStatus),
    /// Its time was over.
    TimedOut,
    /// The turn was cancelled.
    Cancelled,
    /// It cannot be waited for.
    Lost,
}

/// A command that was started.
#[derive(Debug)]
struct Running {
    child: Child,
    group: Group,
    /// Both outputs; `None` once every writer is gone.
    pipe: Option<Receiver>,
    kept: Kept,
}

impl Running {
    fn start(job: &Job) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let child = match spawn("bash", job, &writer) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => spawn("sh", job, &writer),
            started => started,
        }?;
        drop(writer);
        let group = Group::of_leader(child.id());
        let pipe = Some(Receiver::from_owned_fd(OwnedFd::from(reader))?);
        Ok(Self {
            child,
            group,
            pipe,
            kept: Kept::new(SHELL_OUTPUT_BYTES_MAX),
        })
    }

    /// Takes output until the shell has ended or has to be ended.
    async fn watch(&mut self, context: &Context, time_max: Duration) -> End {
        let deadline = Instant::now() + time_max;
        let mut progress = Progress::new();
        let mut buffer = vec![0; READ_BYTES];
        let mut exited = None;
        let mut linger = deadline;
        loop {
            if let (Some(status), None) = (exited, &self.pipe) {
                return End::Exited(status);
            }
            let progress_at = progress.due_at();
            tokio::select! {
                biased;
                () = context.cancel.cancelled() => return End::Cancelled,
                () = tokio::time::sleep_until(deadline), if exited.is_none() => {
                    return End::TimedOut;
                }
                () = tokio::time::sleep_until(linger), if exited.is_some() => {
                    return exited.map_or(End::Lost, End::Exited);
                }
                () = tokio::time::sleep_until(progress_at.unwrap_or(deadline)),
                    if progress_at.is_some() => progress.show(context),
                status = self.child.wait(), if exited.is_none() => match status {
                    Ok(status) => {
                        exited = Some(status);
                        linger = Instant::now() + SHELL_OUTPUT_LINGER_MAX;
                    }
                    Err(_) => return End::Lost,
                },
                n_bytes = read(&mut self.pipe, &mut buffer) => {
                    self.kept.add(&buffer[..n_bytes]);
                    progress.add(&buffer[..n_bytes]);
                }
            }
        }
    }

    /// Ends what is left of the command and says how it went.
    async fn finish(mut self, end: End, job: Job) -> Result<Output, ToolError> {
        let was_left = match end {
            End::Exited(_) => !self.group.gone_within(SETTLE_TIME_MAX).await,
            End::TimedOut | End::Cancelled | End::Lost => true,
        };
        if was_left {
            self.group.terminate();
            if !self.drain_until_gone().await {
                self.kill().await;
            }
        }
        self.drain().await;
        let Self {
            child: _,
            group,
            pipe: _,
            kept,
        } = self;
        group.release().await;
        told(&kept, end, was_left, job)
    }

    /// Ends the group without asking, and sees it gone.
    async fn kill(&mut self) {
        self.group.kill();
        // Dropped: how it ended, as we ended it. A process that cannot even be killed now is left to
        // the runtime, which reaps it when it can.
        _ = tokio::time::timeout(SHELL_GRACE_MAX, self.child.wait()).await;
        self.group.gone_within(SHELL_GRACE_MAX).await;
    }

    /// Lets a group that was asked to end say its last words; answers whether it is gone.
    async fn drain_until_gone(&mut self) -> bool {
        let mut buffer = vec![0; READ_BYTES];
        let gone = self.group.gone_within(SHELL_GRACE_MAX);
        tokio::pin!(gone);
        loop {
            tokio::select! {
                biased;
                is_gone = &mut gone => return is_gone,
                // The group counts as alive until its leader is reaped.
                status = self.child.wait(), if self.child.id().is_some() => {
                    // Dropped: it is ended by us, and how is no news.
                    _ = status;
                }
                n_bytes = read(&mut self.pipe, &mut buffer) => self.kept.add(&buffer[..n_bytes]),
            }
        }
    }

    /// Takes what is still in the pipe. Somebody outside the group may hold it open, or even fill
    /// it, so this is bounded.
    async fn drain(&mut self) {
        let mut buffer = vec![0; READ_BYTES];
        let all = async {
            while self.pipe.is_some() {
                let n_bytes = read(&mut self.pipe, &mut buffer).await;
                self.kept.add(&buffer[..n_bytes]);
            }
        };
        // Dropped: what comes later comes from somebody who is not of this command any more.
        _ = tokio::time::timeout(SETTLE_TIME_MAX, all).await;
    }
}

/// Starts one shell. The command is dropped here, and with it our copies of the pipe.
fn spawn(shell: &str, job: &Job, output: &PipeWriter) -> io::Result<Child> {
    let mut command = Command::new(shell);
    match job.open_files {
        // A shell of its own sets the limit, so that the command is what the inner one was given.
        Some(limit) => command.args([
            "-c",
            r#"ulimit -S -n "$0" 2>/dev/null; exec "$1" -c "$2""#,
            &limit.to_string(),
            shell,
            &job.command,
        ]),
        None => command.args(["-c", &job.command]),
    };
    command
        .current_dir(&job.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::from(output.try_clone()?))
        .stderr(Stdio::from(output.try_clone()?))
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

/// Reads some output; never ends where the pipe is closed already.
async fn read(pipe: &mut Option<Receiver>, buffer: &mut [u8]) -> usize {
    let Some(open) = pipe else {
        return std::future::pending().await;
    };
    match open.read(buffer).await {
        Ok(n_bytes) if n_bytes > 0 => n_bytes,
        Ok(_) | Err(_) => {
            *pipe = None;
            0
        }
    }
}

fn told(kept: &Kept, end: End, was_left: bool, job: Job) -> Result<Output, ToolError> {
    let (error, mut note) = match end {
        End::Exited(status) => exited(status),
        End::TimedOut => {
            let time = millis(job.time_max);
            (
                Some("timeout"),
                format!("[The command was ended after {time} ms.]"),
            )
        }
        End::Cancelled => (
            Some("cancelled"),
            "[The command was cancelled and ended.]".to_owned(),
        ),
        End::Lost => (
            Some("io"),
            "[The command was lost; how it ended is not known.]".to_owned(),
        ),
    };
    if was_left && matches!(end, End::Exited(_)) {
        if !note.is_empty() {
            note.push('\n');
        }
        note.push_str("[Processes it left in the background were ended.]");
    }
    let text = text(kept, &note);
    if let Some(kind) = error {
        return Err(ToolError::new(kind, text));
    }
    let exit_code = Some(0);
    let output = kept.text(SHELL_OUTPUT_BYTES_MAX);
    let display = Display::Shell {
        directory: job.directory,
        output,
        exit_code,
        signal: None,
    };
    Ok(Output { text, display })
}

fn exited(status: ExitStatus) -> (Option<&'static str>, String) {
    match (status.code(), status.signal()) {
        (Some(0), _) => (None, String::new()),
        (Some(code), _) => (Some("exit"), format!("[Exit code {code}.]")),
        (None, signal) => (
            Some("exit"),
            format!("[The command was ended by signal {}.]", signal.unwrap_or(0)),
        ),
    }
}

fn text(kept: &Kept, note: &str) -> String {
    let mut text = kept.text(TOOL_RESULT_BYTES_MAX - note.len() - 1);
    if text.is_empty() && note.is_empty() {
        return "[The command printed nothing.]".to_owned();
    }
    if !text.is_empty() && !text.ends_with('\n') && !note.is_empty() {
        text.push('\n');
    }
    text.push_str(note);
    text
}
