//! Checks a file from end to end and says what it found.
//!
//! Invariant 3: reading never writes.

use std::path::Path;

use serde::Serialize;

use crate::{
    damage::{Damage, ReadError},
    lines,
    survey::Survey,
};

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The first record's; absent where there is no record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Of the file.
    pub n_bytes: u64,
    /// Records with an id of their own.
    pub n_records: u64,
    /// All damage, what loses nothing among it.
    pub n_damage: u64,
    /// Damage that loses something, or that other readers stumble over.
    pub n_harmful: u64,
    /// Places where records are missing; they are damage as well.
    pub n_gaps: u64,
    /// Places where a branch begins. Normal: going back makes one, and so does a title that is
    /// written again.
    pub n_forks: u64,
    /// The damage, in the order of the file; at most [`crate::reader::DAMAGE_KEPT_MAX`].
    pub damage: Vec<Damage>,
}

impl Report {
    /// Whether the record can be relied on: no damage that matters, and no gap. Forks are no fault.
    #[must_use]
    pub fn sound(&self) -> bool {
        self.n_harmful == 0 && self.n_gaps == 0
    }
}

/// Checks one transcript.
///
/// # Errors
///
/// Where the file is missing, is no regular file, or cannot be read. Damage inside it is no error.
pub fn verify(path: &Path) -> Result<Report, ReadError> {
    let file = lines::open(path)?;
    let survey = Survey::of(&file).map_err(|source| ReadError::of(path, source))?;
    Ok(Report {
        session_id: survey.session_id.as_deref().map(Into::into),
        n_bytes: survey.n_bytes,
        n_records: survey.n_records(),
        n_damage: survey.damage.n_all(),
        n_harmful: survey.damage.n_harmful(),
        n_gaps: survey.n_gaps,
        n_forks: survey.n_forks,
        damage: survey.damage.into_sorted(),
    })
}
