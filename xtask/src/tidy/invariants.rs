//! Invariants have both ends: a number in `ARCHITECTURE.md`, the code that keeps it and a test,
//! both of which name it in a comment as `Invariant 3:`.

use std::collections::BTreeSet;

use super::Breach;
use crate::workspace::Text;

const BOOK: &str = "ARCHITECTURE.md";
const WORD: &str = "Invariant";

#[derive(Debug, Default)]
struct Named {
    in_book: BTreeSet<u32>,
    in_code: BTreeSet<u32>,
    in_tests: BTreeSet<u32>,
}

pub(super) fn check(texts: &[Text]) -> Vec<Breach> {
    let mut named = Named::default();
    let mut breaches = Vec::new();
    for text in texts {
        if text.path == BOOK {
            named.in_book.extend(text.text.lines().filter_map(of_book));
        } else if text.path.starts_with("crates/") && text.path.ends_with(".rs") {
            breaches.extend(named.read(text));
        }
    }
    let all: BTreeSet<u32> = [&named.in_book, &named.in_code, &named.in_tests]
        .into_iter()
        .flatten()
        .copied()
        .collect();
    for n in all {
        if !named.in_book.contains(&n) {
            breaches.push(format!("{WORD} {n}: not in {BOOK}"));
        }
        if !named.in_code.contains(&n) {
            breaches.push(format!("{WORD} {n}: no code names it"));
        }
        if !named.in_tests.contains(&n) {
            breaches.push(format!("{WORD} {n}: no test names it"));
        }
    }
    breaches
}

impl Named {
    fn read(&mut self, text: &Text) -> Vec<Breach> {
        let mut breaches = Vec::new();
        let mut in_tests = text.path.contains("/tests/");
        for (n, line) in text.text.lines().enumerate() {
            in_tests |= line.trim() == "#[cfg(test)]";
            let Some((_, comment)) = line.split_once("//") else {
                continue;
            };
            let Some((_, rest)) = comment.split_once(WORD) else {
                continue;
            };
            let numbers = if in_tests {
                &mut self.in_tests
            } else {
                &mut self.in_code
            };
            match number(rest) {
                Some(number) => drop(numbers.insert(number)),
                None if rest.starts_with(':') => {
                    breaches.push(format!(
                        "{}:{}: an invariant has its number in {BOOK}",
                        text.path,
                        n + 1
                    ));
                }
                None => {}
            }
        }
        breaches
    }
}

/// The number of a line such as `**Invariant 3.** What holds.`
fn of_book(line: &str) -> Option<u32> {
    number(
        line.trim_start_matches(['-', '*', ' '])
            .strip_prefix(WORD)?,
    )
}

/// The number at the start, after a space.
fn number(text: &str) -> Option<u32> {
    let digits = text.strip_prefix(' ')?;
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(book: &str, code: &str, test: &str) -> Vec<Breach> {
        let text = |path: &str, text: &str| Text {
            path: path.into(),
            text: text.into(),
        };
        super::check(&[
            text(BOOK, book),
            text("crates/a/src/a.rs", code),
            text("crates/a/tests/it/a.rs", test),
        ])
    }

    #[test]
    fn a_whole_invariant_is_no_breach() {
        let book = "- **Invariant 1.** It holds.\nAn Invariant has a number.\n";
        assert_eq!(
            check(book, "// Invariant 1: so it holds.", "/// Invariant 1."),
            [""; 0]
        );
    }

    #[test]
    fn a_missing_end_is_found() {
        assert_eq!(
            check("", "// Invariant 2: x", "/// Invariant 2."),
            ["Invariant 2: not in ARCHITECTURE.md"]
        );
        assert_eq!(
            check("**Invariant 2.**", "", "/// Invariant 2."),
            ["Invariant 2: no code names it"]
        );
        assert_eq!(
            check("**Invariant 2.**", "// Invariant 2: x", ""),
            ["Invariant 2: no test names it"]
        );
        let broken = check("", "\n// Invariant: it holds.", "");
        assert_eq!(
            broken,
            ["crates/a/src/a.rs:2: an invariant has its number in ARCHITECTURE.md"]
        );
    }
}
