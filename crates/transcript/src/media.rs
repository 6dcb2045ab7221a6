//! Pictures of a conversation: each is kept once beside the transcript, and its records refer to it.
//!
//! The folder is `<sessionId>.media`, a file in it is named by the SHA-256 of what it holds. A file has
//! its name once it is whole, and what is read is what was kept, or an error.

use std::{
    fmt::Write as _,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wire::limits::{IMAGE_BYTES_MAX, MEDIA_BYTES_MAX};

use crate::lines;

/// What a record says of a picture that is kept beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Medium {
    /// SHA-256 of the bytes, in lower-case hexadecimal digits; the name of the file.
    pub sha256: String,
    /// Such as `image/png`.
    pub mime_type: String,
    /// How many bytes.
    pub bytes: u64,
}

/// The folder of one session's pictures, which need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaDir(PathBuf);

impl MediaDir {
    /// The folder that belongs to this transcript.
    #[must_use]
    pub fn of(transcript: &Path) -> Self {
        Self(transcript.with_extension("media"))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Keeps a picture, where it is not kept already. On failure nothing is left behind.
    ///
    /// # Errors
    /// It cannot be written, or the folder holds as much as it may.
    pub fn keep(&self, mime_type: &str, bytes: &[u8]) -> io::Result<Medium> {
        let medium = Medium {
            sha256: digest(bytes),
            mime_type: mime_type.to_owned(),
            bytes: bytes.len() as u64,
        };
        let path = self.0.join(&medium.sha256);
        if path
            .symlink_metadata()
            .is_ok_and(|found| found.is_file() && found.len() == medium.bytes)
        {
            return Ok(medium);
        }
        if bytes.len() > IMAGE_BYTES_MAX || self.n_bytes() + medium.bytes > MEDIA_BYTES_MAX {
            return Err(Errno::FBIG.into());
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)?;
        let temporary = self
            .0
            .join(format!(".{}.{}.tmp", medium.sha256, uuid::Uuid::new_v4()));
        let written = write(&temporary, bytes).and_then(|()| fs::rename(&temporary, &path));
        if let Err(error) = written {
            // Dropped: what is left is hidden and private, and goes with the session.
            _ = fs::remove_file(&temporary);
            // Dropped: a folder that holds something stays.
            _ = fs::remove_dir(&self.0);
            return Err(error);
        }
        Ok(medium)
    }

    /// A picture that was kept.
    ///
    /// # Errors
    /// It is not there, cannot be read, or is not what was kept.
    pub fn read(&self, medium: &Medium) -> io::Result<Vec<u8>> {
        let is_name =
            medium.sha256.len() == 64 && medium.sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_name || medium.bytes > IMAGE_BYTES_MAX as u64 {
            return Err(ErrorKind::InvalidData.into());
        }
        let file = lines::open(&self.0.join(&medium.sha256)).map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        file.take(medium.bytes + 1).read_to_end(&mut bytes)?;
        if digest(&bytes) == medium.sha256 {
            Ok(bytes)
        } else {
            Err(ErrorKind::InvalidData.into())
        }
    }

    /// Gives everything that is kept here to another session as well, by links where the file system
    /// knows them. On failure nothing is left behind.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn share_with(&self, other: &Self) -> io::Result<()> {
        let kept: Vec<_> = match fs::read_dir(&self.0) {
            Ok(entries) => entries.flatten().collect(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        DirBuilder::new().mode(0o700).create(&other.0)?;
        for entry in kept {
            let name = entry.file_name();
            if name.len() != 64 || !entry.file_type()?.is_file() {
                continue;
            }
            let target = other.0.join(&name);
            let shared = fs::hard_link(entry.path(), &target).or_else(|_| {
                let mut bytes = Vec::new();
                File::open(entry.path())?.read_to_end(&mut bytes)?;
                write(&target, &bytes)
            });
            if let Err(error) = shared {
                other.remove();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes the folder away that [`MediaDir::share_with`] has made.
    pub(crate) fn remove(&self) {
        // Dropped: what is left is private, and goes with whoever deletes that session.
        _ = fs::remove_dir_all(&self.0);
    }

    fn n_bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.metadata().ok())
            .map(|metadata| metadata.len())
            .sum()
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)
}

fn digest(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        write!(digits, "{byte:02x}").expect("memory takes every byte");
    }
    digits
}
