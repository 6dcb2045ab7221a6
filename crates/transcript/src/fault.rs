//! The class of a system error (B4).
//!
//! `EIO` and `EMFILE` have no stable `ErrorKind`, so the raw number decides; it never leaves the local
//! log.

use std::io;

use rustix::io::Errno;
use wire::recording::FaultClass;

/// The class of an error of a write, or of what belongs to it.
#[must_use]
pub fn class_of(error: &io::Error) -> FaultClass {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC) => FaultClass::StorageFull,
        Some(Errno::DQUOT) => FaultClass::Quota,
        Some(Errno::FBIG) => FaultClass::TooLarge,
        Some(Errno::ROFS) => FaultClass::ReadOnly,
        Some(Errno::ACCESS | Errno::PERM) => FaultClass::Permission,
        Some(Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::STALE) => FaultClass::Gone,
        Some(Errno::IO) => FaultClass::Io,
        Some(Errno::MFILE | Errno::NFILE) => FaultClass::TooManyFiles,
        Some(_) | None => FaultClass::Other,
    }
}

/// The class of an error of making a file, where there was nothing that could have gone away.
#[must_use]
pub fn class_of_creation(error: &io::Error) -> FaultClass {
    let class = class_of(error);
    if class == FaultClass::Gone {
        FaultClass::Other
    } else {
        class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B4.
    #[test]
    fn every_errno_of_a_write_has_its_class() {
        for (errno, class) in [
            (Errno::NOSPC, FaultClass::StorageFull),
            (Errno::DQUOT, FaultClass::Quota),
            (Errno::FBIG, FaultClass::TooLarge),
            (Errno::ROFS, FaultClass::ReadOnly),
            (Errno::ACCESS, FaultClass::Permission),
            (Errno::PERM, FaultClass::Permission),
            (Errno::NOENT, FaultClass::Gone),
            (Errno::NOTDIR, FaultClass::Gone),
            (Errno::ISDIR, FaultClass::Gone),
            (Errno::STALE, FaultClass::Gone),
            (Errno::IO, FaultClass::Io),
            (Errno::MFILE, FaultClass::TooManyFiles),
            (Errno::NFILE, FaultClass::TooManyFiles),
            (Errno::NXIO, FaultClass::Other),
        ] {
            assert_eq!(class_of(&errno.into()), class, "{errno:?}");
        }
        assert_eq!(
            class_of(&io::ErrorKind::WriteZero.into()),
            FaultClass::Other
        );
    }

    #[test]
    fn a_file_that_was_never_there_is_not_gone() {
        assert_eq!(class_of_creation(&Errno::NOTDIR.into()), FaultClass::Other);
        assert_eq!(
            class_of_creation(&Errno::NOSPC.into()),
            FaultClass::StorageFull
        );
    }
}
