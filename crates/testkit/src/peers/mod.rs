//! Programs of others that speak our formats, as `cargo xtask test` installs them.
//!
//! Their names and versions stand in `xtask/src/install.rs`; here they are only found.

mod acp;
mod qwen;
mod schemathesis;
mod sdk;
mod web_sdk;
mod web_shell;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

pub use self::{
    acp::AcpClient, qwen::Qwen, schemathesis::Schemathesis, sdk::Sdk, web_sdk::WebSdk,
    web_shell::WebShell,
};
use crate::need::{Need, found};

/// The peer where all its files are there; `None`, said clearly, where one is not.
fn installed<T>(name: &str, peer: T, files: &[PathBuf]) -> Option<T> {
    let missing = files.iter().find(|path| !path.is_file());
    let peer = match missing {
        None => Ok(peer),
        Some(path) => Err(format!(
            "no {}; `cargo xtask test --install` installs {name}",
            path.display()
        )),
    };
    found(Need::Peers, peer)
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

/// The Node that Qwen Code needs.
fn node(folder: &Path) -> PathBuf {
    folder.join("node_modules/node/bin/node")
}

/// Where a virtual environment keeps its packages, whatever the version of its Python.
fn site_packages(venv: &Path) -> PathBuf {
    let versions = fs::read_dir(venv.join("lib")).into_iter().flatten();
    let mut folders = versions.flatten().map(|version| version.path());
    folders
        .find(|folder| folder.is_dir())
        .unwrap_or_else(|| venv.join("lib/python3"))
        .join("site-packages")
}
