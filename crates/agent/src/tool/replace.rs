//! Gives a file new content in one step: what is at its path is the old content or the new, whole.
//!
//! The content is written beside the file, synced, and put in its place by a rename, so a full disk
//! costs nothing but the call. What the rename does not carry over: hard links part, and extended
//! attributes stay with the old file.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{Access, Gid, RenameFlags, Uid};
use tokio_util::sync::CancellationToken;

use super::{
    ToolError, blocking,
    file::{self, Stamp},
};

/// Bytes between two looks at the token.
const CHUNK_BYTES: usize = 1 << 20;

/// What is at the place before the change; anything else there stops it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Before {
    /// Nothing.
    Nothing,
    /// The file that was read.
    File(Stamp),
}

/// Puts `content` at `place`, a physical path. Folders above it are made where they are missing.
pub(super) fn replace(
    place: &Path,
    shown: &str,
    content: &[u8],
    before: Before,
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let folder = place.parent().unwrap_or(Path::new("/"));
    let mut made = MadeFolders::default();
    made.make(folder)
        .map_err(|error| unchanged(shown, &error))?;
    let mut temp = Temp::create(folder, before).map_err(|error| unchanged(shown, &error))?;
    fill(&mut temp, content, cancel, shown)?;
    take_over(&temp, place, shown, before)?;
    blocking::check(cancel)?;
    temp.move_to(place, before)
        .map_err(|error| unchanged(shown, &error))?;
    made.keep();
    sync_folder(folder);
    Ok(())
}

/// Refuses, before any work, a file that its owner made read-only.
pub(super) fn check_writable(place: &Path, shown: &str) -> Result<(), ToolError> {
    match rustix::fs::access(place, Access::WRITE_OK) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(errno) => Err(unchanged(shown, &errno.into())),
    }
}

fn unchanged(shown: &str, error: &io::Error) -> ToolError {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return changed_meanwhile(shown);
    }
    let is_full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    );
    let mend = if is_full {
        " A person has to make room first."
    } else {
        ""
    };
    ToolError::new(
        "io",
        format!("`{shown}` was not written and is as it was: {error}.{mend}"),
    )
}

fn changed_meanwhile(shown: &str) -> ToolError {
    ToolError::new(
        "changed_meanwhile",
        format!(
            "`{shown}` was changed by somebody else in the meantime and was not written. Read it \
             again and repeat the change."
        ),
    )
}

fn fill(
    temp: &mut Temp,
    content: &[u8],
    cancel: &CancellationToken,
    shown: &str,
) -> Result<(), ToolError> {
    for chunk in content.chunks(CHUNK_BYTES) {
        blocking::check(cancel)?;
        temp.file
            .write_all(chunk)
            .map_err(|error| unchanged(shown, &error))?;
    }
    temp.file
        .sync_all()
        .map_err(|error| unchanged(shown, &error))
}

/// Checks that the file is the one that was read, and gives its owner and mode to the new one.
fn take_over(temp: &Temp, place: &Path, shown: &str, before: Before) -> Result<(), ToolError> {
    let Before::File(stamp) = before else {
        return Ok(());
    };
    let found = fs::symlink_metadata(place).map_err(|_| changed_meanwhile(shown))?;
    if Stamp::of(&found) != stamp {
        return Err(changed_meanwhile(shown));
    }
    file::refuse_irregular(&found, shown)?;
    let own = temp
        .file
        .metadata()
        .map_err(|error| unchanged(shown, &error))?;
    if (own.uid(), own.gid()) != (found.uid(), found.gid()) {
        let (uid, gid) = (Uid::from_raw(found.uid()), Gid::from_raw(found.gid()));
        // Dropped: only root may give files away; for others the file becomes the writer's own.
        _ = rustix::fs::fchown(&temp.file, Some(uid), Some(gid));
    }
    // Set-id bits fall away, as they do with any other write.
    temp.file
        .set_permissions(Permissions::from_mode(found.mode() & 0o777))
        .map_err(|error| unchanged(shown, &error))
}

/// Makes the rename outlive a power cut.
fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        // Dropped: the new content is in place; some file systems cannot sync a folder.
        _ = folder.sync_all();
    }
}

/// A file beside the one to be replaced; it is gone unless it was moved.
#[derive(Debug)]
struct Temp {
    path: PathBuf,
    file: File,
    moved: bool,
}

impl Temp {
    #[expect(
        clippy::disallowed_methods,
        reason = "files of the workspace, not of the session"
    )]
    fn create(folder: &Path, before: Before) -> io::Result<Self> {
        // What replaces a file may be as secret as that file; its mode comes last.
        let mode = match before {
            Before::Nothing => 0o666,
            Before::File(_) => 0o600,
        };
        let path = folder.join(format!(".onrecord-{}.tmp", uuid::Uuid::new_v4().simple()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)?;
        Ok(Self {
            path,
            file,
            moved: false,
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "files of the workspace, not of the session"
    )]
    fn move_to(mut self, place: &Path, before: Before) -> io::Result<()> {
        match before {
            Before::File(_) => fs::rename(&self.path, place)?,
            Before::Nothing => rename_to_nothing(&self.path, place)?,
        }
        self.moved = true;
        Ok(())
    }
}

impl Drop for Temp {
    #[expect(
        clippy::disallowed_methods,
        reason = "files of the workspace, not of the session"
    )]
    fn drop(&mut self) {
        if !self.moved {
            // Dropped: the call already fails for a reason of its own.
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Renames only where nothing is at `place`.
#[expect(
    clippy::disallowed_methods,
    reason = "files of the workspace, not of the session"
)]
fn rename_to_nothing(from: &Path, place: &Path) -> io::Result<()> {
    let cwd = rustix::fs::CWD;
    match rustix::fs::renameat_with(cwd, from, cwd, place, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            // This file system cannot do both in one step.
            if fs::symlink_metadata(place).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, place)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Folders made on the way; those still empty are removed again unless the file came to be.
#[derive(Debug, Default)]
struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    fn make(&mut self, folder: &Path) -> io::Result<()> {
        let missing = folder.ancestors().take_while(|folder| !folder.exists());
        let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        for folder in missing.into_iter().rev() {
            match fs::create_dir(&folder) {
                Ok(()) => self.0.push(folder),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in self.0.drain(..).rev() {
            // Dropped: somebody else has put something there by now.
            _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "set-up in a folder of its own")]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_that_somebody_else_changed_is_left_alone() {
        let dir = tempfile::TempDir::new().unwrap();
        let place = dir.path().join("a.txt");
        fs::write(&place, "read by us").unwrap();
        let before = Before::File(Stamp::of(&fs::metadata(&place).unwrap()));
        let cancel = CancellationToken::new();
        let write = |before| replace(&place, "a.txt", b"ours", before, &cancel);
        fs::write(&place, "written by them").unwrap();
        assert_eq!(write(before).unwrap_err().kind, "changed_meanwhile");
        assert_eq!(
            write(Before::Nothing).unwrap_err().kind,
            "changed_meanwhile"
        );
        assert_eq!(fs::read_to_string(&place).unwrap(), "written by them");
        fs::remove_file(&place).unwrap();
        assert_eq!(write(before).unwrap_err().kind, "changed_meanwhile");
        assert_eq!(names(dir.path()), [""; 0], "nothing is left beside it");
        write(Before::Nothing).unwrap();
        assert_eq!(names(dir.path()), ["a.txt"]);
    }

    #[test]
    fn a_write_cancelled_in_the_middle_leaves_nothing() {
        let dir = tempfile::TempDir::new().unwrap();
        let cancel = CancellationToken::new();
        cancel.cancel();
        let place = dir.path().join("new/folder/a.txt");
        let error = replace(&place, "a.txt", b"ours", Before::Nothing, &cancel).unwrap_err();
        assert_eq!(error.kind, "cancelled");
        assert_eq!(names(dir.path()), [""; 0]);
    }
}
