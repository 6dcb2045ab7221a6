//! What all requests share.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{Extension, Router};
use bridge::{Bridge, Caller};
use tokio_util::sync::CancellationToken;

use crate::{
    Options,
    gate::{self, Listening},
    metrics::Metrics,
    rate::Rates,
    table,
};

/// A daemon: its routes over a bridge.
#[derive(Debug, Clone)]
pub struct Daemon {
    app: Arc<App>,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) options: Options,
    pub(crate) bridge: Bridge,
    pub(crate) rates: Rates,
    pub(crate) metrics: Metrics,
    /// Names the workspace in paths.
    pub(crate) workspace_id: String,
    /// When it began, ms since 1970.
    pub(crate) began_ms: u64,
    /// Open event streams.
    n_streams: AtomicUsize,
    /// Fires when it stops: streams that are still open end.
    pub(crate) end: CancellationToken,
}

impl Daemon {
    /// A daemon of this bridge.
    #[must_use]
    pub fn new(options: Options, bridge: Bridge) -> Self {
        let began_ms = (options.now_ms)();
        let workspace_id = id_of(&options.workspace.to_string_lossy());
        Self {
            app: Arc::new(App {
                rates: Rates::default(),
                metrics: Metrics::default(),
                workspace_id,
                began_ms,
                n_streams: AtomicUsize::new(0),
                end: CancellationToken::new(),
                options,
                bridge,
            }),
        }
    }

    /// Its routes, behind the gate that every request passes, as they are where it listens at `at`: whom a
    /// request names as its host, and which page it comes from, is looked at then.
    pub fn router_at(&self, at: SocketAddr) -> Router {
        self.router().layer(Extension(Listening(at)))
    }

    /// Its routes in memory, where nobody names a host.
    pub fn router(&self) -> Router {
        let gate = axum::middleware::from_fn_with_state(Arc::clone(&self.app), gate::pass);
        table::router()
            .with_state(Arc::clone(&self.app))
            .layer(gate)
    }

    pub(crate) fn app(&self) -> &Arc<App> {
        &self.app
    }
}

impl App {
    /// Whether `text` names the workspace: by its id, or by its folder.
    pub(crate) fn is_workspace(&self, text: &str) -> bool {
        text == self.workspace_id || *text == *self.options.workspace.to_string_lossy()
    }

    /// Open event streams.
    pub(crate) fn n_streams(&self) -> usize {
        self.n_streams.load(Ordering::Relaxed)
    }

    /// Counts a stream for as long as what is returned lives.
    pub(crate) fn count_stream(self: &Arc<Self>) -> OpenStream {
        self.n_streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(Arc::clone(self))
    }
}

/// An open stream, counted.
#[derive(Debug)]
pub(crate) struct OpenStream(Arc<App>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.n_streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Who asks, as the gate found out.
#[derive(Debug, Clone)]
pub(crate) struct Asker(pub(crate) Caller);

/// 16 hexadecimal digits of a text, the same in every life of the daemon.
fn id_of(text: &str) -> String {
    format!("{:016x}", hash_of(text.as_bytes()))
}

/// FNV-1a: equal bytes have equal hashes, in every life of the daemon.
pub(crate) fn hash_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}
