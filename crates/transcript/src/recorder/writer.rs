//! The thread that alone holds the file.

use std::sync::Arc;

use super::{
    file::{OpenError, Transcript},
    queue::{Accepted, Batch, Shared, Work},
};

/// The writer, before and while it runs.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    transcript: Transcript,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, transcript: Transcript) -> Self {
        Self { shared, transcript }
    }

    /// Writes until the recorder is closed or has failed.
    pub(super) fn run(mut self) {
        let mut batch = Batch::default();
        while self.shared.next_work() == Work::Write {
            if !self.step(&mut batch) || self.shared.finish() {
                return;
            }
        }
        self.shared.finish();
    }

    /// Does what there is to do; `false` once the recorder has failed.
    fn step(&mut self, batch: &mut Batch) -> bool {
        if !self.transcript.is_open() {
            let shared = Arc::clone(&self.shared);
            match self
                .transcript
                .open(|fragment| shared.keep_fragment(fragment))
            {
                Ok(()) => self.shared.started(),
                Err(OpenError::NotCreated(cause)) => {
                    self.shared.not_created(&cause);
                    return true;
                }
                Err(OpenError::Failed(cause)) => {
                    self.shared.take(batch);
                    let first_lost = batch.records.first().map(|record| record.uuid);
                    self.shared.fail(cause, first_lost);
                    return false;
                }
            }
        }
        self.shared.take(batch) && self.write(batch) && self.check()
    }

    fn write(&mut self, batch: &Batch) -> bool {
        if batch.records.is_empty() {
            return true;
        }
        match self.transcript.write(&batch.bytes) {
            Ok(()) => self.shared.wrote(batch),
            Err(error) => {
                let n_whole = n_whole(&batch.records, error.n_written);
                self.shared.saved_before_failure(&batch.records[..n_whole]);
                let first_lost = batch.records.get(n_whole).map(|record| record.uuid);
                self.shared.fail(error.cause, first_lost);
                false
            }
        }
    }

    /// B2: a flush does not answer before the file was found in its place.
    fn check(&mut self) -> bool {
        if !self.shared.wants_check() {
            return true;
        }
        match self.transcript.check() {
            Ok(()) => {
                self.shared.checked();
                true
            }
            Err(cause) => {
                self.shared.fail(cause, None);
                false
            }
        }
    }
}

/// How many of the first records lie within the bytes that were written.
fn n_whole(records: &[Accepted], n_written: usize) -> usize {
    let mut end = 0;
    records
        .iter()
        .take_while(|record| {
            end += record.n_bytes;
            end <= n_written
        })
        .count()
}
