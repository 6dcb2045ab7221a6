//! The health of a session's record, as every surface names it (B1, B4).

use serde::{Deserialize, Serialize};

/// Whether what was accepted is on disk. A level, not an event: it can be read at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RecordingState {
    /// Every accepted record is on disk; also before the first record.
    Saved,
    /// Accepted, not yet on disk.
    Pending,
    /// The file could not be created yet (R4).
    NeverStarted,
    /// A write failed; nothing more is written in this recorder's life (R1).
    Degraded,
    /// The person's choice.
    Off,
}

impl RecordingState {
    /// The word as it is on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Saved => "saved",
            Self::Pending => "pending",
            Self::NeverStarted => "never_started",
            Self::Degraded => "degraded",
            Self::Off => "off",
        }
    }
}

/// Why recording failed, coarse enough to leave the machine (B4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FaultClass {
    /// The disk, or its inodes, ran out.
    StorageFull,
    /// The user's share of the disk ran out.
    Quota,
    /// The file passed a size limit.
    TooLarge,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The user may not write there.
    Permission,
    /// The file is no longer the one at its path (B2).
    Gone,
    /// The device failed.
    Io,
    /// The process or the machine ran out of descriptors.
    TooManyFiles,
    /// The writer did not come back in time (B7).
    Stalled,
    /// Anything else.
    Other,
}

impl FaultClass {
    /// The word as it is on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StorageFull => "storage_full",
            Self::Quota => "quota",
            Self::TooLarge => "too_large",
            Self::ReadOnly => "read_only",
            Self::Permission => "permission",
            Self::Gone => "gone",
            Self::Io => "io",
            Self::TooManyFiles => "too_many_files",
            Self::Stalled => "stalled",
            Self::Other => "other",
        }
    }
}

/// The object `recording` of a result, and of everything else that reports the level (B1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecordingReport {
    /// The level.
    pub state: RecordingState,
    /// The cause, where the state is `degraded` or `never_started`; else absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub class: Option<FaultClass>,
    /// The last record known to be on disk; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_record_uuid: Option<String>,
}

impl RecordingReport {
    /// The report of a session whose recording was switched off.
    #[must_use]
    pub fn off() -> Self {
        Self {
            state: RecordingState::Off,
            class: None,
            last_record_uuid: None,
        }
    }
}
