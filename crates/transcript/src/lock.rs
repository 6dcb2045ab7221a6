//! The advisory lock of a transcript: it lets a second opener, and `delete`, refuse (R5).
//!
//! It is a lock of the operating system on the transcript itself, so that it ends with its process
//! however that ends. It is never waited for, and where there are no locks there is none.

use std::{
    fs::{File, OpenOptions, TryLockError},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    thread,
};

use rustix::fs::OFlags;

/// A listing asks with a lock of an instant: what is held longer than a few turns of the scheduler is
/// held in earnest.
const ATTEMPTS_MAX: u32 = 4;

/// Held as long as it lives.
#[derive(Debug)]
pub struct Lock {
    #[expect(dead_code, reason = "held, not read")]
    file: File,
}

/// Somebody else has the session open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session is open elsewhere")]
pub struct HeldElsewhere;

/// Takes the lock of a transcript. `None` where the file is missing or cannot be locked: the lack of
/// a lock is no failure.
///
/// # Errors
///
/// Where another opener holds it.
pub fn acquire(path: &Path) -> Result<Option<Lock>, HeldElsewhere> {
    let Some(file) = open(path) else {
        return Ok(None);
    };
    for _ in 0..ATTEMPTS_MAX {
        match file.try_lock() {
            Ok(()) => return Ok(Some(Lock { file })),
            Err(TryLockError::WouldBlock) => thread::yield_now(),
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
    Err(HeldElsewhere)
}

/// Whether somebody holds the lock of this open file now. It is asked with a shared lock of an
/// instant, so that many may ask at once.
#[must_use]
pub(crate) fn is_held(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            // Dropped: closing the file, which follows, gives the lock back all the same.
            _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}

fn open(path: &Path) -> Option<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .ok()
}
