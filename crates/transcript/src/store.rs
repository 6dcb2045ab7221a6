//! Stored sessions as whole files: listed, found, taken up, forked and deleted.
//!
//! It reads, links and unlinks, under the advisory lock where that matters, and never writes a record
//! into a session that exists.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize;

pub use crate::{
    archive::{MoveError, Moved, archive, unarchive, whereabouts},
    fork::{Fork, ForkError, Forked, fork},
    listing::{Listing, Row, SkipReason, Skipped, list, list_all, list_archived, projects},
};
use crate::{
    layout::{DataRoot, ProjectDir},
    listing::{belongs, candidates, newest_first, row, session_of, skipped},
    lock,
    media::MediaDir,
};

/// A stored session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// As its file is named.
    pub session_id: String,
    /// The transcript. Stays on this machine (R28).
    pub path: PathBuf,
}

/// Why no session was found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// None has such an id.
    #[error("no session with the id {query:?} (`onrecord sessions list` shows this project's)")]
    NotFound {
        /// What was looked for.
        query: String,
    },
    /// Several have.
    #[error(
        "{} sessions begin with {query:?}: {}; give more of the id",
        found.len(),
        ids(found)
    )]
    Ambiguous {
        /// What was looked for.
        query: String,
        /// Those sessions, in the order of their ids.
        found: Vec<Found>,
    },
}

/// Ids that an error names, the first few of many.
fn ids(found: &[Found]) -> String {
    const NAMED_MAX: usize = 5;
    let mut named: Vec<_> = found
        .iter()
        .take(NAMED_MAX)
        .map(|found| found.session_id.as_str())
        .collect();
    if found.len() > NAMED_MAX {
        named.push("…");
    }
    named.join(", ")
}

/// The session with this id, or the only one whose id begins so, of every project. Letter case does
/// not matter. A whole id wins over ids that are longer.
///
/// # Errors
///
/// Where there is none, or more than one.
pub fn find(root: &DataRoot, query: &str) -> Result<Found, FindError> {
    let wanted = query.to_ascii_lowercase();
    let mut found: Vec<Found> = projects(root)
        .iter()
        .flat_map(|project| sessions(&project.chats_dir()))
        .filter(|found| {
            !wanted.is_empty() && found.session_id.to_ascii_lowercase().starts_with(&wanted)
        })
        .collect();
    if found.iter().any(|found| is_named(found, &wanted)) {
        found.retain(|found| is_named(found, &wanted));
    }
    found.sort_by(|a, b| (&a.session_id, &a.path).cmp(&(&b.session_id, &b.path)));
    let query = query.to_owned();
    if found.len() > 1 {
        return Err(FindError::Ambiguous { query, found });
    }
    found.pop().ok_or(FindError::NotFound { query })
}

fn is_named(found: &Found, id: &str) -> bool {
    found.session_id.eq_ignore_ascii_case(id)
}

/// Every stored session of a data root, archived ones too, in the order of their paths.
#[must_use]
pub fn all(root: &DataRoot) -> Vec<Found> {
    let mut found: Vec<_> = projects(root)
        .iter()
        .flat_map(|project| [project.chats_dir(), project.archive_dir()])
        .flat_map(|dir| sessions(&dir))
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The sessions of a folder, by their names alone: whether a file can be read is found out by whoever
/// reads it.
#[must_use]
pub fn sessions(dir: &Path) -> Vec<Found> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name();
            Some(Found {
                session_id: session_of(name.to_str()?)?.to_owned(),
                path: entry.path(),
            })
        })
        .collect()
}

/// Whether a project has a session with this id, active or archived, in whatever letter case.
#[must_use]
pub fn exists(project: &ProjectDir, session_id: &str) -> bool {
    // A file by that very name is in the way even where it is not named as sessions are.
    let name = format!("{session_id}.jsonl");
    [project.chats_dir(), project.archive_dir()]
        .iter()
        .any(|dir| {
            dir.join(&name).symlink_metadata().is_ok()
                || sessions(dir)
                    .iter()
                    .any(|found| is_named(found, session_id))
        })
}

/// The session that `--continue` takes up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Newest {
    /// The newest one that can be read; `None` where there is none.
    pub found: Option<Found>,
    /// Newer ones that cannot.
    pub skipped: Vec<Skipped>,
}

/// The newest readable session of a project.
#[must_use]
pub fn newest(project: &ProjectDir, cwd: &str) -> Newest {
    let mut files = candidates(&project.chats_dir());
    newest_first(&mut files);
    let mut newest = Newest::default();
    for file in &files {
        match row(file) {
            Ok(row) if belongs(row.cwd.as_deref(), cwd) => {
                newest.found = Some(Found {
                    session_id: row.session_id,
                    path: row.file_path,
                });
                break;
            }
            Ok(_) => {}
            Err(reason) => newest.skipped.push(skipped(file, reason)),
        }
    }
    newest
}

/// What a deletion took away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// Files and folders, the transcript last. They stay on this machine (R28).
    pub paths: Vec<PathBuf>,
}

/// Why a session was not deleted, or not in full.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// It is in use.
    #[error("the session {session_id} is open elsewhere; end it there first")]
    OpenElsewhere {
        /// Its id.
        session_id: String,
    },
    /// The system refused. The transcript is still there, so that the session can be seen and
    /// deleted again.
    #[error("failed to delete a file of the session {session_id}")]
    Io {
        /// Its id.
        session_id: String,
        /// The file.
        path: PathBuf,
        /// What was deleted before.
        removed: Removed,
        /// The system's word.
        #[source]
        source: io::Error,
    },
}

/// Deletes a session: its transcript, and everything that is kept under its id.
///
/// # Errors
///
/// Where somebody has it open, or a file cannot be deleted.
pub fn delete(root: &DataRoot, session: &Found) -> Result<Removed, DeleteError> {
    let session_id = &session.session_id;
    let lock = lock::acquire(&session.path).map_err(|_| DeleteError::OpenElsewhere {
        session_id: session_id.clone(),
    })?;
    let mut removed = Removed::default();
    for path in belongings(root, session)
        .into_iter()
        .chain([session.path.clone()])
    {
        match remove(&path) {
            Ok(()) => removed.paths.push(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(DeleteError::Io {
                    session_id: session_id.clone(),
                    path,
                    removed,
                    source,
                });
            }
        }
    }
    drop(lock);
    Ok(removed)
}

/// Everything of a session but its transcript.
fn belongings(root: &DataRoot, session: &Found) -> Vec<PathBuf> {
    let Some(dir) = session.path.parent() else {
        return Vec::new();
    };
    let mut paths = beginning_with(dir, &format!("{}.", session.session_id));
    paths.retain(|path| *path != session.path);
    // An archived transcript lies one folder deeper.
    let project = dir
        .ancestors()
        .find(|dir| dir.ends_with("chats"))
        .and_then(Path::parent);
    if let Some(project) = project {
        // Programs that archive a transcript may leave its pictures where they were.
        let active = ProjectDir::new(project).transcript(&session.session_id);
        if active != session.path {
            paths.push(MediaDir::of(&active).path().to_owned());
        }
        paths.push(ProjectDir::new(project).subagents_dir(&session.session_id));
    }
    paths.push(root.file_history_dir(&session.session_id));
    // What was cut from a torn tail is a part of the session as well.
    let fragments = root.log_dir().join("fragments");
    paths.extend(beginning_with(
        &fragments,
        &format!("{}-", session.session_id),
    ));
    paths
}

fn beginning_with(dir: &Path, beginning: &str) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(beginning))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

/// A link is removed itself, never what it leads to.
fn remove(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}
