//! `onrecord serve`: sessions for many clients over HTTP.

mod agent;
mod log;
mod open_files;

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use bridge::{Bridge, PermissionPolicy};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    args::{self, ServeArgs},
    exit::Exit,
    place::{Place, physical},
    resolve::Refusal,
    signals, stdio,
};

/// Serves until a signal comes, which is a good end.
pub(crate) fn run(args: ServeArgs) -> Exit {
    match try_run(args) {
        Ok(()) => Exit::Success,
        Err(refusal) => refusal.tell(),
    }
}
