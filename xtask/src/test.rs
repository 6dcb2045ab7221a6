//! All checks and all tests, as CI runs them, and a last line that counts.

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result};

use crate::{
    install::{self, Wish},
    runner::{self, Count},
    workspace::Workspace,
};

const FORMAT: &[&str] = &["fmt", "--all", "--check"];
const CLIPPY: &[&str] = &[
    "clippy",
    "--workspace",
    "--all-targets",
    "--locked",
    "--",
    "-D",
    "warnings",
];
/// The schema is no part of the product, which is therefore checked without it.
const SCHEMA_CLIPPY: &[&str] = &[
    "clippy",
    "--package=wire",
    "--package=daemon",
    "--features=wire/schema,daemon/schema",
    "--all-targets",
    "--locked",
    "--",
    "-D",
    "warnings",
];
const SCHEMA_TESTS: &[&str] = &[
    "test",
    "--package=wire",
    "--features=schema",
    "--locked",
    "--test=it",
    "schema::",
];
const OPENAPI_TESTS: &[&str] = &[
    "test",
    "--package=daemon",
    "--features=schema",
    "--locked",
    "--lib",
    "openapi::",
];
const NEXTEST: &[&str] = &[
    "nextest",
    "run",
    "--workspace",
    "--locked",
    "--no-fail-fast",
    "--profile",
    "ci",
];
const LIBTEST: &[&str] = &[
    "test",
    "--workspace",
    "--locked",
    "--no-fail-fast",
    "--lib",
    "--bins",
    "--tests",
];
const DOCTESTS: &[&str] = &["test", "--workspace", "--locked", "--doc"];

/// Runs every step, so that one look shows all that is wrong, and ends with a line that counts.
pub(crate) fn run(workspace: &Workspace, wish: Wish) -> Result<ExitCode> {
    let stage = Stage::new(workspace, wish)?;
    let tests = if has_nextest() { NEXTEST } else { LIBTEST };
    let mut count = Count::default();
    let mut success = true;
    for step in [
        FORMAT,
        CLIPPY,
        SCHEMA_CLIPPY,
        tests,
        SCHEMA_TESTS,
        OPENAPI_TESTS,
        DOCTESTS,
    ] {
        let start = Instant::now();
        eprintln!("==> cargo {}", step.join(" "));
        let ended = runner::run(&mut stage.command(step))?;
        count.add(ended.count);
        let word = if ended.success { "done" } else { "failed" };
        eprintln!("    {word} after {:.1} s", start.elapsed().as_secs_f64());
        success &= ended.success;
    }
    count.move_to_skipped(stage.n_skipped()?);
    let Count {
        passed,
        failed,
        skipped,
    } = count;
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(if success && failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What surrounds the tests.
#[derive(Debug)]
struct Stage<'a> {
    workspace: &'a Workspace,
    peers: PathBuf,
    /// A line for each test that lacked something; see `testkit::need`.
    skips: PathBuf,
}

impl<'a> Stage<'a> {
    fn new(workspace: &'a Workspace, wish: Wish) -> Result<Self> {
        let peers = install::everything(workspace, wish)?;
        let target = workspace.target();
        fs::create_dir_all(&target)?;
        let skips = target.join("skipped-tests");
        fs::write(&skips, "").with_context(|| format!("failed to write {}", skips.display()))?;
        Ok(Self {
            workspace,
            peers,
            skips,
        })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command
            .args(words)
            .current_dir(self.workspace.root())
            .env("ONRECORD_PEERS_DIR", &self.peers)
            .env("ONRECORD_SKIPS", &self.skips);
        command
    }

    /// How many tests said that they lack something.
    fn n_skipped(&self) -> Result<u64> {
        let text = fs::read_to_string(&self.skips)?;
        // One test may lack several things, but is skipped once.
        let tests: BTreeSet<_> = text
            .lines()
            .filter_map(|line| Some(line.split_once(": ")?.0))
            .collect();
        Ok(tests.len() as u64)
    }
}

fn has_nextest() -> bool {
    let version = Command::new("cargo")
        .args(["nextest", "--version"])
        .output();
    version.is_ok_and(|output| output.status.success())
}
