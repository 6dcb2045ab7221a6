//! Moving a session into the archive and back: its transcript, and what is named like it beside it.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use crate::{
    layout::ProjectDir,
    lock,
    store::{Found, sessions},
};

/// What became of a session that was to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It lies there now.
    Done,
    /// It lay there before.
    Already,
}

/// Why a session was not moved. It is where it was.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// There is none.
    #[error("no session with this id")]
    NotFound,
    /// It is in use.
    #[error("the session is open elsewhere; end it there first")]
    OpenElsewhere,
    /// There are two of this id, one on either side.
    #[error("the session is there twice, active and archived; delete one of them")]
    Conflict,
    /// The system refused.
    #[error("the files of the session could not be moved ({})", .0.kind())]
    Io(#[source] io::Error),
}

/// Moves a session into the archive of its project.
///
/// # Errors
/// It is not there, is open, is there twice, or cannot be moved.
pub fn archive(project: &ProjectDir, session_id: &str) -> Result<Moved, MoveError> {
    shift(&project.chats_dir(), &project.archive_dir(), session_id)
}

/// Moves a session out of the archive.
///
/// # Errors
/// As [`archive`].
pub fn unarchive(project: &ProjectDir, session_id: &str) -> Result<Moved, MoveError> {
    shift(&project.archive_dir(), &project.chats_dir(), session_id)
}

/// The active and the archived transcript of a session, by its whole id.
#[must_use]
pub fn whereabouts(project: &ProjectDir, session_id: &str) -> (Option<Found>, Option<Found>) {
    (
        named(&project.chats_dir(), session_id),
        named(&project.archive_dir(), session_id),
    )
}

fn named(dir: &Path, session_id: &str) -> Option<Found> {
    sessions(dir)
        .into_iter()
        .find(|found| found.session_id == session_id)
}

fn shift(from: &Path, to: &Path, session_id: &str) -> Result<Moved, MoveError> {
    let found = match (named(from, session_id), named(to, session_id)) {
        (None, None) => return Err(MoveError::NotFound),
        (None, Some(_)) => return Ok(Moved::Already),
        (Some(_), Some(_)) => return Err(MoveError::Conflict),
        (Some(found), None) => found,
    };
    let lock = lock::acquire(&found.path).map_err(|_held| MoveError::OpenElsewhere)?;
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(to).map_err(MoveError::Io)?;
    let mut moved = Vec::new();
    // The transcript last: until then the session is where it was.
    for path in beside(from, session_id)
        .into_iter()
        .filter(|path| *path != found.path)
        .chain([found.path.clone()])
    {
        let Some(name) = path.file_name() else {
            continue;
        };
        let target = to.join(name);
        match fs::rename(&path, &target) {
            Ok(()) => moved.push((path, target)),
            Err(error) => {
                for (path, target) in moved {
                    // Dropped: what cannot go back is found under the session's name all the same.
                    _ = fs::rename(target, path);
                }
                return Err(MoveError::Io(error));
            }
        }
    }
    drop(lock);
    Ok(Moved::Done)
}

/// Everything in a folder that is named like the session.
fn beside(dir: &Path, session_id: &str) -> Vec<PathBuf> {
    let beginning = format!("{session_id}.");
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&beginning))
        .map(|entry| entry.path())
        .collect()
}
