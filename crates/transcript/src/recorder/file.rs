//! The transcript on disk: created lazily, mended at open (B3), known to be the one at its path (B2),
//! and cut back to whole records when a write fails.

use std::{io, path::PathBuf, sync::Arc};

use serde::de::IgnoredAny;
use wire::{limits::TRANSCRIPT_LINE_BYTES_MAX, recording::FaultClass};

use super::failure::Cause;
use crate::{
    disk::{Disk, DiskFile, Stat},
    lock::Lock,
};

/// Bytes of one step back through the last line.
const STEP_BYTES: usize = 64 << 10;

/// Why the transcript cannot be written.
#[derive(Debug)]
pub(super) enum OpenError {
    /// It could not be created: no failure yet (R4).
    NotCreated(Cause),
    /// It is there, or was, and cannot be written: a failed write.
    Failed(Cause),
}

/// A batch that did not get on disk in full.
#[derive(Debug)]
pub(super) struct WriteError {
    pub(super) cause: Cause,
    /// Bytes of the batch that did.
    pub(super) n_written: usize,
}

/// A session's file, open or not yet.
#[derive(Debug)]
pub(super) struct Transcript {
    disk: Arc<dyn Disk>,
    path: Option<PathBuf>,
    is_new: bool,
    lock: Option<Lock>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: Box<dyn DiskFile>,
    dev: u64,
    ino: u64,
    /// Where our last good record ends, or what another writer put behind it.
    end: u64,
}

impl Transcript {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        path: Option<PathBuf>,
        is_new: bool,
        lock: Option<Lock>,
    ) -> Self {
        Self {
            disk,
            path,
            is_new,
            lock,
            open: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Makes the file ready for the first record. A torn fragment at its end is cut and given to
    /// `keep`.
    pub(super) fn open(&mut self, keep: impl FnOnce(&[u8])) -> Result<(), OpenError> {
        let Some(path) = self.path.clone() else {
            let cause = Cause::new(FaultClass::Other, "no data root is known");
            return Err(OpenError::NotCreated(cause));
        };
        let failed = |error: io::Error| OpenError::Failed(Cause::of(&error));
        if self.is_new {
            let not_created = |error: io::Error| OpenError::NotCreated(Cause::of(&error));
            if let Some(folder) = path.parent() {
                self.disk.create_dir_all(folder).map_err(not_created)?;
            }
            let file = self.disk.create(&path).map_err(not_created)?;
            let stat = file.stat().map_err(failed)?;
            self.open = Some(Open {
                file,
                dev: stat.dev,
                ino: stat.ino,
                end: stat.size,
            });
            self.lock = self.disk.lock(&path);
            return Ok(());
        }
        let file = self.disk.open(&path).map_err(failed)?;
        let stat = file.stat().map_err(failed)?;
        if !stat.is_file {
            return Err(OpenError::Failed(gone("the transcript is no regular file")));
        }
        let mut open = Open {
            file,
            dev: stat.dev,
            ino: stat.ino,
            end: stat.size,
        };
        open.mend(keep).map_err(failed)?;
        self.open = Some(open);
        Ok(())
    }

    /// Whether the file is still the one at its path, and holds at least what we put there (B2).
    pub(super) fn check(&mut self) -> Result<(), Cause> {
        let (Some(path), Some(open)) = (&self.path, &mut self.open) else {
            return Ok(());
        };
        let at_path = match self.disk.stat(path) {
            Ok(stat) => stat,
            Err(error) => {
                return Err(Cause {
                    class: FaultClass::Gone,
                    ..Cause::of(&error)
                });
            }
        };
        if (at_path.dev, at_path.ino) != (open.dev, open.ino) {
            return Err(gone("the transcript was replaced"));
        }
        let size = open.file.stat().map_err(|error| Cause::of(&error))?.size;
        if size < open.end {
            return Err(gone("the transcript was cut"));
        }
        Ok(())
    }

    /// Appends whole lines; after an error the file is cut back to the last whole one, where that
    /// destroys nothing of another writer (B3).
    pub(super) fn write(&mut self, batch: &[u8]) -> Result<(), WriteError> {
        let refuse = |cause| WriteError {
            cause,
            n_written: 0,
        };
        if let Err(cause) = self.check() {
            self.end_fragment();
            return Err(refuse(cause));
        }
        let Some(open) = &mut self.open else {
            return Err(refuse(gone("the transcript is not open")));
        };
        if let Err(error) = open.separate_from_others() {
            return Err(refuse(Cause::of(&error)));
        }
        let mut n_written = 0;
        while n_written < batch.len() {
            let error = match open.file.write(&batch[n_written..]) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(n_bytes) => {
                    n_written += n_bytes;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            self.take_back(batch, n_written);
            return Err(WriteError {
                cause: Cause::of(&error),
                n_written,
            });
        }
        open.end += n_written as u64;
        Ok(())
    }

    /// Leaves whole records only, of the `n_written` bytes that a broken write put out.
    fn take_back(&mut self, batch: &[u8], n_written: usize) {
        let Some(open) = &mut self.open else { return };
        let n_whole = memchr::memrchr(b'\n', &batch[..n_written]).map_or(0, |at| at + 1);
        let ours_alone = open
            .file
            .stat()
            .is_ok_and(|stat| stat.size == open.end + n_written as u64);
        let is_cut = ours_alone
            && (n_whole == n_written || open.file.truncate(open.end + n_whole as u64).is_ok());
        if !is_cut {
            self.end_fragment();
        }
    }

    /// Ends a fragment that cannot be cut with a line feed, so that nothing is glued to it. A file
    /// that is not ours any more is not touched.
    fn end_fragment(&mut self) {
        let (Some(path), Some(open)) = (&self.path, &mut self.open) else {
            return;
        };
        let is_ours = |stat: &Stat| (stat.dev, stat.ino) == (open.dev, open.ino);
        let at_path = self.disk.stat(path);
        let Some(size) = at_path.ok().filter(is_ours).map(|stat| stat.size) else {
            return;
        };
        if size > 0 && open.last_byte(size).is_ok_and(|byte| byte != b'\n') {
            // Dropped: where not even a line feed can be written, the reader finds whole records
            // behind a fragment too.
            _ = open.file.write(b"\n");
        }
    }
}

impl Open {
    /// Another writer may have appended (R5); what it left unfinished must not swallow our record.
    fn separate_from_others(&mut self) -> io::Result<()> {
        let size = self.file.stat()?.size;
        if size > self.end {
            self.end = size;
            if self.last_byte(size)? != b'\n' && self.file.write(b"\n")? == 1 {
                self.end += 1;
            }
        }
        Ok(())
    }

    fn last_byte(&self, size: u64) -> io::Result<u8> {
        let mut byte = [0];
        self.read_exact_at(&mut byte, size - 1)?;
        Ok(byte[0])
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let mut n_read = 0;
        while n_read < bytes.len() {
            match self
                .file
                .read_at(&mut bytes[n_read..], offset + n_read as u64)
            {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n_bytes) => n_read += n_bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives a whole last record its line feed, and cuts a fragment (B3).
    fn mend(&mut self, keep: impl FnOnce(&[u8])) -> io::Result<()> {
        let size = self.end;
        if size == 0 || self.last_byte(size)? == b'\n' {
            return Ok(());
        }
        let start = self.last_line_start(size)?;
        let n_bytes = usize::try_from(size - start).unwrap_or(usize::MAX);
        let is_record = n_bytes <= TRANSCRIPT_LINE_BYTES_MAX && {
            let mut line = vec![0; n_bytes];
            self.read_exact_at(&mut line, start)?;
            if holds_a_record(&line) {
                true
            } else {
                keep(&line);
                false
            }
        };
        if is_record {
            if self.file.write(b"\n")? != 1 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.end = size + 1;
        } else {
            // Between the look and the cut another writer may have finished the line.
            if self.file.stat()?.size != size {
                return self.separate_from_others();
            }
            self.file.truncate(start)?;
            self.end = start;
        }
        Ok(())
    }

    fn last_line_start(&self, size: u64) -> io::Result<u64> {
        let mut window = vec![0; STEP_BYTES];
        let mut end = size;
        while end > 0 {
            let n_bytes = STEP_BYTES.min(usize::try_from(end).unwrap_or(STEP_BYTES));
            let start = end - n_bytes as u64;
            self.read_exact_at(&mut window[..n_bytes], start)?;
            if let Some(at) = memchr::memrchr(b'\n', &window[..n_bytes]) {
                return Ok(start + at as u64 + 1);
            }
            end = start;
        }
        Ok(0)
    }
}

/// Whether a line without its line feed holds anything that a reader takes for a record: the line
/// itself, or one that was glued to a fragment.
fn holds_a_record(line: &[u8]) -> bool {
    let whole = |bytes: &[u8]| {
        bytes.trim_ascii_start().starts_with(b"{")
            && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
    };
    whole(line)
        || memchr::memmem::find_iter(line, b"{\"uuid\"").any(|at| at > 0 && whole(&line[at..]))
        || memchr::memmem::find_iter(line, b"}{")
            .next()
            .is_some_and(|at| whole(&line[..=at]))
}

fn gone(what: &str) -> Cause {
    Cause::new(FaultClass::Gone, what)
}
