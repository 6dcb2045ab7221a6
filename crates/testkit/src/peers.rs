//! Programs of others that speak our formats, as `cargo xtask test` installs them.
//!
//! Their names and versions stand in `xtask/src/install.rs`; here they are only found.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{
    home::Home,
    need::{Need, found},
};

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
        let modules = folder().join("node_modules");
        let node = modules.join("node/bin/node");
        let script = modules.join("@qwen-code/qwen-code/cli-entry.js");
        let missing = [&node, &script].into_iter().find(|path| !path.is_file());
        let qwen = match missing {
            None => Ok(Self { node, script }),
            Some(path) => Err(format!(
                "no {}; `cargo xtask test --install` installs Qwen Code",
                path.display()
            )),
        };
        found(Need::Peers, qwen)
    }

    /// Qwen Code in this home, whose data root it shares, against an OpenAI-compatible endpoint.
    pub fn command(&self, home: &Home, base_url: &str) -> std::process::Command {
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

/// `ONRECORD_PEERS_DIR`, else `peers` in the target folder that this binary was built into.
fn folder() -> PathBuf {
    if let Some(folder) = env::var_os("ONRECORD_PEERS_DIR").filter(|folder| !folder.is_empty()) {
        return folder.into();
    }
    let binary = env::current_exe().unwrap_or_default();
    let mut parents = binary
        .ancestors()
        .skip(1)
        .map(|parent| parent.join("peers"));
    parents
        .find(|peers| peers.is_dir())
        .unwrap_or_else(|| Path::new("peers").to_owned())
}
