//! What a process must offer: where sessions come from, and who can answer in them.

use std::{fmt, path::Path, sync::Arc};

use agent::{
    approval::{Approver, Guard},
    config::Config,
    controls::Controls,
    model::Provider,
    replay::Replayed,
    session::Session,
    tool::Editor,
};
use wire::recording::RecordingReport;

/// Where sessions come from. Its methods may wait for a disk and are called on threads of their own.
pub trait Backend: Send + Sync + fmt::Debug + 'static {
    /// A new session of that id in that folder.
    ///
    /// # Errors
    /// It cannot be begun.
    fn begin(&self, session_id: &str, cwd: &Path, voices: Voices) -> Result<Opened, OpenError>;

    /// A stored session, taken up where it was left.
    ///
    /// # Errors
    /// It is not there, is open elsewhere, or cannot be read.
    fn take_up(&self, session_id: &str, cwd: &Path, voices: Voices) -> Result<Opened, OpenError>;

    /// Stored sessions, newest first; of one folder, or of all.
    ///
    /// # Errors
    /// What is stored cannot be read.
    fn list(&self, cwd: Option<&Path>) -> Result<Vec<Row>, OpenError>;

    /// What was said in a stored session, whoever has it open; reading writes nothing.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    fn replay(&self, session_id: &str) -> Result<History, OpenError>;

    /// The version of the program.
    fn version(&self) -> &'static str;

    /// Names of models that can be chosen.
    fn models(&self) -> Vec<String>;

    /// The model of that name.
    ///
    /// # Errors
    /// It cannot be reached; the text names the mend.
    fn model(&self, name: &str) -> Result<Arc<dyn Provider>, String>;
}

/// Who is asked in a session, and who hears of it.
pub struct Voices {
    /// Asked about calls that need approval.
    pub approver: Arc<dyn Approver>,
    /// Asked about every call.
    pub guard: Option<Arc<dyn Guard>>,
    /// Holds files of the workspace; `None` where the client offers none.
    pub editor: Option<Arc<dyn Editor>>,
    /// To be called with the session's configuration before anything is recorded in it.
    pub listen: Box<dyn Fn(&Config) + Send>,
}

impl fmt::Debug for Voices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Voices")
            .field("approver", &self.approver)
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

/// A session that is ready for its next prompt.
#[derive(Debug)]
pub struct Opened {
    /// It.
    pub session: Session,
    /// Its configuration, which is its own: its recorder fails for itself alone.
    pub config: Config,
    /// Its settings.
    pub controls: Controls,
    /// What was said before.
    pub history: History,
    /// Its name, where it has one.
    pub title: Option<String>,
    /// Its record ends in the middle of a line, which is to be mended (B3).
    pub ends_torn: bool,
}

/// What was said in a session, as far as its record tells it.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Oldest first.
    pub steps: Vec<Replayed>,
    /// What a person is told where that is not all of it.
    pub damage: Option<String>,
}

/// A stored session.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its id.
    pub session_id: String,
    /// Its project root.
    pub cwd: String,
    /// Its name, else the beginning of its first prompt.
    pub title: Option<String>,
    /// Its first prompt's beginning.
    pub preview: Option<String>,
    /// When it was begun, RFC 3339.
    pub created_at: Option<String>,
    /// When it was last written to, RFC 3339.
    pub updated_at: Option<String>,
}

/// Why a session cannot be opened. No text holds a path (R28).
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// There is none of that id.
    #[error("there is no such session")]
    NotFound,
    /// It is in the archive.
    #[error("the session is archived: unarchive it first")]
    Archived,
    /// Another process has it; names the mend.
    #[error("{0}")]
    Busy(String),
    /// The params are wrong; names the mend.
    #[error("{0}")]
    Invalid(String),
    /// Anything else; names the mend.
    #[error("{0}")]
    Other(String),
}

/// The report of a record as answers carry it.
pub(crate) fn recording_meta(report: &RecordingReport) -> serde_json::Value {
    serde_json::json!({"onrecord/recording": report})
}
