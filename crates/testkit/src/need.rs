//! What a test needs from the machine: found, skipped with a clear line, or demanded.
//!
//! A test that misses something returns early, which its runner counts as passed. The skip is
//! therefore also noted in the file that `ONRECORD_SKIPS` names, from which `cargo xtask test`
//! corrects the count.

use std::{
    env,
    fmt::Display,
    fs::OpenOptions,
    io::{self, Write},
    path::Path,
    thread,
};

/// A kind of thing that a laptop may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Mounts, limits, other users, a C compiler: what it takes to make a fault happen.
    Faults,
    /// Programs of others that speak our formats.
    Peers,
    /// Captured files of other programs.
    Samples,
}

impl Need {
    /// The variable by which a run demands it with the value `require`.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::Faults => "ONRECORD_FAULTS",
            Self::Peers => "ONRECORD_PEERS",
            // Samples lie where the variable points, so setting it is the demand.
            Self::Samples => "ONRECORD_SAMPLES",
        }
    }

    fn is_required(self) -> bool {
        match (self, env::var_os(self.variable())) {
            (_, None) => false,
            (Self::Samples, Some(folder)) => !folder.is_empty(),
            (Self::Faults | Self::Peers, Some(word)) => word == "require",
        }
    }
}

/// Unwraps what was found; where it is missing, says so and gives `None`, on which the test returns.
///
/// # Panics
/// Where the run requires what is missing: absent then means failed.
pub fn found<T>(need: Need, result: Result<T, impl Display>) -> Option<T> {
    let why = match result {
        Ok(value) => return Some(value),
        Err(why) => why,
    };
    assert!(
        !need.is_required(),
        "{} requires what is missing here: {why}",
        need.variable()
    );
    say_skipped(&format!("skipped {}: {why}", test_name()));
    None
}

/// The captured samples of another program, where `ONRECORD_SAMPLES` points at them.
#[must_use]
pub fn samples() -> Option<std::path::PathBuf> {
    let folder = env::var_os("ONRECORD_SAMPLES").filter(|folder| !folder.is_empty());
    let samples = match folder.map(std::path::PathBuf::from) {
        Some(folder) if folder.is_dir() => Ok(folder),
        Some(_) => Err("ONRECORD_SAMPLES names no folder"),
        None => Err("ONRECORD_SAMPLES is not set"),
    };
    found(Need::Samples, samples)
}

fn say_skipped(line: &str) {
    // Dropped: a closed stderr is no reason to fail a test.
    _ = writeln!(io::stderr(), "{line}");
    if let Some(path) = env::var_os("ONRECORD_SKIPS") {
        note(Path::new(&path), line).expect("ONRECORD_SKIPS names a file that can be written");
    }
}

/// One line in one write, so that tests in parallel do not mix theirs.
fn note(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// Binary and test, as a runner would name them.
fn test_name() -> String {
    let binary = env::current_exe().ok();
    let binary = binary
        .as_deref()
        .and_then(Path::file_stem)
        .unwrap_or_default();
    let test = env::var("NEXTEST_TEST_NAME").ok();
    let test = test.or_else(|| thread::current().name().map(str::to_owned));
    format!("{} {}", binary.to_string_lossy(), test.unwrap_or_default())
}
