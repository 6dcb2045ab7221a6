//! Where a path of a call leads, physically, and whether a call may go there.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs, io,
    path::{Component, Path, PathBuf},
};

use super::{ToolError, Workspace, wording};

/// Symbolic links followed for one path, as the system itself bounds them.
const LINKS_MAX: u32 = 40;

impl Workspace {
    /// The physical place that a path of a call names. It may not exist.
    ///
    /// Symbolic links are followed step by step, also those that lead to nothing and those after a
    /// `..`, so a path cannot look as if it stayed inside.
    ///
    /// # Errors
    /// The place is outside the workspace, or the path is none.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, ToolError> {
        if path.is_empty() || path.contains('\0') {
            return Err(ToolError::new(
                "invalid_args",
                "A path is empty or holds a zero byte. Send one relative to the project root, or \
                 an absolute one.",
            ));
        }
        let shown = wording::shown(path.as_ref());
        let place = physical(&self.root.join(path))
            .map_err(|error| ToolError::io(&format!("`{shown}` cannot be followed"), &error))?;
        if self.holds(&place) {
            return Ok(place);
        }
        Err(ToolError::new(
            "outside_workspace",
            format!(
                "`{shown}` is outside the workspace {}. A person can allow a folder with \
                 --include-directories.",
                wording::shown(&self.root)
            ),
        ))
    }

    /// As [`Workspace::resolve`], for a call that changes what is there.
    ///
    /// # Errors
    /// As there, and where the place is in the data root.
    pub fn resolve_for_change(&self, path: &str) -> Result<PathBuf, ToolError> {
        let place = self.resolve(path)?;
        match &self.data_root {
            Some(data_root) if place.starts_with(physical_or_same(data_root)) => {
                Err(ToolError::new(
                    "outside_workspace",
                    format!(
                        "`{}` belongs to the record of sessions, which no tool changes.",
                        wording::shown(path.as_ref())
                    ),
                ))
            }
            Some(_) | None => Ok(place),
        }
    }

    /// A physical place as the model is told of it: relative to the root where it is below.
    pub(super) fn shown(&self, place: &Path) -> String {
        match place.strip_prefix(physical_or_same(&self.root)) {
            Ok(path) if path.as_os_str().is_empty() => ".".to_owned(),
            Ok(path) => wording::shown(path),
            Err(_) => wording::shown(place),
        }
    }

    fn holds(&self, place: &Path) -> bool {
        let folders = std::iter::once(&self.root).chain(&self.allowed);
        folders
            .into_iter()
            .any(|folder| place.starts_with(physical_or_same(folder)))
    }
}

fn physical_or_same(folder: &Path) -> PathBuf {
    physical(folder).unwrap_or_else(|_| folder.to_owned())
}

/// Walks an absolute path as the system would, and beyond its last existing step by the letter.
fn physical(path: &Path) -> io::Result<PathBuf> {
    let mut place = PathBuf::from("/");
    let mut steps: VecDeque<OsString> = VecDeque::new();
    queue(&mut steps, path);
    let mut n_links = 0;
    while let Some(step) = steps.pop_front() {
        if step == ".." {
            place.pop();
            continue;
        }
        let next = place.join(&step);
        match fs::symlink_metadata(&next) {
            Ok(found) if found.is_symlink() => {
                n_links += 1;
                if n_links > LINKS_MAX {
                    return Err(io::Error::other("too many symbolic links"));
                }
                let target = fs::read_link(&next)?;
                if target.is_absolute() {
                    place = PathBuf::from("/");
                }
                queue(&mut steps, &target);
            }
            Ok(_) => place = next,
            Err(error) if error.kind() == io::ErrorKind::NotFound => place = next,
            Err(error) => return Err(error),
        }
    }
    Ok(place)
}

/// Puts the steps of a path before those that wait.
fn queue(steps: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(step) => steps.push_front(step.to_owned()),
            Component::ParentDir => steps.push_front("..".into()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
}
