//! The local log of recording failures (B4): what the person at this machine may know and no client
//! may. It is written after everybody was told, and its own failure concerns nobody.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use wire::{
    limits::{FRAGMENT_BYTES_MAX, LOCAL_LOG_BYTES_MAX},
    recording::{FaultClass, RecordingState},
};

const FILE: &str = "recording.jsonl";

/// Fragments that are kept; the oldest make room.
const FRAGMENTS_MAX: usize = 64;

/// One failure.
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
    /// The first record that is not on disk in full; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_lost_uuid: Option<String>,
    /// The last record that is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_record_uuid: Option<String>,
}

/// The folders that may hold the log; the first that takes an entry does.
#[derive(Debug, Clone, Default)]
pub struct LocalLog {
    folders: Vec<PathBuf>,
}

impl LocalLog {
    /// A log in the first of these folders that can be written. They belong to one user: a folder
    /// that another user could have made is not used.
    #[must_use]
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders }
    }

    /// Adds an entry; answers whether a folder took it.
    pub fn append(&self, entry: &Entry) -> bool {
        let Ok(mut line) = serde_json::to_vec(entry) else {
            return false;
        };
        line.push(b'\n');
        self.folders
            .iter()
            .any(|folder| append_line(folder, &line).is_ok())
    }

    /// Every entry of every folder, oldest first. What cannot be read is not there.
    #[must_use]
    pub fn read_all(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self
            .folders
            .iter()
            .filter_map(|folder| fs::read(folder.join(FILE)).ok())
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

    /// Keeps the beginning of a torn fragment that is cut from a transcript (B3); answers whether a
    /// folder took it.
    pub fn keep_fragment(&self, name: &str, fragment: &[u8]) -> bool {
        let kept = &fragment[..fragment.len().min(FRAGMENT_BYTES_MAX)];
        self.folders
            .iter()
            .any(|folder| keep_in(&folder.join("fragments"), name, kept).is_ok())
    }
}

fn append_line(folder: &Path, line: &[u8]) -> io::Result<()> {
    private(folder)?;
    let path = folder.join(FILE);
    let size = fs::symlink_metadata(&path).map_or(0, |metadata| metadata.len());
    if size + line.len() as u64 > LOCAL_LOG_BYTES_MAX {
        keep_newest_half(&path)?;
    }
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path)?;
    file.write_all(line)
}

/// Makes room for as much as is kept.
fn keep_newest_half(path: &Path) -> io::Result<()> {
    let bytes = fs::read(path)?;
    let half = bytes.len() / 2;
    let start = memchr::memchr(b'\n', &bytes[half..]).map_or(bytes.len(), |at| half + at + 1);
    let shorter = path.with_extension("jsonl.new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&shorter)?;
    file.write_all(&bytes[start..])?;
    fs::rename(shorter, path)
}

fn keep_in(folder: &Path, name: &str, fragment: &[u8]) -> io::Result<()> {
    private(folder)?;
    let mut kept: Vec<_> = fs::read_dir(folder)?.filter_map(Result::ok).collect();
    if kept.len() >= FRAGMENTS_MAX {
        kept.sort_by_key(|entry| {
            entry
                .metadata()
                .and_then(|metadata| metadata.modified())
                .ok()
        });
        fs::remove_file(kept[0].path())?;
    }
    let path = folder.join(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(fragment)
}

/// Makes the folder where it is missing, and refuses one that is not ours alone: in a shared
/// temporary folder another user may have made it first.
fn private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let metadata = fs::symlink_metadata(folder)?;
    let is_ours = metadata.is_dir()
        && metadata.uid() == geteuid().as_raw()
        && metadata.permissions().mode() & 0o022 == 0;
    if is_ours {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}
