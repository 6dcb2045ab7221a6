//! `edit`, and the diffs of all changes.

use agent::tool::{Display, ToolError};
use serde_json::json;
use wire::limits::TOOL_DIFF_BYTES_MAX;

use super::Place;

async fn edited(content: &str, old: &str, new: &str) -> Result<String, ToolError> {
    let place = Place::with(&[("a.txt", content)]);
    let args = json!({ "file_path": "a.txt", "old_string": old, "new_string": new });
    place.run("edit", args).await.map(|_| place.text("a.txt"))
}

#[tokio::test]
async fn an_edit_replaces_the_one_place() {
    let place = Place::with(&[("a.rs", "fn a() {}\nfn b() {}\nfn c() {}\n")]);
    let args =
        json!({ "file_path": "a.rs", "old_string": "fn b() {}", "new_string": "fn d() {\n}" });
    let out = place.run("edit", args).await.unwrap();
    assert_eq!(
        out.text,
        "Changed `a.rs` in 1 place: 2 lines added, 1 line removed."
    );
    assert_eq!(place.text("a.rs"), "fn a() {}\nfn d() {\n}\nfn c() {}\n");
    let Display::Diff {
        diff,
        n_added,
        n_removed,
        ..
    } = out.display
    else {
        panic!()
    };
    assert_eq!((n_added, n_removed), (2, 1));
    assert!(diff.contains("-fn b() {}\n+fn d() {\n+}\n"), "{diff}");
}

#[tokio::test]
async fn an_edit_that_is_not_certain_changes_nothing() {
    for (content, old, kind, word) in [
        ("one two one", "one", "not_unique", "found 2 times"),
        ("aaa", "aa", "not_unique", "found 2 times"),
        ("one", "One", "no_match", "not found"),
        ("one", "one ", "no_match", "white space"),
        ("one", "", "invalid_args", "write_file"),
        ("new", "new", "invalid_args", "the same"),
    ] {
        let error = edited(content, old, "new").await.unwrap_err();
        assert_eq!(error.kind, kind, "{old:?}");
        assert!(error.message.contains(word), "{}", error.message);
    }
}

#[tokio::test]
async fn all_places_are_replaced_when_asked() {
    let place = Place::with(&[("a.txt", "one two one\none")]);
    let args = json!({
        "file_path": "a.txt", "old_string": "one", "new_string": "1", "replace_all": true
    });
    let text = place.answer("edit", args).await;
    assert_eq!(
        text,
        "Changed `a.txt` in 3 places: 2 lines added, 2 lines removed."
    );
    assert_eq!(place.text("a.txt"), "1 two 1\n1");
}

#[tokio::test]
async fn line_ends_of_a_file_are_kept() {
    let new = edited("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz").await.unwrap();
    assert_eq!(new, "x\r\ny\r\nz\r\nc\r\n");
    assert_eq!(
        edited("a\r\nb\r\n", "a", "x\ny").await.unwrap(),
        "x\r\ny\r\nb\r\n"
    );
    assert_eq!(
        edited("a\r\nb\r\n", "a\r\nb", "x\r\ny").await.unwrap(),
        "x\r\ny\r\n"
    );
    // Where both kinds are, the place that is changed decides.
    assert_eq!(
        edited("a\nb\r\nc\r\n", "b\nc", "x\ny").await.unwrap(),
        "a\nx\r\ny\r\n"
    );
    assert_eq!(
        edited("a\nb\r\n", "a", "x\ny").await.unwrap(),
        "x\ny\nb\r\n"
    );
}

#[tokio::test]
async fn bytes_that_are_no_text_survive_an_edit_beside_them() {
    let place = Place::new();
    place.put("latin", b"gr\xfcn\nrot\n");
    let args = json!({ "file_path": "latin", "old_string": "rot", "new_string": "blau" });
    place.answer("edit", args).await;
    assert_eq!(place.bytes("latin"), b"gr\xfcn\nblau\n");
    place.put("binary", b"a\0b");
    let args = json!({ "file_path": "binary", "old_string": "a", "new_string": "c" });
    assert_eq!(place.refusal("edit", args).await.0, "not_text");
}

#[tokio::test]
async fn an_empty_old_text_creates_a_file_that_is_not_there() {
    let place = Place::new();
    let args = json!({ "file_path": "new/a.txt", "old_string": "", "new_string": "text\n" });
    assert_eq!(
        place.answer("edit", args.clone()).await,
        "Created `new/a.txt` with 1 line."
    );
    assert_eq!(place.refusal("edit", args).await.0, "invalid_args");
    let args = json!({ "file_path": "none", "old_string": "a", "new_string": "b" });
    assert_eq!(place.refusal("edit", args).await.0, "not_found");
}

#[tokio::test]
async fn an_edit_that_would_grow_a_file_over_the_limit_is_refused() {
    let place = Place::with(&[("a.txt", &"a".repeat(100_000))]);
    let args = json!({
        "file_path": "a.txt", "old_string": "a", "new_string": "b".repeat(1_000), "replace_all": true
    });
    assert_eq!(place.refusal("edit", args).await.0, "too_large");
}

#[tokio::test]
async fn a_very_long_diff_is_cut() {
    let place = Place::with(&[("a.txt", &"old\n".repeat(50_000))]);
    let args = json!({ "file_path": "a.txt", "content": "new\n".repeat(50_000) });
    let Display::Diff {
        diff,
        n_added,
        n_removed,
        ..
    } = place.run("write_file", args).await.unwrap().display
    else {
        panic!()
    };
    assert_eq!((n_added, n_removed), (50_000, 50_000));
    assert!(diff.len() <= TOOL_DIFF_BYTES_MAX && diff.contains("bytes left out"));
}
