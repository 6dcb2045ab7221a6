//! The branch that a record names, read from `.git` without starting `git`.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The branch checked out at `cwd`, `HEAD` where none is, `None` outside a repository and before
/// its first commit.
#[must_use]
pub(crate) fn branch(cwd: &Path) -> Option<String> {
    let git = cwd
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find(|git| git.exists())?;
    let git = if git.is_file() { linked(&git)? } else { git };
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let Some(reference) = head.trim().strip_prefix("ref: ") else {
        return Some("HEAD".to_owned());
    };
    let common = fs::read_to_string(git.join("commondir"))
        .map_or_else(|_| git.clone(), |common| git.join(common.trim()));
    let committed = common.join(reference).exists()
        || fs::read_to_string(common.join("packed-refs"))
            .is_ok_and(|packed| packed.lines().any(|line| line.ends_with(reference)));
    committed.then(|| {
        reference
            .strip_prefix("refs/heads/")
            .unwrap_or(reference)
            .to_owned()
    })
}

/// The folder that a `.git` file of a worktree or submodule points at.
fn linked(file: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(file).ok()?;
    let target = text.trim().strip_prefix("gitdir: ")?;
    Some(file.parent()?.join(target))
}
