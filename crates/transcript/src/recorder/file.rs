//! The open transcript: the one at its path (B2), written in whole lines, and cut back to them when a
//! write fails (B3).
//!
//! It knows bytes and line ends. Who is told of a failure is decided elsewhere.

use std::{
    io::{self, ErrorKind},
    path::PathBuf,
    sync::Arc,
};

use wire::{limits::RECORDER_INTERRUPTIONS_MAX, recording::FaultClass};

use super::{failure::Cause, repair};
use crate::{
    disk::{Disk, DiskFile, Stat},
    local_log::LocalLog,
    lock::Lock,
};

/// Why a file could not be made ready.
#[derive(Debug)]
pub(super) enum OpenError {
    /// It could not be created, and there is nothing of ours on disk (R4).
    NotCreated(Cause),
    /// It is there, or was, and cannot be written.
    Failed(Cause),
}

/// How far an append came.
#[derive(Debug)]
pub(super) struct Appended {
    /// Bytes of whole lines that are on disk.
    pub(super) n_bytes: usize,
    /// Why it is not all; `None` where it is, or where the writer was told to stop.
    pub(super) cause: Option<Cause>,
}

/// The open transcript.
#[derive(Debug)]
pub(super) struct TranscriptFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    dev: u64,
    ino: u64,
    /// Where the last good record ends, ours or another writer's.
    end: u64,
    /// Whether what is there lacks its line end, which must come before our next line.
    is_unended: bool,
}

impl TranscriptFile {
    /// Makes a new transcript. One that is there already is somebody else's.
    pub(super) fn create(
        disk: Arc<dyn Disk>,
        path: PathBuf,
    ) -> Result<(Self, Option<Lock>), OpenError> {
        let not_created = |error: io::Error| OpenError::NotCreated(Cause::of_creation(&error));
        let file = match (disk.create(&path), path.parent()) {
            (Err(error), Some(folder)) if error.kind() == ErrorKind::NotFound => {
                disk.create_dir_all(folder).map_err(not_created)?;
                disk.create(&path).map_err(not_created)?
            }
            (result, _) => result.map_err(not_created)?,
        };
        let stat = file
            .stat()
            .map_err(|error| OpenError::Failed(Cause::of(&error)))?;
        let lock = disk.lock(&path);
        Ok((Self::new(disk, path, file, stat), lock))
    }

    /// Opens the transcript of a session that goes on, and mends its end (B3).
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        session_id: &str,
        log: &LocalLog,
    ) -> Result<Self, Cause> {
        let of = |error: io::Error| Cause::of(&error);
        let file = disk.open(&path).map_err(of)?;
        let stat = file.stat().map_err(of)?;
        if !stat.is_file {
            return Err(gone("no regular file is at its path"));
        }
        let mut transcript = Self::new(disk, path, file, stat);
        // Before anything is cut, it must be the right file.
        transcript.check()?;
        let end =
            repair::mend(&mut *transcript.file, transcript.end, session_id, log).map_err(of)?;
        transcript.end = end.size;
        transcript.is_unended = end.is_unended;
        Ok(transcript)
    }

    fn new(disk: Arc<dyn Disk>, path: PathBuf, file: Box<dyn DiskFile>, stat: Stat) -> Self {
        Self {
            disk,
            path,
            file,
            dev: stat.dev,
            ino: stat.ino,
            end: stat.size,
            is_unended: false,
        }
    }

    /// Whether the file is the one at its path and holds what we know of (B2). What another writer
    /// has appended is no failure, and is not touched (R5).
    pub(super) fn check(&mut self) -> Result<(), Cause> {
        let at_path = self
            .disk
            .stat(&self.path)
            .map_err(|error| Cause::of(&error))?;
        if !self.is_same(&at_path) {
            return Err(gone("another file is at its path"));
        }
        let open = self.file.stat().map_err(|error| Cause::of(&error))?;
        if open.n_links == 0 {
            return Err(gone("the file was unlinked"));
        }
        if open.size < self.end {
            return Err(gone("the file was cut"));
        }
        if open.size > self.end {
            self.end = open.size;
            // Where it cannot be read, an empty line does no harm.
            self.is_unended = last_byte(&*self.file, open.size).map_or(true, |byte| byte != b'\n');
        }
        Ok(())
    }

    /// Appends whole lines. Where that fails, what is left of a torn one is cut back, or ended where
    /// it cannot be cut. `is_stopped` is asked before every write, after which none follows.
    pub(super) fn append(&mut self, lines: &[u8], is_stopped: &dyn Fn() -> bool) -> Appended {
        let ended;
        let (bytes, n_before) = if self.is_unended {
            ended = [b"\n", lines].concat();
            (&ended[..], 1)
        } else {
            (lines, 0)
        };
        let (n_written, cause) = self.write(bytes, is_stopped);
        if n_written == bytes.len() {
            self.end += n_written as u64;
            self.is_unended = false;
            return Appended {
                n_bytes: lines.len(),
                cause: None,
            };
        }
        let n_whole = memchr::memrchr(b'\n', &bytes[..n_written]).map_or(0, |at| at + 1);
        if n_whole < n_written {
            self.take_back(n_whole as u64, n_written as u64, is_stopped);
        }
        Appended {
            n_bytes: n_whole.saturating_sub(n_before),
            cause,
        }
    }

    /// Writes until everything is out or something goes wrong; answers how much is out.
    fn write(&mut self, bytes: &[u8], is_stopped: &dyn Fn() -> bool) -> (usize, Option<Cause>) {
        let mut n_written = 0;
        let mut n_interruptions = 0;
        while n_written < bytes.len() {
            if is_stopped() {
                return (n_written, None);
            }
            match self.file.write(&bytes[n_written..]) {
                Ok(0) => {
                    let error = ErrorKind::WriteZero.into();
                    return (n_written, Some(Cause::of(&error)));
                }
                Ok(n_bytes) => n_written += n_bytes,
                Err(error)
                    if error.kind() == ErrorKind::Interrupted
                        && n_interruptions < RECORDER_INTERRUPTIONS_MAX =>
                {
                    n_interruptions += 1;
                }
                Err(error) => return (n_written, Some(Cause::of(&error))),
            }
        }
        (n_written, None)
    }

    /// Leaves, of the `n_written` bytes of a broken write, the first `n_whole`. Only where they are
    /// the last ones of the file: what another writer put behind them is not ours to cut.
    fn take_back(&mut self, n_whole: u64, n_written: u64, is_stopped: &dyn Fn() -> bool) {
        let size = self.file.stat().map(|stat| stat.size).ok();
        let is_ours_alone = size == Some(self.end + n_written);
        if is_ours_alone && self.file.truncate(self.end + n_whole).is_ok() {
            self.end += n_whole;
            return;
        }
        if is_stopped() {
            return;
        }
        let is_torn = match size {
            Some(size) if !is_ours_alone => {
                last_byte(&*self.file, size).is_ok_and(|byte| byte != b'\n')
            }
            Some(_) | None => true,
        };
        let is_in_place = self
            .disk
            .stat(&self.path)
            .is_ok_and(|at_path| self.is_same(&at_path));
        if is_torn && is_in_place {
            // Dropped: where not even a line end can be written, readers find whole records behind
            // a fragment too, and the failure itself is told in any case.
            _ = self.file.write(b"\n");
        }
    }

    fn is_same(&self, at_path: &Stat) -> bool {
        at_path.is_file && (at_path.dev, at_path.ino) == (self.dev, self.ino)
    }
}

fn gone(what: &str) -> Cause {
    Cause::new(FaultClass::Gone, what)
}

/// The last byte of a file of this size; a line end where it is empty.
fn last_byte(file: &dyn DiskFile, size: u64) -> io::Result<u8> {
    let mut byte = [b'\n'];
    if let Some(at) = size.checked_sub(1) {
        repair::read_exact_at(file, &mut byte, at)?;
    }
    Ok(byte[0])
}
