//! `config.toml` in the data root: what a person does not want to type every time.

use std::{fs, path::Path};

use serde::Deserialize;

/// The file, every key optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigFile {
    /// `[model]`.
    #[serde(default)]
    pub(crate) model: ModelSection,
    /// `[approval]`.
    #[serde(default)]
    pub(crate) approval: ApprovalSection,
    /// `[recording]`.
    #[serde(default)]
    pub(crate) recording: RecordingSection,
}

/// Who answers.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelSection {
    /// The model's name.
    pub(crate) name: Option<String>,
    /// Base URL of an OpenAI-compatible endpoint.
    pub(crate) base_url: Option<String>,
    /// The environment variable that holds its key.
    pub(crate) api_key_env: Option<String>,
}

/// What runs without asking.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalSection {
    /// `plan`, `default`, `auto-edit`, `auto` or `yolo`.
    pub(crate) mode: Option<String>,
}

/// Whether sessions are recorded.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordingSection {
    /// `false` switches recording off.
    pub(crate) enabled: Option<bool>,
    /// `true` is `--require-recording`.
    pub(crate) required: Option<bool>,
}

/// Why the file cannot be used; one line that names the mend.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigFileError {
    /// It is there, but cannot be read.
    #[error(
        "config.toml of the data root cannot be read ({reason}): mend its permissions or move it away"
    )]
    Unreadable {
        /// In the system's words.
        reason: String,
    },
    /// It is no TOML, or holds what it must not.
    #[error(
        "config.toml of the data root is not usable: {reason}; see docs/configuration.md for the keys"
    )]
    Invalid {
        /// Where and what.
        reason: String,
    },
}

impl ConfigFile {
    /// Reads the file; one that is not there, or cannot be there, is empty.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigFileError> {
        // A home that is no folder, or another user's, holds no configuration; that its record
        // cannot be kept there is said by the record.
        if fs::symlink_metadata(path).is_err() {
            return Ok(Self::default());
        }
        let unreadable = |reason: &str| ConfigFileError::Unreadable {
            reason: reason.to_owned(),
        };
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Err(unreadable("it is no regular file")),
            Err(error) => return Err(unreadable(&error.kind().to_string())),
        }
        let text =
            fs::read_to_string(path).map_err(|error| unreadable(&error.kind().to_string()))?;
        toml::from_str(&text).map_err(|error| {
            let line = error
                .span()
                .map(|span| text[..span.start].matches('\n').count() + 1);
            let at = line.map_or_else(String::new, |line| format!("line {line}: "));
            let reason = format!("{at}{}", error.message().replace('\n', " "));
            ConfigFileError::Invalid { reason }
        })
    }
}
