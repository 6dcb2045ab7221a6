//! Commands of a second program, which it adds to a file (`--input-file`).

use serde::Deserialize;

/// One command, a line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Command {
    /// A prompt.
    Submit {
        /// What is said.
        text: String,
    },
    /// The answer to a permission request.
    ConfirmationResponse {
        /// Of the request.
        request_id: String,
        /// Whether the call runs.
        allowed: bool,
    },
    /// What we do not know is left alone.
    #[serde(other)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}
