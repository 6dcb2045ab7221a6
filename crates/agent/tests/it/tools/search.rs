//! `list_directory`, `glob` and `grep_search`.

use std::{fs, os::unix::fs::symlink, path::Path};

use serde_json::json;
use tempfile::TempDir;
use wire::limits::{
    TOOL_FILE_BYTES_MAX, TOOL_MATCH_LINE_BYTES_MAX, TOOL_RESULT_BYTES_MAX, TOOL_ROWS_MAX,
};

use super::Place;

#[tokio::test]
async fn a_listing_is_sorted_and_shows_kinds_and_sizes() {
    let place = Place::with(&[
        ("b.txt", "12345"),
        (".hidden", ""),
        ("sub/x", ""),
        ("a\nb", ""),
    ]);
    symlink("b.txt", place.root.join("link")).unwrap();
    let answer = place.answer("list_directory", json!({ "path": "." })).await;
    assert_eq!(
        answer,
        ".hidden (0 bytes)\na\\nb (0 bytes)\nb.txt (5 bytes)\nlink -> b.txt\nsub/\n\
         [5 entries in `.`.]\n"
    );
    let args = json!({ "path": ".", "ignore": ["*.txt", ".*", "a*"] });
    let answer = place.answer("list_directory", args).await;
    assert_eq!(
        answer,
        "link -> b.txt\nsub/\n[2 entries in `.`; 3 ignored.]\n"
    );
    let args = json!({ "path": ".", "ignore": ["[" ] });
    assert_eq!(
        place.refusal("list_directory", args).await.0,
        "invalid_args"
    );
    assert_eq!(
        place
            .refusal("list_directory", json!({ "path": "none" }))
            .await
            .0,
        "not_found"
    );
}

#[tokio::test]
async fn rows_beyond_the_limit_are_counted_and_not_shown() {
    let place = Place::new();
    for number in 0..TOOL_ROWS_MAX + 10 {
        place.put(&format!("file-{number:05}"), "match\n");
    }
    let last = format!("file-{:05}", TOOL_ROWS_MAX - 1);
    for (tool, args) in [
        ("list_directory", json!({ "path": "." })),
        ("glob", json!({ "pattern": "*" })),
        (
            "grep_search",
            json!({ "pattern": "match", "limit": 1_000_000 }),
        ),
    ] {
        let answer = place.answer(tool, args).await;
        assert!(answer.len() <= TOOL_RESULT_BYTES_MAX);
        assert_eq!(answer.lines().count(), TOOL_ROWS_MAX + 1, "{tool}");
        assert!(
            answer.lines().rev().nth(1).unwrap().starts_with(&last),
            "{tool}"
        );
        let note = answer.lines().last().unwrap();
        assert!(
            note.contains("10 more are not shown") || note.contains("first 2000"),
            "{note}"
        );
    }
}

#[tokio::test]
async fn a_glob_finds_files_by_path_and_leaves_out_what_git_ignores() {
    let place = Place::with(&[
        ("a.rs", ""),
        ("src/b.rs", ""),
        ("src/deep/c.rs", ""),
        ("src/d.txt", ""),
        (".github/e.rs", ""),
        ("target/f.rs", ""),
        (".git/g.rs", ""),
        (".gitignore", "/target\n"),
    ]);
    let glob = |pattern: &str| place.answer("glob", json!({ "pattern": pattern }));
    assert_eq!(
        glob("**/*.rs").await,
        ".github/e.rs\na.rs\nsrc/b.rs\nsrc/deep/c.rs\n"
    );
    assert_eq!(glob("*.rs").await, "a.rs\n");
    assert_eq!(glob("./src/*.{rs,txt}").await, "src/b.rs\nsrc/d.txt\n");
    let absolute = place.root.join("src/*").to_str().unwrap().to_owned();
    assert_eq!(glob(&absolute).await, "src/b.rs\nsrc/d.txt\n");
    assert_eq!(glob("*.py").await, "[No file matches in `.`.]\n");
    let args = json!({ "pattern": "*.rs", "path": "src/deep" });
    assert_eq!(place.answer("glob", args).await, "src/deep/c.rs\n");
    for pattern in ["../*", "src/../../*", "/etc/*", "{a"] {
        let (kind, _) = place.refusal("glob", json!({ "pattern": pattern })).await;
        assert_eq!(kind, "invalid_args", "{pattern}");
    }
}

#[tokio::test]
async fn a_search_gives_path_line_and_text() {
    let place = Place::with(&[
        ("src/a.rs", "fn main() {\r\n    hello();\r\n}\r\n"),
        ("src/b.txt", "Hello\nhello"),
        ("ignored/c.rs", "hello"),
        (".gitignore", "ignored/\n"),
        ("binary", "hello\0"),
    ]);
    let outside = place.dir.path().join("outside");
    fs::write(&outside, "hello").unwrap();
    symlink(&outside, place.root.join("link")).unwrap();
    let answer = place
        .answer("grep_search", json!({ "pattern": "hello" }))
        .await;
    assert_eq!(answer, "src/a.rs:2:    hello();\nsrc/b.txt:2:hello\n");
    let answer = place
        .answer("grep_search", json!({ "pattern": "(?i)^hello$" }))
        .await;
    assert_eq!(answer, "src/b.txt:1:Hello\nsrc/b.txt:2:hello\n");
    for args in [
        json!({ "pattern": "hello", "glob": "*.rs" }),
        json!({ "pattern": "hello", "glob": "src/*.rs" }),
        json!({ "pattern": "hello", "path": "src/a.rs", "glob": "*.rs" }),
        json!({ "pattern": "hello", "path": "src/a.rs" }),
    ] {
        assert_eq!(
            place.answer("grep_search", args).await,
            "src/a.rs:2:    hello();\n"
        );
    }
    let args = json!({ "pattern": "hello", "limit": 1 });
    let answer = place.answer("grep_search", args).await;
    assert!(
        answer.starts_with("src/a.rs:2:    hello();\n[Only the first 1 row"),
        "{answer}"
    );
    for args in [
        json!({ "pattern": "(" }),
        json!({ "pattern": "a\nb" }),
        json!({ "pattern": "a", "glob": "{" }),
        json!({ "pattern": "a", "limit": 0 }),
    ] {
        assert_eq!(place.refusal("grep_search", args).await.0, "invalid_args");
    }
}

/// case-E01
#[tokio::test]
async fn a_long_line_is_shown_around_its_match() {
    let place = Place::new();
    for shift in 0..4 {
        let side = format!("{}{}", "x".repeat(shift), "😀".repeat(5_000));
        place.put("min.js", format!("{side}needle{side}\n"));
        let answer = place
            .answer("grep_search", json!({ "pattern": "needle" }))
            .await;
        assert!(
            answer.contains("needle") && !answer.contains('\u{fffd}'),
            "{answer}"
        );
        assert!(
            answer.len() <= TOOL_MATCH_LINE_BYTES_MAX + "min.js:1:\n".len(),
            "{}",
            answer.len()
        );
    }
}

#[tokio::test]
async fn a_search_says_which_files_it_could_not_take() {
    let place = Place::with(&[("a", "x\n")]);
    let file = fs::File::create(place.root.join("huge")).unwrap();
    file.set_len(TOOL_FILE_BYTES_MAX + 1).unwrap();
    let answer = place.answer("grep_search", json!({ "pattern": "x" })).await;
    assert!(
        answer.starts_with("a:1:x\n[1 file not searched"),
        "{answer}"
    );
    let (kind, _) = place
        .refusal("grep_search", json!({ "pattern": "x", "path": "none" }))
        .await;
    assert_eq!(kind, "not_found");
}

#[tokio::test]
async fn a_path_of_a_result_is_taken_by_the_other_tools() {
    let other = TempDir::new().unwrap();
    let other_place = fs::canonicalize(other.path()).unwrap();
    fs::write(other_place.join("a.txt"), "needle").unwrap();
    let place = Place::allowing(vec![other_place.clone()]);
    let args = json!({ "pattern": "*", "path": other_place.to_str().unwrap() });
    let found = place.answer("glob", args).await;
    assert!(Path::new(found.trim_end()).is_absolute(), "{found}");
    let read = place
        .answer("read_file", json!({ "file_path": found.trim_end() }))
        .await;
    assert_eq!(read, "needle");
}
