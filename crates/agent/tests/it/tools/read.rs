//! `read_file`.

use std::fs;

use serde_json::json;
use wire::limits::{TOOL_FILE_BYTES_MAX, TOOL_RESULT_BYTES_MAX};

use super::Place;

#[tokio::test]
async fn a_file_is_given_as_it_is() {
    let place = Place::with(&[("a.txt", "eins\r\nzwei\n\ndrei"), ("empty", "")]);
    let answer = place
        .answer("read_file", json!({ "file_path": "a.txt" }))
        .await;
    assert_eq!(answer, "eins\r\nzwei\n\ndrei");
    assert_eq!(
        place
            .answer("read_file", json!({ "file_path": "empty" }))
            .await,
        "[`empty` is empty.]"
    );
    let (kind, message) = place
        .refusal("read_file", json!({ "file_path": "none/b" }))
        .await;
    assert_eq!(kind, "not_found");
    assert!(message.contains("`none/b`"), "{message}");
}

#[tokio::test]
async fn some_lines_of_a_file_come_with_where_they_are() {
    let place = Place::with(&[("a.txt", "1\n2\n3\n4\n5")]);
    let read = |offset: u64, limit: u64| {
        place.answer(
            "read_file",
            json!({ "file_path": "a.txt", "offset": offset, "limit": limit }),
        )
    };
    assert_eq!(read(0, 5).await, "1\n2\n3\n4\n5");
    let some = "2\n3\n[Lines 2 to 3 of 5 are shown. Read on with offset 3.]\n";
    assert_eq!(read(1, 2).await, some);
    assert_eq!(read(4, 9).await, "5\n[Lines 5 to 5 of 5 are shown.]\n");
    assert_eq!(
        read(5, 1).await,
        "[`a.txt` has 5 lines; offset 5 is after its end.]\n"
    );
    assert_eq!(
        read(u64::MAX, u64::MAX)
            .await
            .matches("after its end")
            .count(),
        1
    );
    let args = json!({ "file_path": "a.txt", "limit": 0 });
    assert_eq!(place.refusal("read_file", args).await.0, "invalid_args");
}

#[tokio::test]
async fn a_long_file_is_cut_at_a_line_and_can_be_read_on() {
    let place = Place::new();
    let lines: Vec<String> = (0..40_000)
        .map(|number| format!("line {number} äöü\n"))
        .collect();
    place.put("long.txt", lines.concat());
    let (mut offset, mut all) = (0, String::new());
    loop {
        let args = json!({ "file_path": "long.txt", "offset": offset });
        let answer = place.answer("read_file", args).await;
        assert!(answer.len() <= TOOL_RESULT_BYTES_MAX);
        let (content, note) = answer.split_once("[Lines ").unwrap();
        all.push_str(content);
        let Some((_, next)) = note.split_once("Read on with offset ") else {
            break;
        };
        offset = next.trim_end_matches(".]\n").parse().unwrap();
    }
    assert!(all == lines.concat());
}

/// case-E01
#[tokio::test]
async fn a_line_that_is_too_long_is_cut_between_characters() {
    let place = Place::new();
    for shift in 0..4 {
        let line = format!("{}{}", "x".repeat(shift), "😀".repeat(100_000));
        place.put("line.txt", format!("{line}\nnext\n"));
        let answer = place
            .answer("read_file", json!({ "file_path": "line.txt" }))
            .await;
        assert!(answer.len() <= TOOL_RESULT_BYTES_MAX);
        let (content, notes) = answer.split_once('\n').unwrap();
        assert!(line.starts_with(content) && !content.is_empty());
        assert!(notes.contains("longer by"), "{notes}");
        assert!(notes.contains("Read on with offset 1."), "{notes}");
    }
}

#[tokio::test]
async fn what_is_no_text_is_said() {
    let place = Place::new();
    place.put("image", b"\x89PNG\0\0");
    place.put("latin", b"gr\xfcn\nbl\xe4u\n");
    let answer = place
        .answer("read_file", json!({ "file_path": "image" }))
        .await;
    assert_eq!(
        answer,
        "[`image` is a binary file of 6 bytes; its content is not shown.]"
    );
    let answer = place
        .answer("read_file", json!({ "file_path": "latin" }))
        .await;
    assert!(
        answer.starts_with("gr\u{fffd}n\nbl\u{fffd}u\n[Not all of the file is UTF-8: 2 places"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_file_over_the_limit_is_refused() {
    let place = Place::new();
    let file = fs::File::create(place.root.join("huge")).unwrap();
    file.set_len(TOOL_FILE_BYTES_MAX + 1).unwrap();
    let (kind, message) = place
        .refusal("read_file", json!({ "file_path": "huge" }))
        .await;
    assert_eq!(kind, "too_large");
    assert!(
        message.contains(&(TOOL_FILE_BYTES_MAX + 1).to_string()),
        "{message}"
    );
}
