//! The thread that alone holds the file.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use wire::{limits::RECORDER_WRITE_BYTES_MAX, recording::FaultClass};

use super::{
    failure::Cause,
    file::{OpenError, TranscriptFile},
    line::Id,
    shared::{Shared, Work},
};
use crate::disk::Disk;

/// Bytes of the buffer that are kept between two batches.
const BATCH_BYTES_KEPT: usize = 1 << 20;

/// The writer, before and while it runs.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    /// Whether the file must not be there yet.
    is_new: bool,
    file: Option<TranscriptFile>,
    batch: Vec<u8>,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, disk: Arc<dyn Disk>, is_new: bool) -> Self {
        Self {
            shared,
            disk,
            is_new,
            file: None,
            batch: Vec::new(),
        }
    }

    /// Writes until the recorder is closed or comes to an end of its own.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        shared.lock().writer = Some(thread::current().id());
        let result = catch_unwind(AssertUnwindSafe(|| while self.step() {}));
        if result.is_err() {
            fail(
                &shared,
                &Cause::new(FaultClass::Other, "the writer panicked"),
                None,
            );
        }
        // Closed before anybody is told that the writer has ended.
        drop(self);
        shared.ended();
    }

    /// Does what there is to do next; `false` at the end.
    fn step(&mut self) -> bool {
        self.batch.clear();
        self.batch.shrink_to(BATCH_BYTES_KEPT);
        let work = self.shared.next_work(&mut self.batch);
        match work {
            Work::Open => {
                self.shared.show_level();
                self.open()
            }
            Work::Write {
                n_waiters,
                is_check_due,
            } => {
                self.shared.show_level();
                match self.write(is_check_due) {
                    Ok(()) => self.shared.settled(n_waiters),
                    Err(None) => {}
                    Err(Some((cause, first_lost))) => fail(&self.shared, &cause, first_lost),
                }
                true
            }
            Work::End => false,
        }
    }

    fn open(&mut self) -> bool {
        let Some(path) = self.shared.path.clone() else {
            let cause = Cause::new(FaultClass::Other, "no data root is known");
            self.shared.not_created(&cause);
            return true;
        };
        let disk = Arc::clone(&self.disk);
        let opened = if self.is_new {
            TranscriptFile::create(disk, path)
        } else {
            let shared = &self.shared;
            TranscriptFile::open(disk, path, &shared.session_id, &shared.log)
                .map(|file| (file, None))
                .map_err(OpenError::Failed)
        };
        match opened {
            Ok((file, lock)) => {
                self.file = Some(file);
                self.shared.opened(lock);
            }
            Err(OpenError::NotCreated(cause)) => self.shared.not_created(&cause),
            Err(OpenError::Failed(cause)) => fail(&self.shared, &cause, None),
        }
        true
    }

    /// Looks whether the file is in its place, writes the batch and looks again where somebody relies
    /// on it. Where that fails, the answer is why, and the first record that is lost; where
    /// somebody else has stopped the recorder meanwhile, nothing.
    fn write(&mut self, is_check_due: bool) -> Result<(), Option<(Cause, Option<Id>)>> {
        let Some(file) = &mut self.file else {
            // There is no such work before the file is open.
            return Err(None);
        };
        let first = Id::of_first(&self.batch);
        file.check().map_err(|cause| Some((cause, None)))?;
        let mut rest = &self.batch[..];
        while !rest.is_empty() {
            let lines = whole_lines(rest);
            let appended = file.append(lines, &|| self.shared.is_stopped());
            let (saved, unsaved) = rest.split_at(appended.n_bytes);
            self.shared.saved(saved, unsaved);
            if appended.n_bytes < lines.len() {
                return Err(appended.cause.map(|cause| (cause, None)));
            }
            rest = unsaved;
        }
        if first.is_none() || !is_check_due {
            return Ok(());
        }
        file.check().map_err(|cause| {
            // What was counted as saved just now is lost with its file.
            let first_lost = first.filter(|_| cause.file_lost);
            Some((cause, first_lost))
        })
    }
}

/// The beginning of a batch that is written at once: as many lines as fit, and at least one.
fn whole_lines(batch: &[u8]) -> &[u8] {
    let Some(first) = batch.get(..RECORDER_WRITE_BYTES_MAX) else {
        return batch;
    };
    let end = memchr::memrchr(b'\n', first)
        .or_else(|| memchr::memchr(b'\n', &batch[first.len()..]).map(|at| first.len() + at));
    end.map_or(batch, |end| &batch[..=end])
}

fn fail(shared: &Arc<Shared>, cause: &Cause, first_lost: Option<Id>) {
    if let Some(failure) = shared.fail(cause, first_lost, None) {
        shared.log_failure(cause, &failure);
    }
}
