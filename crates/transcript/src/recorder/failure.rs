//! What is known of a failure, by whom, and how it is said.

use std::{fmt, io, sync::Arc};

use rustix::io::Errno;
use wire::recording::FaultClass;

use crate::fault::{class_of, class_of_creation};

/// The first failed write of a recorder. It holds no path, no errno and none of the system's words,
/// so that it may be shown anywhere (R28); those go to the local log alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingFailure {
    /// The session of the record that failed (R2).
    pub session_id: String,
    /// The cause.
    pub class: FaultClass,
    /// The first record that is not known to be on disk in full; `None` where every accepted record
    /// was, and later ones will not be.
    pub first_lost_uuid: Option<String>,
    /// The last record that is known to be on disk; `None` where there is none, or where nobody knows
    /// what is left of the file.
    pub last_record_uuid: Option<String>,
}

impl fmt::Display for RecordingFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "recording of session {} stopped: {}",
            self.session_id,
            self.class.as_str()
        )
    }
}

/// Why something is not on disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSaved {
    /// A write failed, and with it the recorder (R1).
    #[error("{0}")]
    Failed(Arc<RecordingFailure>),
    /// The file could not be created; what was accepted waits (R4).
    #[error("the transcript could not be created: {}", .0.as_str())]
    NeverStarted(FaultClass),
    /// The recorder was closed before.
    #[error("the recorder is closed")]
    Closed,
}

/// What went wrong on the disk, as the local log takes it (B4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) class: FaultClass,
    pub(super) error: String,
    pub(super) errno: Option<i32>,
    /// Whether what was written before is lost too, or may be.
    pub(super) file_lost: bool,
}

impl Cause {
    /// A failed write, or what belongs to it.
    pub(super) fn of(error: &io::Error) -> Self {
        let class = class_of(error);
        Self {
            class,
            error: error.to_string(),
            errno: Errno::from_io_error(error).map(Errno::raw_os_error),
            file_lost: class == FaultClass::Gone,
        }
    }

    /// A file that could not be created.
    pub(super) fn of_creation(error: &io::Error) -> Self {
        Self {
            class: class_of_creation(error),
            file_lost: false,
            ..Self::of(error)
        }
    }

    /// A fault that is not the system's.
    pub(super) fn new(class: FaultClass, error: &str) -> Self {
        Self {
            class,
            error: error.to_owned(),
            errno: None,
            file_lost: class == FaultClass::Gone,
        }
    }
}
