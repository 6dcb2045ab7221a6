//! Where the workspace lies, and its files.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The workspace as files.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The one that this program was built from.
    pub(crate) fn find() -> Result<Self> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let manifest = manifest.context("start it as `cargo xtask`")?;
        let root = manifest
            .parent()
            .context("xtask lies in the workspace")?
            .to_owned();
        Ok(Self { root })
    }

    /// One that lies anywhere.
    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = self.join(path);
        fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
    }

    /// Cargo's target folder.
    pub(crate) fn target(&self) -> PathBuf {
        let named = env::var_os("CARGO_TARGET_DIR").map(|folder| self.join(folder));
        named.unwrap_or_else(|| self.join("target"))
    }

    /// The folders of all crates, sorted.
    pub(crate) fn crate_folders(&self) -> Result<Vec<PathBuf>> {
        let mut folders: Vec<_> = entries(&self.join("crates"))?;
        folders.push(self.join("xtask"));
        folders.retain(|folder| folder.join("Cargo.toml").is_file());
        folders.sort();
        Ok(folders)
    }

    /// Every file of ours that is text, by its path from the root, sorted.
    pub(crate) fn texts(&self) -> Result<Vec<Text>> {
        const FOLDERS: [&str; 5] = ["crates", "xtask", "docs", "spec", ".config"];
        const ENDINGS: [&str; 7] = ["rs", "toml", "md", "c", "h", "json", "jsonl"];
        let mut pending: Vec<_> = FOLDERS.into_iter().map(|name| self.join(name)).collect();
        pending.retain(|folder| folder.is_dir());
        pending.extend(
            entries(&self.root)?
                .into_iter()
                .filter(|path| path.is_file()),
        );
        let mut texts = Vec::new();
        while let Some(path) = pending.pop() {
            let ending = path.extension().unwrap_or_default();
            if path.is_dir() {
                pending.extend(entries(&path)?);
            } else if ENDINGS.into_iter().any(|known| ending == known) {
                // Fixtures may hold broken characters on purpose.
                let bytes = fs::read(&path)?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let path = path
                    .strip_prefix(&self.root)?
                    .to_string_lossy()
                    .into_owned();
                texts.push(Text { path, text });
            }
        }
        texts.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(texts)
    }
}

/// A file that is text.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    /// From the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}
