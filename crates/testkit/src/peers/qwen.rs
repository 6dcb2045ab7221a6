//! The real Qwen Code.

use std::{path::PathBuf, process::Command};

use super::{folder, installed, node};
use crate::home::Home;

/// The real Qwen Code, with the Node that it needs.
#[derive(Debug, Clone)]
pub struct Qwen {
    node: PathBuf,
    script: PathBuf,
}

impl Qwen {
    /// The installed one; `None`, said clearly, where there is none.
    #[must_use]
    pub fn find() -> Option<Self> {
        let folder = folder();
        let node = node(&folder);
        let script = folder.join("node_modules/@qwen-code/qwen-code/cli-entry.js");
        let files = [node.clone(), script.clone()];
        installed("Qwen Code", Self { node, script }, &files)
    }

    /// Qwen Code in this home, whose data root it shares, against an OpenAI-compatible endpoint.
    pub fn command(&self, home: &Home, base_url: &str) -> Command {
        let mut command = home.command(&self.node);
        command
            .arg(&self.script)
            .env("QWEN_HOME", home.data_root())
            .env("OPENAI_API_KEY", "unused")
            .env("OPENAI_BASE_URL", base_url)
            .env("OPENAI_MODEL", "stub");
        command
    }
}
