//! Our SDK in TypeScript, as `cargo xtask test --install` builds it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{folder, installed, node};
use crate::home::Home;

/// The built SDK, and the Node that runs it.
#[derive(Debug, Clone)]
pub struct WebSdk {
    node: PathBuf,
    folder: PathBuf,
}

impl WebSdk {
    /// It; `None`, said clearly, where it is not built.
    #[must_use]
    pub fn find() -> Option<Self> {
        let sdk = Self {
            node: node(&folder()),
            folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/sdk"),
        };
        let files = [
            sdk.node.clone(),
            sdk.folder.join("dist/index.js"),
            sdk.folder.join("build/test/story.js"),
        ];
        installed("web/sdk", sdk, &files)
    }

    /// Its folder, within which `@onrecord/sdk` is its own name.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Node in its folder, with a home of its own.
    #[must_use]
    pub fn command(&self, home: &Home) -> Command {
        let mut command = home.command(&self.node);
        command.current_dir(&self.folder);
        command
    }
}
