//! Every crate that is built into the product has a licence that goes with ours.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::Breach;
use crate::workspace::Workspace;

/// Licences that ask for no more than to be named.
const ALLOWED: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
}

pub(super) fn check(workspace: &Workspace) -> Result<Vec<Breach>> {
    let metadata = metadata(workspace)?;
    Ok(metadata.packages.iter().filter_map(breach).collect())
}

/// The packages of this kind of machine: those of others may not have been downloaded.
fn metadata(workspace: &Workspace) -> Result<Metadata> {
    let platform = Command::new("rustc")
        .args(["--print", "host-tuple"])
        .output()?;
    let platform = String::from_utf8(platform.stdout)?;
    let output = Command::new("cargo")
        .args([
            "metadata",
            "--format-version=1",
            "--offline",
            "--filter-platform",
        ])
        .arg(platform.trim())
        .current_dir(workspace.root())
        .output()
        .context("failed to start cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn breach(package: &Package) -> Option<Breach> {
    let licence = package.license.as_deref().unwrap_or("none");
    let name = format!("{} {}", package.name, package.version);
    (!is_allowed(licence))
        .then(|| format!("{name}: licence {licence}, see xtask/src/tidy/licences.rs"))
}

/// Whether one choice of an SPDX expression is allowed whole. Parentheses hold choices within a
/// sum, as in `(MIT OR Apache-2.0) AND Unicode-3.0`.
fn is_allowed(licence: &str) -> bool {
    if let Some((head, tail)) = split_outside(licence, " AND ") {
        return is_allowed(head) && is_allowed(tail);
    }
    let licence = licence.trim();
    if let Some(inner) = licence
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
    {
        return is_allowed(inner);
    }
    // Some old crates write a slash for OR.
    let choices = licence.split(" OR ").flat_map(|choice| choice.split('/'));
    choices
        .into_iter()
        .any(|choice| ALLOWED.contains(&choice.trim()))
}

/// The first division at `word` that is in no parentheses.
fn split_outside<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let outside = |head: &str| head.matches('(').count() == head.matches(')').count();
    let (at, _) = text
        .match_indices(word)
        .find(|(at, _)| outside(&text[..*at]))?;
    Some((&text[..at], &text[at + word.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_enough_and_a_sum_needs_all() {
        for licence in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/Apache-2.0",
            "(MIT OR X) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "ISC AND (Apache-2.0 OR ISC)",
        ] {
            assert!(is_allowed(licence), "{licence}");
        }
        for licence in [
            "none",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR X) AND GPL-3.0",
            "X OR Y",
        ] {
            assert!(!is_allowed(licence), "{licence}");
        }
    }
}
