//! Where the process runs: its folder, its data root, its local log. The only reader of the
//! environment's places.

use std::{
    env,
    path::{Path, PathBuf},
};

use transcript::{
    layout::{DataRoot, ProjectDir},
    local_log::LocalLog,
};

use crate::resolve::Refusal;

/// Where the process runs.
#[derive(Debug)]
pub(crate) struct Place {
    /// The current folder, physical: a project reached through a symlink is the same project.
    pub(crate) cwd: PathBuf,
    /// `ONRECORD_HOME`, else `~/.onrecord`; `None` where neither is known.
    pub(crate) root: Option<DataRoot>,
}

impl Place {
    /// Reads the environment.
    ///
    /// # Errors
    /// There is no current folder.
    pub(crate) fn find() -> Result<Self, Refusal> {
        let cwd = env::current_dir().map_err(|error| {
            let reason = error.kind();
            Refusal::usage(format!(
                "the current folder is gone ({reason}); change to another"
            ))
        })?;
        let cwd = cwd.canonicalize().unwrap_or(cwd);
        let root = folder("ONRECORD_HOME")
            .map(|home| cwd.join(expand_tilde(home)))
            .or_else(|| Some(cwd.join(folder("HOME")?).join(".onrecord")));
        Ok(Self {
            cwd,
            root: root.map(DataRoot::new),
        })
    }

    /// The folder of this project's transcripts.
    pub(crate) fn project(&self) -> Option<ProjectDir> {
        self.root.as_ref().map(|root| root.project(&self.cwd))
    }

    /// Where failures are noted (B4): beside the transcripts, else where it does not lie on the
    /// same disk.
    pub(crate) fn log(&self) -> LocalLog {
        let temporary = folder("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
        let user = rustix::process::getuid().as_raw();
        let candidates = [
            self.root.as_ref().map(DataRoot::log_dir),
            folder("XDG_RUNTIME_DIR").map(|runtime| runtime.join("onrecord")),
            Some(temporary.join(format!("onrecord-{user}"))),
        ];
        LocalLog::new(candidates.into_iter().flatten().collect())
    }
}

fn folder(name: &str) -> Option<PathBuf> {
    env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// A `~` that no shell expanded.
fn expand_tilde(path: PathBuf) -> PathBuf {
    match (path.strip_prefix("~"), folder("HOME")) {
        (Ok(rest), Some(home)) => home.join(rest),
        (Ok(_) | Err(_), _) => path,
    }
}

/// Makes a path as typed absolute and, where it exists, physical.
pub(crate) fn physical(cwd: &Path, path: &Path) -> PathBuf {
    let path = cwd.join(path);
    path.canonicalize().unwrap_or(path)
}
