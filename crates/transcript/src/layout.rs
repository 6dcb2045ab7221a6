//! Where the files of sessions are, below the data root.
//!
//! It names paths and touches none of them. The layout is Qwen Code's, so that a data root can be
//! shared with it.

use std::path::{Path, PathBuf};

/// The folder that holds everything this program keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataRoot(PathBuf);

impl DataRoot {
    /// A data root at this path, which need not exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder of all projects.
    #[must_use]
    pub fn projects_dir(&self) -> PathBuf {
        self.0.join("projects")
    }

    /// The folder of the project with this root. Two projects may share it: see [`project_id`].
    #[must_use]
    pub fn project(&self, cwd: &Path) -> ProjectDir {
        ProjectDir(self.projects_dir().join(project_id(&cwd.to_string_lossy())))
    }

    /// The folder of the local log.
    #[must_use]
    pub fn log_dir(&self) -> PathBuf {
        self.0.join("log")
    }

    /// Copies of files that were edited in a session.
    #[must_use]
    pub fn file_history_dir(&self, session_id: &str) -> PathBuf {
        self.0.join("file-history").join(session_id)
    }
}

/// A project's folder below the data root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProjectDir(PathBuf);

impl ProjectDir {
    /// The folder at this path.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Active transcripts and what belongs to them.
    #[must_use]
    pub fn chats_dir(&self) -> PathBuf {
        self.0.join("chats")
    }

    /// Archived transcripts.
    #[must_use]
    pub fn archive_dir(&self) -> PathBuf {
        self.0.join("chats").join("archive")
    }

    /// An active transcript.
    #[must_use]
    pub fn transcript(&self, session_id: &str) -> PathBuf {
        self.chats_dir().join(format!("{session_id}.jsonl"))
    }

    /// The transcripts of a session's subagents.
    #[must_use]
    pub fn subagents_dir(&self, session_id: &str) -> PathBuf {
        let name: String = session_id
            .chars()
            .map(|c| match c {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c,
                _ => '_',
            })
            .collect();
        self.0.join("subagents").join(name)
    }
}

/// A project's folder name: one `-` for every UTF-16 unit of its root that is no ASCII letter or
/// digit. Not free of collisions, which is why a session's first record says whose it is.
#[must_use]
pub fn project_id(cwd: &str) -> String {
    cwd.chars()
        .flat_map(|c| {
            let n = if c.is_ascii_alphanumeric() {
                0
            } else {
                c.len_utf16()
            };
            let kept = (n == 0).then_some(c);
            kept.into_iter().chain(std::iter::repeat_n('-', n))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_id_has_one_dash_for_each_utf_16_unit() {
        assert_eq!(project_id("/home/user/p-1"), "-home-user-p-1");
        assert_eq!(project_id("/tmp/проект"), "-tmp-------");
        assert_eq!(project_id("/😀"), "---");
    }
}
