//! Running as a user for whom file modes matter: root walks through them.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, lchown},
    path::{Path, PathBuf},
};

use rustix::process::geteuid;
use tempfile::TempDir;

use super::Fault;

/// `nobody`, on every Linux.
const UID: u32 = 65_534;

/// A user without rights, and a copy of a program that this user may run.
///
/// Where the tests themselves run without root's rights, it is they who run it.
#[derive(Debug)]
pub struct OtherUser {
    fault: Fault,
    program: PathBuf,
    /// Holds the copy; `None` where none was needed.
    folder: Option<TempDir>,
}

impl OtherUser {
    /// Makes `program` ready for the other user, who may not see the folder it was built in.
    ///
    /// # Panics
    /// Where the program cannot be copied.
    #[must_use]
    pub fn new(program: &Path) -> Option<Self> {
        if !geteuid().is_root() {
            let program = program.to_owned();
            return Some(Self {
                fault: Fault::none(),
                program,
                folder: None,
            });
        }
        let words = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--",
        ];
        let fault = Fault::from_words(words).tried("setpriv")?;
        let folder = tempfile::Builder::new().prefix("onrecord-user-").tempdir();
        let folder = folder.expect("a temporary folder can be made");
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open).expect("the folder is ours");
        let copy = folder
            .path()
            .join(program.file_name().expect("a program has a name"));
        fs::copy(program, &copy).expect("the program can be copied");
        Some(Self {
            fault,
            program: copy,
            folder: Some(folder),
        })
    }

    /// The program that this user may run.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Starts a program as this user.
    pub fn fault(&self) -> Fault {
        self.fault.clone()
    }

    /// Gives a folder and all in it to this user.
    ///
    /// # Panics
    /// Where something in it cannot be given away.
    pub fn own(&self, path: &Path) {
        if self.folder.is_none() {
            return;
        }
        if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
            for entry in fs::read_dir(path).expect("the folder can be read") {
                self.own(&entry.expect("the folder can be read").path());
            }
        }
        lchown(path, Some(UID), Some(UID)).expect("root may give files away");
    }
}
