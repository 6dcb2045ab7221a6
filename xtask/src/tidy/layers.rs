//! `layers.toml` against every manifest, and what all manifests have in common.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::Breach;
use crate::workspace::Workspace;

/// Names that say nothing about what a crate does.
const NAMES_BANNED: [&str; 6] = ["core", "common", "util", "utils", "types", "helpers"];

/// The crate that carries the product's version.
const PRODUCT: &str = "cli";

type Edges = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check(workspace: &Workspace) -> Result<Vec<Breach>> {
    let rules = table(workspace, Path::new("layers.toml"))?;
    let root = table(workspace, Path::new("Cargo.toml"))?;
    let crates = edges(&rules, "crates");
    let only = edges(&rules, "only");
    let mut breaches = Vec::new();
    let mut seen = BTreeSet::new();
    for folder in workspace.crate_folders()? {
        let manifest = table(workspace, &folder.join("Cargo.toml"))?;
        let name = manifest
            .get("package")
            .and_then(|package| package.get("name"));
        let name = name
            .and_then(Value::as_str)
            .context("a crate without a name")?;
        seen.insert(name.to_owned());
        breaches.extend(own_breaches(&folder, name, &manifest, &root));
        let Some(allowed) = crates.get(name) else {
            breaches.push(format!("{name}: not in layers.toml"));
            continue;
        };
        for dependency in dependencies(&manifest, &root) {
            if crates.contains_key(&dependency) && !allowed.contains(&dependency) {
                breaches.push(format!(
                    "{name} -> {dependency}: not allowed by layers.toml"
                ));
            }
            if only
                .get(&dependency)
                .is_some_and(|users| !users.contains(name))
            {
                breaches.push(format!(
                    "{name} -> {dependency}: kept to others by layers.toml"
                ));
            }
        }
    }
    let gone = crates.keys().filter(|name| !seen.contains(*name));
    breaches.extend(gone.map(|name| format!("{name}: in layers.toml but not on disk")));
    Ok(breaches)
}

/// What a manifest breaks by itself.
fn own_breaches(folder: &Path, name: &str, manifest: &Table, root: &Table) -> Vec<Breach> {
    let mut breaches = Vec::new();
    if folder.file_name().is_none_or(|folder| folder != name) {
        breaches.push(format!("{name}: folder and crate have different names"));
    }
    if NAMES_BANNED.contains(&name) {
        breaches.push(format!("{name}: a crate is named for what it does"));
    }
    let version = manifest
        .get("package")
        .and_then(|package| package.get("version"));
    let shared = root
        .get("workspace")
        .and_then(|workspace| workspace.get("package"));
    let shared = shared.and_then(|package| package.get("version"));
    let inherits = version
        .and_then(|version| version.get("workspace"))
        .is_some();
    let version = if inherits { shared } else { version };
    if name != PRODUCT && version.and_then(Value::as_str) != Some("0.0.0") {
        breaches.push(format!(
            "{name}: its version is 0.0.0, for only the product has one"
        ));
    }
    breaches
}

/// Real names of what a crate is built from: of every target, with renames undone. What only its
/// tests use is not part of it.
fn dependencies(manifest: &Table, root: &Table) -> BTreeSet<String> {
    let shared = root
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"));
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table);
    let tables = targets.chain([manifest]).flat_map(|table| {
        ["dependencies", "build-dependencies"].map(|key| table.get(key).and_then(Value::as_table))
    });
    let real_name = |name: &String, line: &Value| {
        let inherits = line.get("workspace").is_some();
        let shared = shared
            .filter(|_| inherits)
            .and_then(|shared| shared.get(name));
        let package = shared
            .unwrap_or(line)
            .get("package")
            .and_then(Value::as_str);
        package.unwrap_or(name).to_owned()
    };
    tables
        .flatten()
        .flatten()
        .map(|(name, line)| real_name(name, line))
        .collect()
}

fn table(workspace: &Workspace, path: &Path) -> Result<Table> {
    let text = workspace.read(path)?;
    text.parse()
        .with_context(|| format!("{} is no TOML", path.display()))
}

/// A table of lists of names.
fn edges(rules: &Table, key: &str) -> Edges {
    let names = |value: &Value| {
        let names = value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    };
    let table = rules.get(key).and_then(Value::as_table);
    table
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), names(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// A workspace of `low` and `high`, in which `high` may use `low`.
    fn breaches(low: &str, high: &str) -> Vec<Breach> {
        let folder = TempDir::new().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "Cargo.toml",
            "[workspace.package]\nversion = '0.0.0'\n\
             [workspace.dependencies]\nbelow = { package = 'low', path = 'crates/low' }\n",
        );
        write(
            "layers.toml",
            "[crates]\nlow = []\nhigh = ['low']\n[only]\nanyhow = ['high']\n",
        );
        let head = |name: &str| format!("[package]\nname = '{name}'\nversion.workspace = true\n");
        write("crates/low/Cargo.toml", &format!("{}{low}", head("low")));
        write("crates/high/Cargo.toml", &format!("{}{high}", head("high")));
        check(&Workspace::at(folder.path())).unwrap()
    }

    #[test]
    fn what_is_allowed_is_no_breach() {
        let high = "[dependencies]\nlow = { path = '../low' }\nanyhow = '1'\nother = '1'\n";
        assert_eq!(breaches("[dev-dependencies]\nhigh = '1'\n", high), [""; 0]);
    }

    #[test]
    fn an_edge_upwards_is_found_in_every_table() {
        for table in [
            "dependencies",
            "build-dependencies",
            "target.'cfg(unix)'.dependencies",
        ] {
            let low = format!("[{table}]\nhigh = '0'\n");
            assert_eq!(
                breaches(&low, ""),
                ["low -> high: not allowed by layers.toml"]
            );
        }
    }

    #[test]
    fn a_rename_hides_nothing() {
        let low = "[dependencies]\nharmless = { package = 'high', path = '../high' }\n";
        assert_eq!(
            breaches(low, ""),
            ["low -> high: not allowed by layers.toml"]
        );
        let low = "[dependencies]\nbelow.workspace = true\n";
        assert_eq!(
            breaches(low, ""),
            ["low -> low: not allowed by layers.toml"]
        );
    }

    #[test]
    fn a_crate_kept_to_others_is_found() {
        let low = "[dependencies]\nanyhow = '1'\n";
        assert_eq!(
            breaches(low, ""),
            ["low -> anyhow: kept to others by layers.toml"]
        );
    }

    #[test]
    fn names_and_versions_are_held() {
        let root = Table::new();
        let manifest: Table = "package.version = '1.0.0'".parse().unwrap();
        let broken = own_breaches(Path::new("crates/other"), "utils", &manifest, &root);
        assert_eq!(broken.len(), 3, "{broken:?}");
        let broken = own_breaches(Path::new("crates/cli"), "cli", &manifest, &root);
        assert_eq!(broken, [""; 0]);
    }
}
