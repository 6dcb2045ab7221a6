//! Schemathesis, which makes requests up from an OpenAPI document.

use std::{path::PathBuf, process::Command};

use super::{folder, installed};
use crate::home::Home;

/// The installed `schemathesis`.
#[derive(Debug, Clone)]
pub struct Schemathesis {
    program: PathBuf,
}

impl Schemathesis {
    /// It; `None`, said clearly, where there is none.
    #[must_use]
    pub fn find() -> Option<Self> {
        let program = folder().join("venv/bin/schemathesis");
        let files = [program.clone()];
        installed("schemathesis", Self { program }, &files)
    }

    /// It, in this home.
    #[must_use]
    pub fn command(&self, home: &Home) -> Command {
        home.command(&self.program)
    }
}
