//! The task that writes: all that is ready in one write, and a flush before it rests.

use std::{io, sync::Arc};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::{
    error::Closed,
    shared::{Shared, Work},
};

#[derive(Debug)]
pub(crate) struct Writer<W> {
    sink: W,
    desk: Desk,
}

/// However the task ends, those who wait for room are told.
#[derive(Debug)]
struct Desk {
    shared: Arc<Shared>,
    reason: Closed,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(crate) fn new(sink: W, shared: Arc<Shared>) -> Self {
        Self {
            sink,
            desk: Desk {
                shared,
                reason: Closed::Here,
            },
        }
    }

    /// Writes until nothing more comes or a write fails.
    pub(crate) async fn run(mut self) {
        if let Err(error) = self.write().await {
            self.desk.reason = Closed::WriteFailed(error.kind());
        }
    }

    async fn write(&mut self) -> io::Result<()> {
        let shared = &self.desk.shared;
        let mut batch = Vec::new();
        let mut is_flushed = true;
        loop {
            batch.clear();
            match shared.next_work(&mut batch) {
                Work::Write => {
                    write_all(&mut self.sink, &batch).await?;
                    is_flushed = false;
                    shared.written();
                }
                Work::Rest if !is_flushed => {
                    self.sink.flush().await?;
                    is_flushed = true;
                }
                Work::Rest => shared.work.notified().await,
                Work::End => {
                    self.sink.flush().await?;
                    return self.sink.shutdown().await;
                }
            }
        }
    }
}

/// Writes frames with one call as far as the sink takes them.
async fn write_all(sink: &mut (impl AsyncWrite + Unpin), batch: &[Vec<u8>]) -> io::Result<()> {
    match batch {
        [frame] => sink.write_all(frame).await,
        frames => sink.write_all(&frames.concat()).await,
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.shared.end_output(self.reason);
    }
}
