//! Signals of the process: the file size limit, and the ways a person ends a run.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;

/// Turns SIGXFSZ into an ordinary EFBIG for this process alone: a handler, unlike an ignored
/// signal, is reset in the programs we start.
///
/// # Errors
/// The handler cannot be set.
pub(crate) fn survive_file_size_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

/// Which signal ended the run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ending(Arc<AtomicU8>);

impl Ending {
    /// The exit of a run that a signal ended.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            signal if i32::from(signal) == SIGHUP => Some(Exit::Hangup),
            _ => Some(Exit::Cancelled),
        }
    }
}

/// Cancels `token` at the first SIGINT, SIGTERM or SIGHUP; a second one ends the process at once.
///
/// # Errors
/// The handlers cannot be set.
pub(crate) fn cancel_on_signal(token: CancellationToken) -> io::Result<Ending> {
    let ending = Ending::default();
    for number in [SIGINT, SIGTERM, SIGHUP] {
        let mut stream = signal(SignalKind::from_raw(number))?;
        let (token, ending) = (token.clone(), ending.clone());
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if ending
                    .0
                    .swap(u8::try_from(number).unwrap_or(u8::MAX), Ordering::AcqRel)
                    != 0
                {
                    std::process::exit(i32::from(Exit::Cancelled.code()));
                }
                token.cancel();
            }
        });
    }
    Ok(ending)
}
