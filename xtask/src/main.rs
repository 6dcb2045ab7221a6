//! Developer commands: `cargo xtask <command>`.
//!
//! It knows the workspace as files and programs, and links nothing of the product, so that it can
//! still say what is wrong with a tree that does not build.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its users read it on a terminal"
)]

mod bench;
mod export;
mod install;
mod runner;
mod test;
mod tidy;
mod workspace;

use std::{env, process::ExitCode};

use crate::workspace::Workspace;

const HELP: &str = "\
Usage: cargo xtask <command>

  test [--install]    all checks and tests, as CI runs them (`ci` is the same);
                      --install brings the programs that are missing
  tidy                the rules that a compiler does not know
  export              writes what is generated: docs/limits.md and spec/
  bench [--write]     measures a release build; --write puts it into docs/performance.md
";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match command(&words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command(words: &[&str]) -> anyhow::Result<ExitCode> {
    let workspace = Workspace::find()?;
    match words {
        ["test" | "ci"] => test::run(&workspace, install::Wish::from_env()),
        ["test" | "ci", "--install"] => test::run(&workspace, install::Wish::Everything),
        ["tidy"] => tidy::run(&workspace),
        ["export"] => export::run(&workspace),
        ["bench"] => bench::run(&workspace, bench::Report::Print),
        ["bench", "--write"] => bench::run(&workspace, bench::Report::Write),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprint!("xtask: not understood: {}\n\n{HELP}", words.join(" "));
            Ok(ExitCode::FAILURE)
        }
    }
}
