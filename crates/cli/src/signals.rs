//! Signals of the process: the file size limit, and the ways a person ends a run.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    thread,
    time::Instant,
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ},
    iterator::Signals,
};
use tokio_util::sync::CancellationToken;
use wire::limits::SIGNAL_REPEAT_WAIT;

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

/// Cancels `token` at the first SIGINT, SIGTERM or SIGHUP; a second one, a moment later, ends the
/// process at once. A thread of its own listens, so that no state of the program can hold it.
///
/// # Errors
/// The handlers cannot be set, or there is no thread left.
pub(crate) fn cancel_on_signal(token: CancellationToken) -> io::Result<Ending> {
    let ending = Ending::default();
    let told = ending.clone();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut first = None;
            for number in signals.forever() {
                let Some(since) = first.map(|first: Instant| first.elapsed()) else {
                    first = Some(Instant::now());
                    told.0
                        .store(u8::try_from(number).unwrap_or(u8::MAX), Ordering::Release);
                    token.cancel();
                    continue;
                };
                if since >= SIGNAL_REPEAT_WAIT {
                    std::process::exit(i32::from(Exit::Cancelled.code()));
                }
            }
        })?;
    Ok(ending)
}
