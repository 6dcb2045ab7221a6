//! Measuring: programs with their time and memory, samples with their middle, and figures that
//! `cargo xtask bench` collects.

use std::{
    fs, io,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde::Serialize;
use wait4::Wait4;

/// What is asked of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

/// One measured value.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// What was measured; also marks the line for `cargo xtask bench`.
    pub figure: String,
    /// How much of it.
    pub value: f64,
    /// In what.
    pub unit: &'static str,
    /// What is asked; absent for a value that only explains another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
}

impl Figure {
    /// Prints the figure as one line of JSON on standard output.
    ///
    /// # Panics
    /// Where standard output is closed.
    #[expect(
        clippy::print_stdout,
        reason = "standard output is how a benchmark answers"
    )]
    pub fn print(&self) {
        let line = serde_json::to_string(self).expect("numbers and texts are JSON");
        println!("{line}");
    }
}

/// Prints a figure of which something is asked.
pub fn print(figure: &str, value: f64, unit: &'static str, bound: Bound) {
    Figure {
        figure: figure.to_owned(),
        value,
        unit,
        bound: Some(bound),
    }
    .print();
}

/// Prints a figure that only explains another.
pub fn print_reference(figure: &str, value: f64, unit: &'static str) {
    Figure {
        figure: figure.to_owned(),
        value,
        unit,
        bound: None,
    }
    .print();
}

/// Samples of one thing.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    values: Vec<f64>,
}

impl Samples {
    /// The value below which the given part of all samples lies; `0.5` is the middle.
    ///
    /// # Panics
    /// Where there are no samples.
    #[must_use]
    pub fn quantile(&self, part: f64) -> f64 {
        assert!(!self.values.is_empty(), "nothing was measured");
        let mut values = self.values.clone();
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "samples are few, and the part lies between 0 and 1"
        )]
        let index = (part * last as f64).round() as usize;
        values[index.min(last)]
    }

    /// The middle one.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self {
            values: values.into_iter().collect(),
        }
    }
}

impl Extend<f64> for Samples {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        self.values.extend(values);
    }
}

/// What one run of a program took.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// From before it was started until it had ended.
    pub wall: Duration,
    /// Most memory resident at a time. A process starts as a picture of its parent, so this is never
    /// less than the parent had: measure from a small one.
    pub rss_bytes_max: u64,
    /// Its exit code; `None` where a signal ended it.
    pub code: Option<i32>,
}

/// Runs a program to its end, its output thrown away.
///
/// # Panics
/// Where it cannot be started.
pub fn measure(command: &mut Command) -> Usage {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let start = Instant::now();
    let child = command
        .spawn()
        .expect("a program that is measured can be started");
    let ended = child.wait4().expect("a child of ours can be waited for");
    Usage {
        wall: start.elapsed(),
        rss_bytes_max: ended.rusage.maxrss,
        code: ended.status.code(),
    }
}

/// The most memory that this process has had resident since [`forget_rss_max`].
///
/// # Errors
/// Where `/proc` is not there.
pub fn rss_bytes_max() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| {
        line.trim()
            .trim_end_matches("kB")
            .trim()
            .parse::<u64>()
            .ok()
    });
    kib.map(|kib| kib << 10)
        .ok_or_else(|| io::Error::other("no VmHWM in /proc/self/status"))
}

/// Begins the count of [`rss_bytes_max`] anew, at what is resident now.
///
/// # Errors
/// Where the kernel does not offer it.
pub fn forget_rss_max() -> io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}
