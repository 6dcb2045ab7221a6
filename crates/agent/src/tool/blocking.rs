//! Where a call's blocking work runs: on a thread that may wait for a disk.
//!
//! It is a thread of its own and none of the runtime's pool, which panics where the system has no
//! thread left; here that is a failed call.

use std::thread;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Context, ToolError};

/// Work that changes nothing.
///
/// A cancelled call answers at once; its thread ends at its next look at the token.
pub(super) async fn read<T, F>(context: &Context, work: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
{
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Err(ToolError::cancelled()),
        done = change(context, work) => done,
    }
}

/// Work that changes something.
///
/// A cancelled call waits for the work to look at the token, as what has become of the file must be
/// told truly. When the call is dropped instead, the token fires too.
pub(super) async fn change<T, F>(context: &Context, work: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
{
    if context.cancel.is_cancelled() {
        return Err(ToolError::cancelled());
    }
    let token = context.cancel.child_token();
    let _fires_when_dropped = token.clone().drop_guard();
    let (answer, done) = oneshot::channel();
    thread::Builder::new()
        .name("tool".to_owned())
        .spawn(move || {
            // Dropped: nobody waits for a call that was dropped.
            _ = answer.send(work(&token));
        })
        .map_err(|error| ToolError::io("No thread can be started for the tool", &error))?;
    done.await.unwrap_or_else(|_| {
        Err(ToolError::new(
            "io",
            "The tool broke down; this is a fault of the program.",
        ))
    })
}

/// Ends the work where its call was cancelled.
pub(super) fn check(cancel: &CancellationToken) -> Result<(), ToolError> {
    if cancel.is_cancelled() {
        Err(ToolError::cancelled())
    } else {
        Ok(())
    }
}
