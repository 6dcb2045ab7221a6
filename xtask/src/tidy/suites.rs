//! No test file is forgotten: each `tests/it/*.rs` is a module of its `main.rs`.

use super::Breach;
use crate::workspace::Text;

const MAIN: &str = "/tests/it/main.rs";

pub(super) fn check(texts: &[Text]) -> Vec<Breach> {
    texts
        .iter()
        .filter_map(|text| breach(text, texts))
        .collect()
}

fn breach(text: &Text, texts: &[Text]) -> Option<Breach> {
    let (root, file) = text.path.split_once("/tests/")?;
    let name = file.strip_suffix(".rs")?;
    let Some(name) = name.strip_prefix("it/") else {
        // Modules of a module are the module's to name, and data folders hold what they like.
        let is_binary = !name.contains('/');
        return is_binary.then(|| format!("{}: a crate has one test binary, tests/it", text.path));
    };
    let name = name.strip_suffix("/mod").unwrap_or(name);
    if name == "main" || name.contains('/') {
        return None;
    }
    let main = texts
        .iter()
        .find(|text| text.path == format!("{root}{MAIN}"));
    let Some(main) = main else {
        return Some(format!("{}: no main.rs beside it", text.path));
    };
    let line = format!("mod {name};");
    let is_named = main.text.lines().any(|at| at.trim() == line);
    (!is_named).then(|| format!("{}: not named in main.rs", text.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)]) -> Vec<Breach> {
        let text = |(path, text): &(&str, &str)| Text {
            path: (*path).into(),
            text: (*text).into(),
        };
        super::check(&files.iter().map(text).collect::<Vec<_>>())
    }

    #[test]
    fn a_named_file_is_no_breach() {
        let main = (
            "crates/a/tests/it/main.rs",
            "//! Tests.\n\nmod one;\nmod two;\n",
        );
        let files = [
            main,
            ("crates/a/tests/it/one.rs", ""),
            ("crates/a/tests/it/two/mod.rs", ""),
            ("crates/a/tests/it/two/part.rs", ""),
        ];
        assert_eq!(check(&files), [""; 0]);
    }

    #[test]
    fn a_forgotten_file_is_found() {
        let main = ("crates/a/tests/it/main.rs", "// mod one;\n");
        let files = [main, ("crates/a/tests/it/one.rs", "")];
        assert_eq!(
            check(&files),
            ["crates/a/tests/it/one.rs: not named in main.rs"]
        );
    }

    #[test]
    fn a_second_test_binary_is_found() {
        let files = [("crates/a/tests/other.rs", "")];
        assert_eq!(
            check(&files),
            ["crates/a/tests/other.rs: a crate has one test binary, tests/it"]
        );
    }
}
