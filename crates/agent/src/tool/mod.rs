//! Tools of the agent: one file each, one line in the registry.

use std::{path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::model::ToolSpec;

/// What a call can do to the world; decides whether it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Changes nothing.
    Read,
    /// Changes files of the workspace.
    Edit,
    /// Anything.
    Execute,
}

/// A tool.
pub trait Tool: Send + Sync + std::fmt::Debug {
    /// What the model sees.
    fn spec(&self) -> ToolSpec;

    /// What it can do.
    fn kind(&self) -> Kind;

    /// Checks the arguments and says what would happen, without doing it.
    ///
    /// # Errors
    /// The arguments are wrong, or name a place outside the workspace; the text is for the model.
    fn preview(&self, args: &str, workspace: &Workspace) -> Result<Preview, ToolError>;

    /// Does it. `args` is JSON text as the model gave it.
    fn run<'a>(
        &'a self,
        args: &'a str,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Output, ToolError>>;
}

/// Where a session works.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The project root, physical and absolute. Relative paths of calls start here.
    pub root: PathBuf,
    /// Further folders that calls may touch.
    pub allowed: Vec<PathBuf>,
}

/// What a running call may use.
#[derive(Clone)]
pub struct Context {
    /// Where it works.
    pub workspace: Arc<Workspace>,
    /// Fires when the turn is cancelled: the call ends at once and leaves nothing half done.
    pub cancel: CancellationToken,
    /// Takes text that a person sees while the call runs.
    pub progress: Arc<dyn Fn(String) + Send + Sync>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

/// What a person sees before a call runs.
#[derive(Debug, Clone)]
pub enum Preview {
    /// A read; one line.
    Read(String),
    /// A change of one file.
    Edit {
        /// The file.
        path: PathBuf,
        /// Unified diff.
        diff: String,
    },
    /// A command.
    Command {
        /// As it will be run.
        command: String,
        /// Where.
        directory: PathBuf,
    },
}

/// What a call gave.
#[derive(Debug, Clone)]
pub struct Output {
    /// What the model is told.
    pub text: String,
    /// What a person is shown.
    pub display: Display,
}

/// What a person is shown of a result.
#[derive(Debug, Clone)]
pub enum Display {
    /// Text.
    Text(String),
    /// A change of one file.
    Diff {
        /// The file.
        path: PathBuf,
        /// Unified diff.
        diff: String,
        /// Lines added.
        n_added: u64,
        /// Lines removed.
        n_removed: u64,
    },
    /// A command that ran.
    Shell {
        /// Where.
        directory: PathBuf,
        /// Its output, cut in the middle.
        output: String,
        /// `None` where a signal ended it.
        exit_code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
}

/// Why a call failed. The text is told to the model.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// A word of its own for the record: `invalid_args`, `outside_workspace`, `not_found`,
    /// `not_read`, `io`, `timeout`, `cancelled`, `exit`, `too_large`.
    pub kind: &'static str,
    /// What the model is told.
    pub message: String,
}
