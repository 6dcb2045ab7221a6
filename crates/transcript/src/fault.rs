//! The class of a system error (B4). `EIO` and `EMFILE` have no stable `ErrorKind`, so the raw
//! number decides; it never leaves the local log.

use std::io;

use rustix::io::Errno;
use wire::recording::FaultClass;

/// The class of an error of a write, or of what has to come before it.
#[must_use]
pub fn class_of(error: &io::Error) -> FaultClass {
    let Some(errno) = Errno::from_io_error(error) else {
        // A write of nothing has no errno; a disk that takes nothing has no room.
        let is_full = error.kind() == io::ErrorKind::WriteZero;
        return if is_full {
            FaultClass::StorageFull
        } else {
            FaultClass::Other
        };
    };
    match errno {
        Errno::NOSPC => FaultClass::StorageFull,
        Errno::DQUOT => FaultClass::Quota,
        Errno::FBIG => FaultClass::TooLarge,
        Errno::ROFS => FaultClass::ReadOnly,
        Errno::ACCESS | Errno::PERM => FaultClass::Permission,
        Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::STALE => FaultClass::Gone,
        Errno::IO => FaultClass::Io,
        Errno::MFILE | Errno::NFILE => FaultClass::TooManyFiles,
        _ => FaultClass::Other,
    }
}
