//! The two tasks of a connection.

use std::sync::Arc;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinSet,
};

use crate::{
    bounds::Options, error::Closed, inbox::Inbox, incoming::Incoming, peer::Peer, reader::Reader,
    shared::Shared, writer::Writer,
};

/// A running connection, to be kept while it is used. Dropping it ends it at once: what is queued is not written, and reader and
/// writer are dropped.
#[derive(Debug)]
pub struct Connection {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

impl Connection {
    /// Starts to read and to write, in two tasks on the tokio runtime within which it is called. Only
    /// [`Reply::within`](crate::Reply::within) needs a clock.
    ///
    /// After the end of input the connection ends by itself, once what was asked before is answered
    /// and written; or, where [`Options::at_end_of_input`] says so, with [`Peer::close`]. The writer is then shut
    /// down and dropped.
    pub fn start<R, W>(reader: R, writer: W, options: Options) -> (Peer, Incoming, Self)
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let shared = Arc::new(Shared::new(&options));
        let inbox = Arc::new(Inbox::new(&options.bounds));
        let reader = Reader::new(
            reader,
            Arc::clone(&shared),
            Arc::clone(&inbox),
            options.garbage,
        );
        let writer = Writer::new(writer, Arc::clone(&shared));
        let mut tasks = JoinSet::new();
        tasks.spawn(reader.run());
        tasks.spawn(writer.run());
        let peer = Peer::new(Arc::clone(&shared));
        (peer, Incoming::new(inbox), Self { shared, tasks })
    }

    /// Waits until nothing more is read and nothing more is written, and answers why. After a failed
    /// write that takes until the other side ends its output, or until [`Peer::close`].
    pub async fn ended(&mut self) -> Closed {
        while self.tasks.join_next().await.is_some() {}
        self.shared.reason()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.close();
        self.shared.end_output(Closed::Here);
    }
}
