//! Standard input and output for a program that must not wait for them: each has a thread of its own,
//! which blocks where the other side does.

use std::{
    io::{self, Read, Write},
    pin::Pin,
    task::{Context, Poll, ready},
    thread,
};

use futures_util::{StreamExt, stream};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot},
};
use tokio_util::{
    io::StreamReader,
    sync::{CancellationToken, PollSender},
};

use crate::stdio::Patient;

/// Bytes of one read; a pipe holds as much.
const READ_BYTES: usize = 64 << 10;

/// Pieces on their way; beyond it whoever writes waits.
const PIECES_MAX: usize = 4;

/// Standard input.
///
/// # Errors
/// There is no thread left.
pub(super) fn input() -> io::Result<impl AsyncRead + Unpin + Send + 'static> {
    let (to, mut pieces) = mpsc::channel(PIECES_MAX);
    thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut input = Patient(io::stdin());
            loop {
                let mut piece = vec![0; READ_BYTES];
                let read = match input.read(&mut piece) {
                    Ok(0) => return,
                    Ok(n_read) => {
                        piece.truncate(n_read);
                        Ok(io::Cursor::new(piece))
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let is_over = read.is_err();
                if to.blocking_send(read).is_err() || is_over {
                    return;
                }
            }
        })?;
    let pieces = stream::poll_fn(move |context| pieces.poll_recv(context));
    Ok(StreamReader::new(pieces.boxed()))
}

/// Standard output, and what says that all of it is written. Where it cannot be written any more, `gone` fires at
/// once, not with the next write.
///
/// # Errors
/// There is no thread left.
pub(super) fn output(gone: CancellationToken) -> io::Result<(Output, oneshot::Receiver<()>)> {
    let (to, mut pieces) = mpsc::channel::<Vec<u8>>(PIECES_MAX);
    let (done, written) = oneshot::channel();
    thread::Builder::new()
        .name("output".to_owned())
        .spawn(move || {
            let mut output = Patient(io::stdout());
            while let Some(piece) = pieces.blocking_recv() {
                if output.write_all(&piece).is_err() {
                    gone.cancel();
                    break;
                }
            }
            // Dropped: nobody waits for it any more.
            _ = done.send(());
        })?;
    let output = Output {
        to: PollSender::new(to),
    };
    Ok((output, written))
}

/// Standard output.
#[derive(Debug)]
pub(super) struct Output {
    to: PollSender<Vec<u8>>,
}

impl AsyncWrite for Output {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        ready!(self.to.poll_reserve(context)).map_err(|_closed| closed())?;
        self.to
            .send_item(bytes.to_vec())
            .map_err(|_closed| closed())?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.to.close();
        Poll::Ready(Ok(()))
    }
}
