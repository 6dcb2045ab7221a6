//! Builds the library that makes libc's file calls fail: once for each of its versions, by `cc`.

use std::{
    collections::hash_map::DefaultHasher,
    env, fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

const SOURCE: &str = include_str!("../../shim/fault.c");

/// The library's path, built where it is not there yet.
pub(super) fn library() -> Result<PathBuf, String> {
    let folder = build_folder()?;
    let mut hasher = DefaultHasher::new();
    SOURCE.hash(&mut hasher);
    let library = folder.join(format!("onrecord-fault-{:016x}.so", hasher.finish()));
    if !library.exists() {
        build(&folder, &library)?;
    }
    Ok(library)
}

/// Beside the test binary: a folder that is the builder's own.
fn build_folder() -> Result<PathBuf, String> {
    let binary = env::current_exe().map_err(|error| error.to_string())?;
    let folder = binary.parent().ok_or("a test binary lies in a folder")?;
    Ok(folder.to_owned())
}

/// Builds under a name of its own and renames, so that tests in parallel never load half a library.
fn build(folder: &Path, library: &Path) -> Result<(), String> {
    let work = tempfile::tempdir_in(folder).map_err(|error| error.to_string())?;
    let (source, built) = (work.path().join("fault.c"), work.path().join("fault.so"));
    fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
    let output = Command::new("cc")
        .args([
            "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o",
        ])
        .args([&built, &source])
        .arg("-ldl")
        .output()
        .map_err(|error| format!("failed to start cc: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cc: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    fs::rename(&built, library).map_err(|error| error.to_string())
}
