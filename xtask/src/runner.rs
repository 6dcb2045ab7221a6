//! Running programs whose output a person follows, and counting what test runners say they did.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
};

use anyhow::{Context, Result};

/// Tests of one or more runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Count {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Tests that returned early are passed to their runner, and skipped in truth.
    pub(crate) fn move_to_skipped(&mut self, n_tests: u64) {
        let n_tests = n_tests.min(self.passed);
        self.passed -= n_tests;
        self.skipped += n_tests;
    }
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) success: bool,
    pub(crate) count: Count,
}

/// Runs the program, passes on what it says as it says it, and counts.
pub(crate) fn run(command: &mut Command) -> Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("failed to start {name}"))?;
    let stdout = child.stdout.take().context("stdout was piped")?;
    let stderr = child.stderr.take().context("stderr was piped")?;
    let count = Mutex::new(Count::default());
    thread::scope(|scope| {
        scope.spawn(|| pass_on(stdout, std::io::stdout(), &count));
        scope.spawn(|| pass_on(stderr, std::io::stderr(), &count));
    });
    let status = child.wait()?;
    let count = *count.lock().expect("nobody panics while counting");
    Ok(Ended {
        success: status.success(),
        count,
    })
}

fn pass_on(from: impl Read, mut to: impl Write, count: &Mutex<Count>) {
    let mut lines = BufReader::new(from);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        // Dropped: the checks go on when nobody reads along.
        _ = to.write_all(&line);
        if let Some(counted) = counted(&String::from_utf8_lossy(&line)) {
            count
                .lock()
                .expect("nobody panics while counting")
                .add(counted);
        }
        line.clear();
    }
}

/// What a runner's closing line counts. The closing line of a failed test's own process, which
/// nextest repeats, is indented and counts nothing.
fn counted(line: &str) -> Option<Count> {
    let line = without_colours(line);
    if let Some(rest) = line.strip_prefix("test result: ") {
        let mut count = Count {
            passed: number_before(rest, " passed")?,
            ..Count::default()
        };
        count.failed = number_before(rest, " failed")?;
        count.skipped = number_before(rest, " ignored")?;
        return Some(count);
    }
    let rest = line.trim_start().strip_prefix("Summary [")?;
    let (_, rest) = rest
        .split_once("tests run:")
        .or_else(|| rest.split_once("test run:"))?;
    Some(Count {
        passed: number_before(rest, " passed").unwrap_or(0),
        failed: ["failed", "timed out", "exec failed"]
            .into_iter()
            .filter_map(|word| number_before(rest, &format!(" {word}")))
            .sum(),
        skipped: number_before(rest, " skipped").unwrap_or(0),
    })
}

/// The number right before the first occurrence of `word` that has one.
fn number_before(text: &str, word: &str) -> Option<u64> {
    text.match_indices(word).find_map(|(at, _)| {
        let head = &text[..at];
        let digits = head.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        head[digits..].parse().ok()
    })
}

fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let head = parts.next().unwrap_or_default().to_owned();
    parts.fold(head, |text, part| {
        text + part.split_once('m').map_or(part, |(_, rest)| rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(passed: u64, failed: u64, skipped: u64) -> Option<Count> {
        Some(Count {
            passed,
            failed,
            skipped,
        })
    }

    #[test]
    fn closing_lines_of_both_runners_are_counted() {
        let libtest = "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 7 filtered out; finished in 0.10s";
        assert_eq!(counted(libtest), count(3, 1, 2));
        let nextest =
            "     Summary [   0.123s] 12 tests run: 11 passed (1 slow), 1 failed, 2 skipped";
        assert_eq!(counted(nextest), count(11, 1, 2));
        let nextest = "\u{1b}[32;1m     Summary\u{1b}[0m [   0.004s] \u{1b}[1m1\u{1b}[0m test run: \u{1b}[1m1\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, \u{1b}[1m0\u{1b}[0m skipped";
        assert_eq!(counted(nextest), count(1, 0, 0));
        let nextest = "Summary [ 9.0s] 5/6 tests run: 2 passed, 2 failed, 1 timed out, 0 skipped";
        assert_eq!(counted(nextest), count(2, 3, 0));
        assert_eq!(counted("all 3 passed"), None);
        assert_eq!(counted(&format!("    {libtest}")), None);
    }

    #[test]
    fn a_skipped_test_is_counted_once() {
        let mut all = Count {
            passed: 5,
            failed: 0,
            skipped: 1,
        };
        all.move_to_skipped(2);
        assert_eq!(Some(all), count(3, 0, 3));
    }

    #[test]
    fn output_is_passed_on_as_it_is_and_counted() {
        let output = "\u{fffd} one\ntest result: ok. 2 passed; 0 failed; 0 ignored;\nlast";
        let (mut heard, total) = (Vec::new(), Mutex::default());
        pass_on(output.as_bytes(), &mut heard, &total);
        assert_eq!(heard, output.as_bytes());
        assert_eq!(Some(total.into_inner().unwrap()), count(2, 0, 0));
    }

    #[test]
    fn the_end_of_a_program_is_seen() {
        assert!(run(&mut Command::new("true")).unwrap().success);
        assert!(!run(&mut Command::new("false")).unwrap().success);
    }
}
