//! Opens files of the workspace for reading: regular ones only, bounded, without ever waiting for a
//! writer at the other end.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

use rustix::fs::{Mode, OFlags};
use wire::limits::TOOL_FILE_BYTES_MAX;

use super::ToolError;

/// Bytes at the beginning of a file in which a zero byte makes it binary.
const BINARY_PROBE_BYTES: usize = 8 << 10;

/// What tells whether a file is still the one that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    n_bytes: u64,
    changed_at: (i64, i64),
}

impl Stamp {
    pub(super) fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            n_bytes: found.len(),
            changed_at: (found.mtime(), found.mtime_nsec()),
        }
    }
}

/// A file that was read as a whole.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) bytes: Vec<u8>,
    pub(super) stamp: Stamp,
}

/// Opens a regular file; `shown` is its name for the model.
pub(super) fn open(place: &Path, shown: &str) -> Result<(File, Metadata), ToolError> {
    let unreadable = |error: io::Error| ToolError::io(&format!("`{shown}` cannot be read"), &error);
    // Opening a device can already act on it, so it is looked at first.
    let found = fs::symlink_metadata(place).map_err(unreadable)?;
    refuse_irregular(&found, shown)?;
    let flags =
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let file = rustix::fs::open(place, flags, Mode::empty())
        .map(File::from)
        .map_err(|errno| unreadable(errno.into()))?;
    let found = file.metadata().map_err(unreadable)?;
    refuse_irregular(&found, shown)?;
    Ok((file, found))
}

/// Reads a regular file as a whole, up to the limit of the tools.
pub(crate) fn load(place: &Path, shown: &str) -> Result<Loaded, ToolError> {
    let (file, found) = open(place, shown)?;
    let mut bytes = Vec::new();
    // The size is only a guess: a file may grow, and some of the system's own say 0.
    file.take(TOOL_FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| ToolError::io(&format!("`{shown}` cannot be read"), &error))?;
    if bytes.len() as u64 > TOOL_FILE_BYTES_MAX {
        return Err(ToolError::new(
            "too_large",
            format!(
                "`{shown}` has {} bytes; files up to {TOOL_FILE_BYTES_MAX} are read. Use \
                 run_shell_command to look at a part of it, for example with `tail` or `grep`.",
                found.len().max(bytes.len() as u64)
            ),
        ));
    }
    Ok(Loaded {
        bytes,
        stamp: Stamp::of(&found),
    })
}

/// As [`load`]; `None` where nothing is at that place.
pub(super) fn load_if_any(place: &Path, shown: &str) -> Result<Option<Loaded>, ToolError> {
    match load(place, shown) {
        Ok(loaded) => Ok(Some(loaded)),
        Err(error) if error.kind == "not_found" => Ok(None),
        Err(error) => Err(error),
    }
}

/// As [`load_if_any`], with the text that an editor has in place of the file's. A file that only an
/// editor has is none yet.
pub(super) fn load_edited(
    place: &Path,
    shown: &str,
    edited: Option<Vec<u8>>,
) -> Result<Option<Loaded>, ToolError> {
    let loaded = load_if_any(place, shown)?;
    Ok(match (loaded, edited) {
        (Some(loaded), Some(bytes)) => Some(Loaded { bytes, ..loaded }),
        (loaded, _) => loaded,
    })
}

/// Whether bytes are not text.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    memchr::memchr(0, &bytes[..bytes.len().min(BINARY_PROBE_BYTES)]).is_some()
}

/// Refuses everything but a regular file, by name of what it is.
pub(super) fn refuse_irregular(found: &Metadata, shown: &str) -> Result<(), ToolError> {
    let kind = found.file_type();
    let (what, mend) = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        ("a folder", " Use list_directory to see what is in it.")
    } else if kind.is_fifo() {
        ("a pipe", "")
    } else if kind.is_socket() {
        ("a socket", "")
    } else if kind.is_symlink() {
        ("a symbolic link that was just changed", "")
    } else {
        ("a device", "")
    };
    Err(ToolError::new(
        "not_regular",
        format!("`{shown}` is {what}, not a regular file.{mend}"),
    ))
}
