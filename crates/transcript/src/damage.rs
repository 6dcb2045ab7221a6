//! What is wrong with a file, as data.
//!
//! Damage never ends a read: it says where something is lost, or out of order, and the good records
//! around it are there all the same. Only a file that cannot be read at all is an error.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use serde::Serialize;

/// Damages that are kept one by one; the rest are counted. A file of nothing but garbage must not
/// fill the memory.
pub const DAMAGE_KEPT_MAX: usize = 1_000;

/// One damaged place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The line, from 1.
    pub line: u64,
    /// The first byte of the line, or of the record on it.
    pub offset: u64,
    /// What is wrong there.
    #[serde(flatten)]
    pub kind: DamageKind,
}

/// Kinds of damage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(
    tag = "kind",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum DamageKind {
    /// Bytes that are no UTF-8. Where the line is a record all the same, it is kept, with U+FFFD for
    /// them.
    BadUtf8 {
        /// Whether the record was kept.
        kept: bool,
    },
    /// No record and no JSON, and nothing on the line could be saved.
    BadJson,
    /// NUL bytes, as a file system leaves them after a power cut. What else is on the line is kept.
    NulBytes,
    /// The file's last line is the beginning of a record whose end was never written.
    TornTail,
    /// The file's last line is a whole record without its newline. Nothing is lost, and the newline
    /// is added before the next record is.
    MissingNewline,
    /// Several records on one line; all are kept.
    Glued {
        /// How many.
        n_records: u64,
    },
    /// Text beside the whole records of one line; the records are kept, the text is lost.
    Fragment,
    /// The line is longer than the limit, and was passed over.
    LineTooLong,
    /// JSON, but no record: not an object, or without id, session id or type.
    NotARecord,
    /// Half of a surrogate pair, escaped. It reads as U+FFFD; nothing else is lost.
    LoneSurrogate,
    /// The same record once more; it is used once.
    Duplicate,
    /// Another record with an id that was there before; read as a further part of that record.
    SameId,
    /// The record's parent is not in the file: a gap.
    MissingParent {
        /// The parent's id; absent where the record names none that could be one.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
    },
    /// The records' parents lead in a circle: a gap, where the circle is cut.
    Cycle,
    /// From here on, records bear another session's id. They are kept.
    OtherSession {
        /// That id.
        session_id: String,
    },
}

impl DamageKind {
    /// Whether nothing is lost and nothing has to be mended by hand.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        matches!(self, Self::MissingNewline | Self::LoneSurrogate)
    }

    /// Whether it is a place where earlier records may be missing.
    #[must_use]
    pub fn is_gap(&self) -> bool {
        matches!(self, Self::MissingParent { .. } | Self::Cycle)
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadUtf8 { kept: true } => f.write_str("invalid UTF-8; the record is kept"),
            Self::BadUtf8 { kept: false } => f.write_str("invalid UTF-8; the line is lost"),
            Self::BadJson => f.write_str("not JSON; the line is lost"),
            Self::NulBytes => f.write_str("NUL bytes"),
            Self::TornTail => f.write_str("the last record is incomplete"),
            Self::MissingNewline => {
                f.write_str("the last record lacks its newline; nothing is lost")
            }
            Self::Glued { n_records } => write!(f, "{n_records} records on one line; all are kept"),
            Self::Fragment => f.write_str("part of a record; the whole records beside it are kept"),
            Self::LineTooLong => f.write_str("the line is too long for a record; it is lost"),
            Self::NotARecord => f.write_str("JSON, but not a record; the line is lost"),
            Self::LoneSurrogate => f.write_str("half a surrogate pair; read as U+FFFD"),
            Self::Duplicate => f.write_str("a record twice; it is used once"),
            Self::SameId => f.write_str("another record with the same id; read as a part of it"),
            Self::MissingParent { .. } => f.write_str("earlier records are missing here"),
            Self::Cycle => f.write_str("the order of the records runs in a circle here"),
            Self::OtherSession { .. } => f.write_str("records of another session from here on"),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind)
    }
}

/// The damages of one file, bounded.
#[derive(Debug, Default)]
pub(crate) struct DamageList {
    kept: Vec<Damage>,
    n_all: u64,
    n_harmless: u64,
}

impl DamageList {
    pub(crate) fn push(&mut self, line: u64, offset: u64, kind: DamageKind) {
        self.n_all += 1;
        self.n_harmless += u64::from(kind.is_harmless());
        if self.kept.len() < DAMAGE_KEPT_MAX {
            self.kept.push(Damage { line, offset, kind });
        }
    }

    /// Whether another one would be kept.
    pub(crate) fn has_room(&self) -> bool {
        self.kept.len() < DAMAGE_KEPT_MAX
    }

    /// All of them, those that lose nothing among them.
    pub(crate) fn n_all(&self) -> u64 {
        self.n_all
    }

    /// Those that lose something.
    pub(crate) fn n_harmful(&self) -> u64 {
        self.n_all - self.n_harmless
    }

    /// The kept ones in the order of the file.
    pub(crate) fn into_sorted(mut self) -> Vec<Damage> {
        self.kept.sort_by_key(|damage| damage.line);
        self.kept
    }
}

/// Why a file could not be read at all. The path is for the person at this machine; it is not in
/// what `Display` says.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such file.
    #[error("no such transcript")]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// A folder, a pipe, a device.
    #[error("the transcript is not a regular file")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The system refused, or the device failed.
    #[error("failed to read the transcript")]
    Io {
        /// The path.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
}

impl ReadError {
    pub(crate) fn of(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        let kind = source.kind();
        if kind == io::ErrorKind::NotFound {
            Self::NotFound { path }
        } else if kind == io::ErrorKind::IsADirectory {
            Self::NotAFile { path }
        } else {
            Self::Io { path, source }
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::NotFound { path } | Self::NotAFile { path } | Self::Io { path, .. } => path,
        }
    }
}
