//! Real faults of disks, limits and rights, made for one program and gone with it.
//!
//! Each constructor tries its fault once and answers `None` where the machine cannot make it (see
//! [`crate::need`]). Nothing is shared between tests: mounts live in a namespace of their own,
//! limits and rights in the process that they are made for.

mod disk;
mod shim;
mod user;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub use self::{disk::SmallDisk, user::OtherUser};
use crate::need::{Need, found};

/// How a program is started so that it meets a fault.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Fault {
    /// Programs that set the stage, each of which runs what follows it.
    prefix: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl Fault {
    /// No fault at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// The program, started under this fault. Arguments and the rest are the caller's to add.
    pub fn command(&self, program: &Path) -> Command {
        let mut words = self.prefix.iter().cloned().chain([program.into()]);
        let mut command = Command::new(words.next().expect("the program is always there"));
        command.args(words).envs(self.env.iter().cloned());
        command
    }

    /// This fault around the other, for a program that meets both.
    pub fn and(mut self, inner: Self) -> Self {
        self.prefix.extend(inner.prefix);
        self.env.extend(inner.env);
        self
    }

    fn from_words<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Self {
        Self {
            prefix: words.into_iter().map(Into::into).collect(),
            env: Vec::new(),
        }
    }

    /// Runs `true` under the fault: a machine that cannot make it fails here and not in the test.
    fn tried(self, name: &str) -> Option<Self> {
        let mut command = self.command(Path::new("true"));
        command.stdin(Stdio::null());
        let outcome = match command.output() {
            Ok(output) if output.status.success() => Ok(self),
            Ok(output) => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                assert!(!stderr.starts_with("ONRECORD_SHIM"), "{stderr}");
                Err(format!("{name}: {}", stderr.trim()))
            }
            Err(error) => Err(format!("{name}: {error}")),
        };
        found(Need::Faults, outcome)
    }
}

/// Writes past `bytes` of any file fail with EFBIG, or end the program that left SIGXFSZ alone.
#[must_use]
pub fn fsize_limit(bytes: u64) -> Option<Fault> {
    Fault::from_words(["prlimit".to_owned(), format!("--fsize={bytes}")]).tried("prlimit --fsize")
}

/// No more than `n_files` descriptors. The three standard ones and those of loading count.
#[must_use]
pub fn open_files_limit(n_files: u64) -> Option<Fault> {
    let words = [
        "prlimit".to_owned(),
        format!("--nofile={n_files}:{n_files}"),
    ];
    Fault::from_words(words).tried("prlimit --nofile")
}

/// A folder that is read-only for the program. Its files stay where they are.
#[must_use]
pub fn read_only(folder: &Path) -> Option<Fault> {
    const SCRIPT: &str =
        r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@""#;
    disk::in_mount_namespace(SCRIPT, [folder.into()]).tried("read-only mount")
}

/// Failing, short or slow calls, by a library that is loaded before libc; see `shim/fault.c` for
/// the words of `rules`, such as `write:ENOSPC:after=3`. Calls that a program makes without libc
/// are not met.
///
/// # Panics
/// Where the rules are not understood: that is the test's fault, not the machine's.
#[must_use]
pub fn shim(rules: &str) -> Option<Fault> {
    let library = found(Need::Faults, shim::library())?;
    let mut fault = Fault::none();
    fault.env.push(("LD_PRELOAD".into(), library.into()));
    fault.env.push(("ONRECORD_SHIM".into(), rules.into()));
    fault.tried("LD_PRELOAD")
}

/// A file or folder that not even root may change, until this is dropped.
#[derive(Debug)]
pub struct Immutable {
    path: PathBuf,
}

impl Immutable {
    /// Makes `path` immutable, and says so where the file system or the user cannot.
    #[must_use]
    pub fn new(path: &Path) -> Option<Self> {
        found(Need::Faults, chattr("+i", path))?;
        Some(Self {
            path: path.to_owned(),
        })
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        // A path that is gone was not immutable any more; anything else must not be left behind.
        if fs::symlink_metadata(&self.path).is_ok() {
            chattr("-i", &self.path).expect("what was set can be taken back");
        }
    }
}

fn chattr(change: &str, path: &Path) -> Result<(), String> {
    let output = Command::new("chattr")
        .arg(change)
        .arg("--")
        .arg(path)
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("failed to start chattr: {error}")),
    }
}
