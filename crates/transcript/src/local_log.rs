//! The local log of recording faults (B4): what the person at this machine may know and no client
//! may, and what was cut from torn transcripts (B3).
//!
//! It often lies on the very disk that failed, so it has other places to go. It is written after
//! everybody was told, and its own failure concerns nobody.

use std::{
    fs::{self, DirBuilder, DirEntry, File, OpenOptions, Permissions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, process::geteuid};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wire::{
    limits::{FRAGMENT_BYTES_MAX, FRAGMENTS_MAX, LOCAL_LOG_BYTES_MAX, LOCAL_LOG_TEXT_BYTES_MAX},
    recording::{FaultClass, RecordingState},
};

const FILE: &str = "recording.jsonl";
const FRAGMENTS: &str = "fragments";

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When, ISO-8601.
    pub time: String,
    /// The session of the record that failed.
    pub session_id: String,
    /// `degraded` or `never_started`.
    pub state: RecordingState,
    /// The cause.
    pub class: FaultClass,
    /// The system's own words.
    pub error: String,
    /// The system's number; absent where the fault is not the system's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub errno: Option<i32>,
    /// The transcript; absent where no data root is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<PathBuf>,
    /// The first record that is not known to be on disk in full; absent where every one is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_lost_uuid: Option<String>,
    /// The last record that is known to be on disk; absent where none is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_record_uuid: Option<String>,
}

/// The folders that may hold the log; the first that takes an entry gets it.
#[derive(Debug, Clone, Default)]
pub struct LocalLog {
    folders: Vec<PathBuf>,
}

impl LocalLog {
    /// A log in the first of these folders that can be written. They are made where they are missing,
    /// for the owner alone, and one that somebody else could have made or may write is not used.
    #[must_use]
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders }
    }

    /// Adds an entry; answers whether a folder took it.
    pub fn append(&self, entry: &Entry) -> bool {
        let mut entry = entry.clone();
        cut(&mut entry.error);
        let Ok(mut line) = serde_json::to_vec(&entry) else {
            return false;
        };
        line.push(b'\n');
        self.folders
            .iter()
            .any(|folder| append_line(folder, &line).is_ok())
    }

    /// Every entry of every folder, oldest first. What cannot be read, or is not ours, is not there.
    #[must_use]
    pub fn read_all(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self
            .folders
            .iter()
            .filter_map(|folder| read_log(folder).ok())
            .flat_map(|bytes| {
                let lines = bytes.split(|&byte| byte == b'\n');
                lines
                    .filter_map(|line| serde_json::from_slice(line).ok())
                    .collect::<Vec<_>>()
            })
            .collect();
        entries.sort_by(|a, b| a.time.cmp(&b.time));
        entries
    }

    /// Keeps the beginning of a fragment that is about to be cut from a session's transcript (B3);
    /// answers whether a folder took it.
    #[must_use]
    pub fn keep_fragment(&self, session_id: &str, fragment: &[u8]) -> bool {
        let kept = &fragment[..fragment.len().min(FRAGMENT_BYTES_MAX)];
        let name = fragment_name(session_id);
        self.folders
            .iter()
            .any(|folder| keep_in(folder, &name, kept).is_ok())
    }
}

/// Shortens a text of somebody else's, between characters.
fn cut(text: &mut String) {
    let mut end = LOCAL_LOG_TEXT_BYTES_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// A name of its own that begins with the session's id, as far as a name can.
fn fragment_name(session_id: &str) -> String {
    let mut name: String = session_id
        .chars()
        .take(64)
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c,
            _ => '_',
        })
        .collect();
    name.push('-');
    name.push_str(&Uuid::new_v4().simple().to_string()[..12]);
    name
}

fn append_line(folder: &Path, line: &[u8]) -> io::Result<()> {
    make_private(folder)?;
    let path = folder.join(FILE);
    let file = open_private(OpenOptions::new().append(true).create(true), &path)?;
    let size = file.metadata()?.len();
    if size + line.len() as u64 <= LOCAL_LOG_BYTES_MAX {
        return write_line(file, size, line);
    }
    keep_newest_half(&path)?;
    let file = open_private(OpenOptions::new().append(true), &path)?;
    let size = file.metadata()?.len();
    write_line(file, size, line)
}

/// One write; a part of a line is taken back, so that a full disk leaves nothing half said.
fn write_line(mut file: File, size: u64, line: &[u8]) -> io::Result<()> {
    let result = file.write(line);
    if matches!(result, Ok(n_bytes) if n_bytes == line.len()) {
        return Ok(());
    }
    // Dropped: what cannot be taken back is no entry, and readers pass over it.
    _ = file.set_len(size);
    Err(result.err().unwrap_or(ErrorKind::WriteZero.into()))
}

/// Makes room for as much as is kept.
fn keep_newest_half(path: &Path) -> io::Result<()> {
    let bytes = read_bounded(path)?;
    let half = bytes.len() / 2;
    let start = memchr::memchr(b'\n', &bytes[half..]).map_or(bytes.len(), |at| half + at + 1);
    let shorter = path.with_extension(format!("{}.new", Uuid::new_v4().simple()));
    let replaced = open_private(OpenOptions::new().write(true).create_new(true), &shorter)
        .and_then(|mut file| file.write_all(&bytes[start..]))
        .and_then(|()| fs::rename(&shorter, path));
    if replaced.is_err() {
        // Dropped: it is a copy, and where it cannot be removed it is in nobody's way.
        _ = fs::remove_file(&shorter);
    }
    replaced
}

fn read_log(folder: &Path) -> io::Result<Vec<u8>> {
    check_private(folder)?;
    read_bounded(&folder.join(FILE))
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_private(OpenOptions::new().read(true), path)?;
    let mut bytes = Vec::new();
    // Twice the limit: a log that other programs have let grow is still read.
    file.take(2 * LOCAL_LOG_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn keep_in(folder: &Path, name: &str, fragment: &[u8]) -> io::Result<()> {
    make_private(folder)?;
    let folder = folder.join(FRAGMENTS);
    make_private(&folder)?;
    make_room(&folder)?;
    let path = folder.join(name);
    let mut file = open_private(OpenOptions::new().write(true).create_new(true), &path)?;
    let kept = file.write_all(fragment);
    if kept.is_err() {
        // Dropped: a part of a fragment serves nobody, and the next folder is tried.
        _ = fs::remove_file(&path);
    }
    kept
}

/// Drops the oldest fragments where there are too many.
fn make_room(folder: &Path) -> io::Result<()> {
    let mut kept: Vec<DirEntry> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
    let Some(n_over) = (kept.len() + 1).checked_sub(FRAGMENTS_MAX) else {
        return Ok(());
    };
    kept.sort_by_key(|entry| {
        entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
    });
    kept.iter()
        .take(n_over)
        .try_for_each(|entry| fs::remove_file(entry.path()))
}

/// Opens a file for the owner alone, and nothing that is not a file of ours.
fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.uid() == geteuid().as_raw() {
        Ok(file)
    } else {
        Err(ErrorKind::PermissionDenied.into())
    }
}

fn make_private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    check_private(folder)
}

/// Refuses a folder that is not ours, or is somewhere else than it seems: in a shared temporary
/// folder another user may have made it first. One of ours that others may look into is closed.
fn check_private(folder: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(folder)?;
    let mode = metadata.permissions().mode();
    if !metadata.is_dir() || metadata.uid() != geteuid().as_raw() || mode & 0o022 != 0 {
        return Err(ErrorKind::PermissionDenied.into());
    }
    if mode & 0o077 != 0 {
        // Dropped: the files in it are for the owner alone all the same.
        _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    }
    Ok(())
}
