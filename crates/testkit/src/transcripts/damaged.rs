//! One file of every kind of damage, with what every reader must make of it.

use serde_json::json;

use super::{assistant, conversation, line, record, system, title, user, with};

/// A file with something wrong, and what every reader must make of it.
#[derive(Debug)]
pub struct Damaged {
    /// For the failure's text.
    pub name: &'static str,
    /// The file.
    pub bytes: Vec<u8>,
    /// The active chain that is left, by the numbers of its records.
    pub chain: Vec<u64>,
    /// Those of them before which records are missing.
    pub gaps: Vec<u64>,
    /// The words of the damage, in the order of the file.
    pub kinds: Vec<&'static str>,
}

/// One file of every kind of damage.
#[must_use]
pub fn damaged() -> Vec<Damaged> {
    [lines_damaged(), order_damaged()]
        .into_iter()
        .flatten()
        .collect()
}

fn case(
    name: &'static str,
    pieces: &[&[u8]],
    chain: &[u64],
    gaps: &[u64],
    kinds: &[&'static str],
) -> Damaged {
    Damaged {
        name,
        bytes: pieces.concat(),
        chain: chain.to_vec(),
        gaps: gaps.to_vec(),
        kinds: kinds.to_vec(),
    }
}

/// Damage on a line of its own. Every file holds the conversation 1 to 4.
fn lines_damaged() -> Vec<Damaged> {
    let records = conversation(4);
    let [a, b, c, d] = [0, 1, 2, 3].map(|n| line(&records[n]));
    let whole = [1, 2, 3, 4];
    let bare = |line: &[u8]| line[..line.len() - 1].to_vec();
    let cut = |line: &[u8]| line[..line.len() / 2].to_vec();
    let changed = |n: usize, from: &str, to: &[u8]| {
        let text = records[n].to_string();
        let at = text.find(from).expect("the builder wrote it");
        [
            &text.as_bytes()[..at],
            to,
            &text.as_bytes()[at + from.len()..],
            b"\n",
        ]
        .concat()
    };
    let half_pair = changed(1, "answer", br"an\ud83dswer");
    let half_letter = changed(1, "answer", b"ans\xd0wer");
    let lost_id = changed(1, "00000002-", b"0000000\xff-");
    let deep = {
        let nest = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        changed(
            1,
            "\"answer 2\"",
            format!("\"answer 2\",\"extra\":{nest}").as_bytes(),
        )
    };
    let torn_letter = {
        let at = a
            .windows(8)
            .position(|bytes| bytes == b"question")
            .expect("it is there");
        [
            &a[..at],
            "воп".as_bytes().split_last().expect("it is not empty").1,
        ]
        .concat()
    };
    vec![
        case("a whole file", &[&a, &b, &c, &d], &whole, &[], &[]),
        case(
            "line ends of Windows",
            &[&bare(&a), b"\r\n", &bare(&b), b"\r\n", &c, &d],
            &whole,
            &[],
            &[],
        ),
        case(
            "blank lines and a byte order mark",
            &[b"\xef\xbb\xbf", &a, b"\n  \n", &b, &c, b"\n", &d],
            &whole,
            &[],
            &[],
        ),
        case(
            "a last record without newline",
            &[&a, &b, &c, &bare(&d)],
            &whole,
            &[],
            &["missing_newline"],
        ),
        case(
            "a torn tail",
            &[&a, &b, &c, &cut(&d)],
            &[1, 2, 3],
            &[],
            &["torn_tail"],
        ),
        case(
            "a torn tail in the middle of a letter",
            &[&a, &b, &c, &d, &torn_letter],
            &whole,
            &[],
            &["torn_tail"],
        ),
        case(
            "a tail of one byte",
            &[&a, &b, &c, &d, b"{"],
            &whole,
            &[],
            &["torn_tail"],
        ),
        case(
            "garbage",
            &[&a, b"garbage\n", &b, &c, b"}{\n", &d],
            &whole,
            &[],
            &["bad_json", "bad_json"],
        ),
        case(
            "a garbage line before all",
            &[b"# notes\n", &a, &b, &c, &d],
            &whole,
            &[],
            &["bad_json"],
        ),
        case(
            "a line of NULs",
            &[&a, &[0; 50], b"\n", &b, &c, &d],
            &whole,
            &[],
            &["nul_bytes"],
        ),
        case(
            "NULs before a record",
            &[&a, &[0; 50], &b, &c, &d],
            &whole,
            &[],
            &["nul_bytes"],
        ),
        case(
            "NULs at the end",
            &[&a, &b, &c, &d, &[0; 4096]],
            &whole,
            &[],
            &["nul_bytes"],
        ),
        case(
            "JSON that is no record",
            &[&a, b"5\n", b"[{}]\n", b"{\"type\":\"user\"}\n", &b, &c, &d],
            &whole,
            &[],
            &["not_a_record"; 3],
        ),
        case(
            "bytes that are no UTF-8 beside",
            &[&a, b"\xff\xfe\n", &b, &c, &d],
            &whole,
            &[],
            &["bad_utf8"],
        ),
        case(
            "a letter torn inside a record",
            &[&a, &half_letter, &c, &d],
            &whole,
            &[],
            &["bad_utf8"],
        ),
        case(
            "an id that is no UTF-8",
            &[&a, &lost_id, &c, &d],
            &[1, 3, 4],
            &[3],
            &["bad_utf8", "missing_parent"],
        ),
        case(
            "half a surrogate pair",
            &[&a, &half_pair, &c, &d],
            &whole,
            &[],
            &["lone_surrogate"],
        ),
        case("a deep record", &[&a, &deep, &c, &d], &whole, &[], &[]),
        case(
            "two records on a line",
            &[&a, &bare(&b), &c, &d],
            &whole,
            &[],
            &["glued"],
        ),
        case(
            "all on a line, NULs between",
            &[&bare(&a), b" ", &bare(&b), b"\0\0", &bare(&c), &d],
            &whole,
            &[],
            &["glued"],
        ),
        case(
            "a torn record and a whole one on a line",
            &[&a, &b, &cut(&d), &c, &d],
            &whole,
            &[],
            &["fragment"],
        ),
        case(
            "a letter torn and a whole record behind it",
            &[&a, &torn_letter, &b, &c, &d],
            &whole,
            &[],
            &["fragment"],
        ),
        case(
            "a whole record and a torn one on a line",
            &[&a, &b, &c, &bare(&d), &cut(&a)],
            &whole,
            &[],
            &["fragment"],
        ),
        case(
            "torn, whole, torn, whole",
            &[&a, &cut(&d), &bare(&b), &cut(&a), &c, &d],
            &whole,
            &[],
            &["glued", "fragment"],
        ),
        case(
            "half a record, then the whole",
            &[&a, &b, &c, &cut(&d), b"\n", &d],
            &whole,
            &[],
            &["bad_json"],
        ),
    ]
}

/// Damage of what hangs from what.
fn order_damaged() -> Vec<Damaged> {
    let records = conversation(6);
    let all = |skip: u64| -> Vec<u8> {
        let kept = (1_u64..).zip(&records).filter(|(n, _)| *n != skip);
        kept.flat_map(|(_, record)| line(record)).collect()
    };
    let [a, b, c, d] = [0, 1, 2, 3].map(|n| line(&records[n]));
    let other_session = |n: u64| {
        let record = user(n, Some(n - 1), "from elsewhere");
        line(&with(
            record,
            "sessionId",
            json!("99999999-0000-4000-8000-000000000009"),
        ))
    };
    let circle = line(&user(1, Some(2), "question 1"));
    let own_parent = line(&user(3, Some(3), "question 3"));
    let no_parent = line(&with(records[2].clone(), "parentUuid", json!(5)));
    let second_part = line(&assistant(2, Some(1), " and more"));
    let unknown = line(&with(
        record(5, Some(4), "martian"),
        "future",
        json!({"a": [1]}),
    ));
    let unknown_subtype = line(&system(4, Some(3), "future_thing", json!({"b": 2})));
    let side_title = line(&title(9, Some(2), "name"));
    let stale_title = line(&title(9, Some(1), "name"));
    let next_title = line(&title(9, Some(4), "name"));
    let artifact = line(&system(9, Some(1), "session_artifact_event", json!({})));
    let dead = line(&assistant(9, Some(1), "given up"));
    let again = line(&user(8, None, "from the beginning"));
    vec![
        case(
            "a missing record",
            &[&all(3)],
            &[1, 2, 4, 5, 6],
            &[4],
            &["missing_parent"],
        ),
        case(
            "a missing beginning",
            &[&all(1)],
            &[2, 3, 4, 5, 6],
            &[2],
            &["missing_parent"],
        ),
        case("a circle", &[&circle, &b, &c], &[1, 2, 3], &[1], &["cycle"]),
        case(
            "a record that is its own parent",
            &[&a, &b, &own_parent, &d],
            &[1, 2, 3, 4],
            &[3],
            &["cycle"],
        ),
        case(
            "a parent that is no id",
            &[&a, &b, &no_parent, &d],
            &[1, 2, 3, 4],
            &[3],
            &["missing_parent"],
        ),
        case(
            "a child before its parent",
            &[&a, &c, &b, &d],
            &[1, 2, 3, 4],
            &[],
            &[],
        ),
        case(
            "the same record twice",
            &[&a, &b, &b, &c, &d, &a],
            &[1, 2, 3, 4],
            &[],
            &["duplicate", "duplicate"],
        ),
        case(
            "two records with one id",
            &[&a, &b, &second_part, &c, &d],
            &[1, 2, 3, 4],
            &[],
            &["same_id"],
        ),
        case(
            "a part of an old record at the end",
            &[&a, &b, &c, &d, &second_part],
            &[1, 2, 3, 4],
            &[],
            &["same_id"],
        ),
        case(
            "another session's records",
            &[&a, &b, &other_session(3), &d, &other_session(5)],
            &[1, 2, 3, 4, 5],
            &[],
            &["other_session", "other_session"],
        ),
        case(
            "an unknown type at the end",
            &[&a, &b, &c, &d, &unknown],
            &[1, 2, 3, 4],
            &[],
            &[],
        ),
        case(
            "an unknown subtype",
            &[&a, &b, &c, &unknown_subtype],
            &[1, 2, 3, 4],
            &[],
            &[],
        ),
        case(
            "a title beside the conversation",
            &[&a, &b, &side_title, &c, &d],
            &[1, 2, 3, 4],
            &[],
            &[],
        ),
        case(
            "a title at the end",
            &[&a, &b, &c, &d, &next_title],
            &[1, 2, 3, 4, 9],
            &[],
            &[],
        ),
        case(
            "a title at the end, beside the conversation",
            &[&a, &b, &c, &d, &stale_title],
            &[1, 2, 3, 4],
            &[],
            &[],
        ),
        case(
            "a record beside at the end",
            &[&a, &b, &c, &d, &artifact],
            &[1, 2, 3, 4],
            &[],
            &[],
        ),
        case(
            "a branch that was given up",
            &[&a, &dead, &b, &c, &d],
            &[1, 2, 3, 4],
            &[],
            &[],
        ),
        case(
            "gone back to the beginning",
            &[&a, &b, &again],
            &[8],
            &[],
            &[],
        ),
        case("no record at all", &[b"\n\n"], &[], &[], &[]),
    ]
}
