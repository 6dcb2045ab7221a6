//! Words that may not stand in a source, or not without their reason.

use super::Breach;
use crate::workspace::Text;

pub(super) fn check(texts: &[Text]) -> Vec<Breach> {
    texts
        .iter()
        .flat_map(|text| file(&text.path, &text.text))
        .collect()
}

fn file(path: &str, text: &str) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let is_rust = path.ends_with(".rs");
    let mut in_tests = path.contains("/tests/") || path.starts_with("crates/testkit/");
    for (n, line) in lines.iter().enumerate() {
        let mut breach = |why: &str| breaches.push(format!("{path}:{}: {why}", n + 1));
        for banned in BANNED_EVERYWHERE {
            if line.contains(&banned.concat()) {
                breach(&format!("{} belongs to one machine", banned.concat()));
            }
        }
        if !is_rust {
            continue;
        }
        in_tests |= line.trim() == "#[cfg(test)]";
        let code = without_comment(line);
        if code.contains(&UNBOUNDED.concat()) {
            breach("a queue has a maximum");
        }
        if in_tests && code.contains(&SLEEP.concat()) && !has_reason(&lines[..n], "// Sleeps:") {
            breach("a test waits for a level, not for time (or says `// Sleeps: why` above)");
        }
        if code.trim_start().starts_with("_ = ") && !has_reason(&lines[..n], "// Dropped:") {
            breach("a dropped result says `// Dropped: why` above");
        }
    }
    breaches
}

// In two parts each, so that this file may hold them.
const BANNED_EVERYWHERE: [[&str; 2]; 4] = [
    ["/work/", "main"],
    ["/work/", "shared"],
    ["/tmp", "/t/"],
    ["/tmp", "/c/"],
];
const UNBOUNDED: [&str; 2] = ["unbounded", "_channel"];
const SLEEP: [&str; 2] = ["sleep", "("];

/// Whether the comment that ends right above holds the word at the start of a line.
fn has_reason(above: &[&str], word: &str) -> bool {
    let comment = above
        .iter()
        .rev()
        .map(|line| line.trim())
        .take_while(|line| line.starts_with("//"));
    comment.into_iter().any(|line| line.starts_with(word))
}

/// The line up to its comment. A `//` within a text counts as one, which at worst misses a breach.
fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, lines: &[&str]) -> Vec<Breach> {
        file(path, &lines.join("\n"))
    }

    #[test]
    fn a_queue_without_a_maximum_is_found_and_a_word_about_it_is_not() {
        let call = format!("let (tx, rx) = {}();", UNBOUNDED.concat());
        assert_eq!(check("crates/a/src/a.rs", &["", &call]).len(), 1);
        assert_eq!(
            check("crates/a/src/a.rs", &[&format!("// no {call}")]),
            [""; 0]
        );
    }

    #[test]
    fn a_sleep_is_found_in_tests_only() {
        let call = format!("    thread::{}rest);", SLEEP.concat());
        assert_eq!(check("crates/a/src/a.rs", &[&call]), [""; 0]);
        assert_eq!(
            check("crates/a/src/a.rs", &["#[cfg(test)]", &call]).len(),
            1
        );
        assert_eq!(check("crates/a/tests/it/a.rs", &[&call]).len(), 1);
        assert_eq!(check("crates/testkit/src/a.rs", &[&call]).len(), 1);
        let reason = ["// Sleeps: the model is slow", "// on purpose.", &call];
        assert_eq!(check("crates/testkit/src/a.rs", &reason), [""; 0]);
    }

    #[test]
    fn a_dropped_result_says_why() {
        let path = "crates/a/src/a.rs";
        let broken = check(path, &["    _ = tx.send(1);"]);
        assert_eq!(
            broken,
            ["crates/a/src/a.rs:1: a dropped result says `// Dropped: why` above"]
        );
        assert_eq!(
            check(
                path,
                &[
                    "// Dropped: nobody is left to",
                    "// hear it.",
                    "_ = tx.send(1);"
                ]
            ),
            [""; 0]
        );
        assert_eq!(
            check(path, &["// Dropped: nobody.", "", "_ = tx.send(1);"]).len(),
            1
        );
        assert_eq!(check(path, &["match x {", "    _ => {}", "}"]), [""; 0]);
    }

    #[test]
    fn paths_of_one_machine_are_found_in_every_text() {
        let line = format!("see {}/README.md", BANNED_EVERYWHERE[0].concat());
        assert_eq!(check("docs/a.md", &["", &line]).len(), 1);
    }
}
