//! A home of its own for one test: data root, workspace, run-time and temporary folders, and an
//! environment that holds nothing of the machine but its `PATH`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::faults::Fault;

/// Folders of one test, removed when it ends.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    /// Kept so that the folders live as long as the home.
    _folder: TempDir,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// An empty home.
    ///
    /// # Panics
    /// Where no temporary folder can be made.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("onrecord-home-").tempdir();
        let folder = folder.expect("a temporary folder can be made");
        // A project's id is made of its path, so the path must be the one that the program sees.
        let path = folder
            .path()
            .canonicalize()
            .expect("the folder was just made");
        for name in ["home", "workspace", "run", "tmp"] {
            fs::create_dir(path.join(name)).expect("a new folder is writable");
        }
        Self {
            path,
            _folder: folder,
        }
    }

    /// The folder that holds all others.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `ONRECORD_HOME`. It does not exist before a program makes it.
    #[must_use]
    pub fn data_root(&self) -> PathBuf {
        self.path.join("data")
    }

    /// The current directory of the programs, empty at first.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.path.join("workspace")
    }

    /// `HOME`, empty at first.
    #[must_use]
    pub fn user_home(&self) -> PathBuf {
        self.path.join("home")
    }

    /// `XDG_RUNTIME_DIR`, empty at first.
    #[must_use]
    pub fn run_dir(&self) -> PathBuf {
        self.path.join("run")
    }

    /// `TMPDIR`, empty at first.
    #[must_use]
    pub fn tmp_dir(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// A program in this home: in its workspace, with nothing on standard input.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        self.command_under(&Fault::none(), program)
    }

    /// A program in this home, under a fault.
    pub fn command_under(&self, fault: &Fault, program: impl AsRef<Path>) -> Command {
        let mut command = fault.command(program.as_ref());
        let fault_env: Vec<_> = command
            .get_envs()
            .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
            .collect();
        command
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env("HOME", self.user_home())
            .env("ONRECORD_HOME", self.data_root())
            .env("XDG_RUNTIME_DIR", self.run_dir())
            .env("TMPDIR", self.tmp_dir())
            .envs(fault_env)
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        command
    }

    /// The transcripts under the data root, sorted by path.
    ///
    /// # Panics
    /// Where a folder cannot be read.
    #[must_use]
    pub fn transcripts(&self) -> Vec<PathBuf> {
        transcripts_under(&self.data_root())
    }
}

/// The transcripts of a data root that lies anywhere, sorted by path.
///
/// # Panics
/// Where a folder cannot be read.
#[must_use]
pub fn transcripts_under(data_root: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = entries(&data_root.join("projects"))
        .into_iter()
        .flat_map(|project| entries(&project.join("chats")))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .collect();
    paths.sort();
    paths
}

/// The entries of a folder; none where it does not exist.
fn entries(folder: &Path) -> Vec<PathBuf> {
    if !folder.is_dir() {
        return Vec::new();
    }
    let entries = fs::read_dir(folder).expect("the folder can be read");
    entries
        .map(|entry| entry.expect("the folder can be read").path())
        .collect()
}
