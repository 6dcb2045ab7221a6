//! Measures a release build: runs the benchmarks of the crates, which print a line of JSON for each
//! figure, and makes one table of them.

use std::{fs, process::Command, process::ExitCode};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{export::grouped, workspace::Workspace};

const PAGE: &str = "docs/performance.md";

/// Crate and benchmark, in the order of the table.
const BENCHES: [[&str; 2]; 8] = [
    ["cli", "process"],
    ["cli", "stream"],
    ["cli", "acp"],
    ["cli", "daemon"],
    ["transcript", "record"],
    ["transcript", "read"],
    ["bus", "fanout"],
    ["sdk", "fold"],
];

const HEAD: &str = "\
# Performance

Release build, warm, medians of several runs. Written by `cargo xtask bench --write` on the machine named
below; the benchmarks are `crates/*/benches`. A figure without a bound explains another: what a bare loop
or an idle program takes on the same machine in the same run.

";

/// Where the table goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    Print,
    Write,
}

pub(crate) fn run(workspace: &Workspace, report: Report) -> Result<ExitCode> {
    // Before the work: afterwards the load would be our own.
    let machine = machine(workspace);
    let mut figures = Vec::new();
    for [package, bench] in BENCHES {
        figures.extend(measure(workspace, package, bench)?);
    }
    let page = format!("{HEAD}{machine}\n{}", table(&figures));
    print!("{page}");
    if report == Report::Write {
        fs::write(workspace.join(PAGE), page)?;
    }
    let all_met = figures.iter().all(|figure| figure.is_met() != Some(false));
    Ok(if all_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A line of a benchmark; its other side is `testkit::measure::Figure`.
#[derive(Debug, Deserialize)]
struct Figure {
    figure: String,
    value: f64,
    unit: String,
    bound: Option<Bound>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Figure {
    /// `None` where nothing is asked.
    fn is_met(&self) -> Option<bool> {
        Some(match self.bound? {
            Bound::AtMost(bound) => self.value <= bound,
            Bound::AtLeast(bound) => self.value >= bound,
        })
    }
}

fn measure(workspace: &Workspace, package: &str, bench: &str) -> Result<Vec<Figure>> {
    eprintln!("==> {package}: {bench}");
    let output = Command::new("cargo")
        .args(["bench", "--quiet", "--package", package, "--bench", bench])
        .current_dir(workspace.root())
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("failed to start cargo bench")?;
    ensure!(
        output.status.success(),
        "{package}: {bench} ended with {}",
        output.status
    );
    figures(&String::from_utf8(output.stdout)?)
}

/// The figures among the lines of a benchmark.
fn figures(output: &str) -> Result<Vec<Figure>> {
    let lines = output
        .lines()
        .filter(|line| line.starts_with("{\"figure\""));
    lines
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}

fn table(figures: &[Figure]) -> String {
    let mut table = "| what | measured | asked | |\n| --- | ---: | ---: | --- |\n".to_owned();
    for figure in figures {
        let unit = &figure.unit;
        let asked = match figure.bound {
            Some(Bound::AtMost(bound)) => format!("≤ {} {unit}", number(bound)),
            Some(Bound::AtLeast(bound)) => format!("≥ {} {unit}", number(bound)),
            None => String::new(),
        };
        let met = match figure.is_met() {
            Some(true) => "met",
            Some(false) => "**not met**",
            None => "",
        };
        let value = number(figure.value);
        table += &format!("| {} | {value} {unit} | {asked} | {met} |\n", figure.figure);
    }
    table
}

/// Three digits of a small number, all whole ones of a large one.
fn number(value: f64) -> String {
    if value >= 1000.0 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked above"
        )]
        return grouped(value.round() as u64);
    }
    let n_decimals = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.n_decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// What the figures depend on, in one line.
fn machine(workspace: &Workspace) -> String {
    let said = |program: &str, words: &[&str]| {
        let output = Command::new(program)
            .args(words)
            .current_dir(workspace.root())
            .output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        text.unwrap_or_default()
    };
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = model
        .and_then(|line| line.split_once(": "))
        .map_or("unknown", |(_, model)| model);
    let n_cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let target = workspace.target().to_string_lossy().into_owned();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    format!(
        "{model}, {n_cpus} CPUs, load {load}, {}, Linux {}, {}, commit {}.\n",
        said(
            "findmnt",
            &["--noheadings", "--output=FSTYPE", "--target", &target]
        ),
        said("uname", &["-r"]),
        said("rustc", &["--version"]),
        said("git", &["rev-parse", "--short", "HEAD"]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_a_table_that_says_what_is_met() {
        let output = "\
warning: something else
{\"figure\":\"start\",\"value\":1.4149,\"unit\":\"ms\",\"bound\":{\"at_most\":3.0}}
{\"figure\":\"rate\",\"value\":120.6,\"unit\":\"MB/s\",\"bound\":{\"at_least\":600.0}}
{\"figure\":\"bare\",\"value\":336918.4,\"unit\":\"records/s\"}
";
        let figures = figures(output).unwrap();
        let rows = "\
| start | 1.41 ms | ≤ 3 ms | met |
| rate | 121 MB/s | ≥ 600 MB/s | **not met** |
| bare | 336,918 records/s |  |  |
";
        assert!(table(&figures).ends_with(rows), "{}", table(&figures));
    }
}
