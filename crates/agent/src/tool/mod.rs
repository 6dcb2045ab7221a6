//! Tools of the agent: one file each, one line in the registry.
//!
//! A tool checks its own arguments and its own place in the workspace. Who may call it, and what is
//! recorded of the call, is decided elsewhere.

mod registry;

mod edit;
mod editor;
mod glob;
mod grep_search;
mod list_directory;
mod read_file;
mod run_shell_command;
pub(crate) mod todo_write;
mod write_file;

mod args;
mod blocking;
pub mod cut;
mod diff;
pub(crate) mod file;
mod group;
mod kept;
mod progress;
mod replace;
mod rows;
mod watcher;
mod wording;
mod workspace;

pub use editor::Editor;
pub use registry::{find, our_name, registry};
pub use todo_write::{Todo, TodoStatus};

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
    /// Runs inside the program that drives us, which decides for itself what it does.
    Host,
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

    /// The file that would be changed, where an editor may hold a text of its own for it.
    fn edited_file(&self, _args: &str, _workspace: &Workspace) -> Option<PathBuf> {
        None
    }

    /// As [`Tool::preview`], of a change to that text.
    ///
    /// # Errors
    /// As [`Tool::preview`].
    fn preview_edited(
        &self,
        args: &str,
        workspace: &Workspace,
        _edited: Vec<u8>,
    ) -> Result<Preview, ToolError> {
        self.preview(args, workspace)
    }

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
    /// The data root. No call changes a file in it, wherever it lies: a model that edits its own
    /// record would make it worthless. `None` where none is known.
    pub data_root: Option<PathBuf>,
    /// The soft limit of open files that commands run under; `None` where it is our own.
    pub open_files: Option<u64>,
}

/// What a running call may use.
#[derive(Clone)]
pub struct Context {
    /// Where it works.
    pub workspace: Arc<Workspace>,
    /// Fires when the turn is cancelled: the call ends at once and leaves nothing half done.
    pub cancel: CancellationToken,
    /// An editor through which files are read or written; `None` where there is none.
    pub editor: Option<Arc<dyn Editor>>,
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
        /// Both texts, where they are texts and not very long.
        texts: Option<Arc<Texts>>,
    },
    /// A command.
    Command {
        /// As it will be run.
        command: String,
        /// Where.
        directory: PathBuf,
    },
    /// A call of somebody else's tool; one line.
    Call(String),
}

/// What a file holds before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// Before; `None` where there was no file.
    pub old: Option<String>,
    /// After.
    pub new: String,
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
        /// Both texts, where they are texts and not very long.
        texts: Option<Arc<Texts>>,
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
    /// The model's plan, whole.
    Plan(Arc<[Todo]>),
}

/// Why a call failed. The text is told to the model.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// A word of its own for the record: `unknown_tool`, `invalid_args`, `outside_workspace`,
    /// `not_found`, `not_regular`, `not_text`, `no_match`, `not_unique`, `changed_meanwhile`, `io`,
    /// `timeout`, `cancelled`, `exit`, `too_large`.
    pub kind: &'static str,
    /// What the model is told.
    pub message: String,
}

impl ToolError {
    pub(crate) fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub(crate) fn cancelled() -> Self {
        Self::new("cancelled", "The call was cancelled before it was done.")
    }

    /// The system refused; `what` is a whole clause such as "`a.txt` cannot be read".
    pub(crate) fn io(what: &str, error: &std::io::Error) -> Self {
        let is_missing = error.kind() == std::io::ErrorKind::NotFound;
        let kind = if is_missing { "not_found" } else { "io" };
        Self::new(kind, format!("{what}: {error}."))
    }
}
