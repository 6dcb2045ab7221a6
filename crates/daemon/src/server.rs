//! Connections: how many there may be, how long one may dawdle, and how all of them end.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::extract::{ConnectInfo, Request};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{Sleep, sleep},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use wire::limits::{
    DAEMON_ACCEPT_NAP, DAEMON_CONNECTIONS_MAX, DAEMON_END_WAIT_MAX, DAEMON_HEADER_WAIT_MAX,
    DAEMON_WRITE_STALL_MAX,
};

use crate::Daemon;

/// Why a daemon does not begin; the text names the mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Everybody could use it.
    #[error(
        "beyond this machine the daemon needs a token: set ONRECORD_TOKEN (or --token), or listen on 127.0.0.1"
    )]
    NoToken,
    /// There is no token that could be required.
    #[error("--require-auth needs a token: set ONRECORD_TOKEN (or --token)")]
    NothingToRequire,
    /// Pages of every origin could use it.
    #[error("--allow-origin '*' needs a token: set ONRECORD_TOKEN (or --token)")]
    OpenToEveryPage,
}

impl Daemon {
    /// Whether it may listen there.
    ///
    /// # Errors
    /// It must not.
    pub fn check(&self, at: SocketAddr) -> Result<(), Refused> {
        let options = &self.app().options;
        if options.token.is_some() {
            return Ok(());
        }
        if !at.ip().is_loopback() {
            return Err(Refused::NoToken);
        }
        if options.require_auth {
            return Err(Refused::NothingToRequire);
        }
        if options.allow_origins.iter().any(|origin| origin == "*") {
            return Err(Refused::OpenToEveryPage);
        }
        Ok(())
    }

    /// Serves until `end` fires. Then every session is told and closed, the agent is ended with its records
    /// flushed, and what is being answered is answered. Whether it all ended well.
    pub async fn serve(&self, listener: TcpListener, end: CancellationToken) -> bool {
        let Ok(at) = listener.local_addr() else {
            return false;
        };
        let router = self.router_at(at);
        let graceful = GracefulShutdown::new();
        let places = Arc::new(Semaphore::new(DAEMON_CONNECTIONS_MAX));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(DAEMON_HEADER_WAIT_MAX);
        loop {
            let accepted = tokio::select! {
                () = end.cancelled() => break,
                accepted = accept(&listener, &places) => accepted,
            };
            let Some((stream, peer, place)) = accepted else {
                continue;
            };
            let service = router.clone().map_request(move |mut request: Request<_>| {
                request.extensions_mut().insert(ConnectInfo(peer));
                request
            });
            let io = TokioIo::new(Unstuck::new(stream));
            let connection = http.serve_connection(io, TowerToHyperService::new(service));
            let connection = graceful.watch(connection);
            tokio::spawn(async move {
                // Dropped: how a connection ends is its client's affair.
                _ = connection.await;
                drop(place);
            });
        }
        drop(listener);
        let is_good = self.app().bridge.shutdown().await;
        self.app().end.cancel();
        // Dropped: a client that does not take its last answer is not waited for.
        _ = tokio::time::timeout(DAEMON_END_WAIT_MAX, graceful.shutdown()).await;
        is_good
    }
}

type Place = tokio::sync::OwnedSemaphorePermit;

/// The next connection, once there is room for it; `None` where accepting failed.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, Place)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            // Dropped: a small frame that waits is late, not wrong.
            _ = stream.set_nodelay(true);
            Some((stream, peer, place))
        }
        Err(error) => {
            tracing::warn!(kind = %error.kind(), "a connection was not accepted");
            // Mostly descriptors have run out; they come back with time.
            tokio::time::sleep(DAEMON_ACCEPT_NAP).await;
            None
        }
    }
}

/// A connection whose client must take something now and then: one that takes nothing of what waits for it
/// within [`DAEMON_WRITE_STALL_MAX`] is given up.
#[derive(Debug)]
struct Unstuck {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Unstuck {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            stalled: None,
        }
    }

    fn watch<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let wait: Duration = DAEMON_WRITE_STALL_MAX;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(wait)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Unstuck {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Unstuck {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
