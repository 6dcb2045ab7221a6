//! What a reader makes of whole, damaged and ruined files.

use std::{collections::BTreeSet, fs, io::Write, os::unix::fs::FileTypeExt, path::Path};

use proptest::prelude::*;
use serde_json::json;
use testkit::transcripts::{self, Damaged, conversation, id, line, with};
use transcript::{
    reader::{DAMAGE_KEPT_MAX, Damage, Loaded, ReadError, load},
    verify::verify,
};

fn loaded(bytes: &[u8]) -> Loaded {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.jsonl");
    fs::write(&path, bytes).unwrap();
    let loaded = load(&path).unwrap();
    let report = verify(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes, "reading never writes");
    // One reader: a check and a load see the same file.
    assert_eq!(report.damage, loaded.damage);
    assert_eq!(report.n_records, loaded.n_records);
    assert_eq!(report.n_gaps, loaded.n_gaps);
    assert_eq!(report.n_forks, loaded.n_forks);
    assert_eq!(report.n_bytes, bytes.len() as u64);
    loaded
}

fn uuids(loaded: &Loaded) -> Vec<&str> {
    loaded
        .records
        .iter()
        .map(|record| record.uuid.as_str())
        .collect()
}

fn kind(damage: &Damage) -> String {
    serde_json::to_value(damage).unwrap()["kind"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// case-D01 to D03, E02, E03, E05, F01, F09; B3.
#[test]
fn damage_never_loses_a_good_record() {
    for Damaged {
        name,
        bytes,
        chain,
        gaps,
        kinds,
    } in transcripts::damaged()
    {
        let loaded = loaded(&bytes);
        let ids = |numbers: &[u64]| numbers.iter().map(|n| id(*n)).collect::<Vec<_>>();
        assert_eq!(uuids(&loaded), ids(&chain), "{name}: {:?}", loaded.damage);
        let with_gap: Vec<_> = loaded
            .records
            .iter()
            .filter(|r| r.gap_before)
            .map(|r| r.uuid.clone())
            .collect();
        assert_eq!(with_gap, ids(&gaps), "{name}");
        assert_eq!(
            loaded.damage.iter().map(kind).collect::<Vec<_>>(),
            kinds,
            "{name}"
        );
        assert_eq!(loaded.n_gaps, gaps.len() as u64, "{name}");
        assert_eq!(loaded.tail, chain.last().map(|n| id(*n)), "{name}");
    }
}

/// R5, B3: what loses nothing, or is a person's own doing, does not make a record unsound.
#[test]
fn a_record_is_sound_without_harmful_damage_and_gaps() {
    let dir = tempfile::tempdir().unwrap();
    for Damaged {
        name, bytes, kinds, ..
    } in transcripts::damaged()
    {
        let path = dir.path().join("t.jsonl");
        fs::write(&path, bytes).unwrap();
        let harmless = ["missing_newline", "lone_surrogate"];
        let expected = kinds.iter().all(|kind| harmless.contains(kind));
        assert_eq!(verify(&path).unwrap().sound(), expected, "{name}");
    }
}

#[test]
fn a_damaged_place_is_named_by_line_and_offset() {
    let records = conversation(3);
    let first = line(&records[0]);
    let bytes = [&first[..], b"garbage\n", &line(&records[2])].concat();
    let damage = loaded(&bytes).damage;
    assert_eq!(
        serde_json::to_value(&damage).unwrap(),
        json!([
            {"line": 2, "offset": first.len(), "kind": "bad_json"},
            {"line": 3, "offset": first.len() + 8, "kind": "missing_parent", "parent": id(2)},
        ])
    );
}

/// case-E01, E02, E05.
#[test]
fn content_is_read_whatever_it_is_made_of() {
    let text = r#"{"uuid":"a","parentUuid":null,"sessionId":"s","type":"assistant","timestamp":7,
        "model":"m\ud83d","message":{"role":"model","parts":[
            {"text":"x\ud83dy\u2028"},{"thought":true,"text":"t"},{"inlineData":{"data":"AA"}},7,
            {"functionCall":{"name":"f","args":DEEP}},
            {"functionResponse":{"name":"f","response":{"output":{"rows":DEEP}}}},
            {"functionResponse":{"name":"g","response":{"error":"no"}}}]},
        "usageMetadata":{"promptTokenCount":3},
        "toolCallResult":{"callId":"c","status":"new_word","resultDisplay":{"o":1},"error":{}}}"#;
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let text = text.replace('\n', " ").replace("DEEP", &deep);
    let loaded = loaded(text.as_bytes());
    let record = &loaded.records[0];
    let parts = record.content().unwrap().parts;
    assert_eq!(parts[0].text.as_deref(), Some("x\u{fffd}y\u{2028}"));
    assert_eq!(parts[1].thought, Some(true));
    assert!(parts[2].text.is_none() && parts[3].text.is_none());
    assert_eq!(parts[4].function_call.as_ref().unwrap().args.get(), deep);
    let output = parts[5]
        .function_response
        .as_ref()
        .unwrap()
        .response
        .output
        .as_deref();
    assert_eq!(output, Some(&*format!("{{\"rows\":{deep}}}")));
    let error = parts[6]
        .function_response
        .as_ref()
        .unwrap()
        .response
        .error
        .as_deref();
    assert_eq!(error, Some("no"));
    assert_eq!(record.timestamp, None);
    assert_eq!(record.model().as_deref(), Some("m\u{fffd}"));
    assert_eq!(record.usage().unwrap().prompt_token_count, 3);
    let result = record.tool_call_result().unwrap();
    assert_eq!(result.status.as_deref(), Some("new_word"));
    assert_eq!(result.error, None);
}

#[test]
fn records_with_one_id_are_parts_of_one_record() {
    let mut records = conversation(2);
    records.push(transcripts::assistant(2, Some(1), " and more"));
    let loaded = loaded(&transcripts::file(&records));
    let parts = loaded.records[1].content().unwrap().parts;
    let texts: Vec<_> = parts
        .iter()
        .map(|part| part.text.as_deref().unwrap())
        .collect();
    assert_eq!(texts, ["answer 2", " and more"]);
    assert_eq!(loaded.n_records, 2);
}

#[test]
fn what_is_known_of_a_session_is_told_with_it() {
    let mut records = conversation(3);
    records.push(transcripts::title(4, Some(3), "first"));
    records.push(transcripts::title(5, Some(4), "a \"name\""));
    let session = loaded(&transcripts::file(&records));
    assert_eq!(session.session_id.as_deref(), Some(transcripts::SESSION_ID));
    assert_eq!(session.cwd.as_deref(), Some(transcripts::CWD));
    assert_eq!(session.title.as_ref().unwrap().text, "a \"name\"");
    assert!(session.unanswered);
    assert!(!loaded(&transcripts::file(&conversation(2))).unanswered);
}

/// A field that a later version puts elsewhere is found all the same.
#[test]
fn the_order_of_the_fields_does_not_matter() {
    let text = format!(
        r#"{{"message":{{"role":"user","parts":[{{"text":"hi"}}]}},"future":[{{}}],"type":"user","timestamp":"T","sessionId":"s","parentUuid":null,"uuid":"{}","subtype":"cron"}}"#,
        id(1)
    );
    let loaded = loaded(text.as_bytes());
    assert_eq!(uuids(&loaded), [id(1)]);
    assert_eq!(loaded.records[0].subtype.as_deref(), Some("cron"));
    assert_eq!(loaded.records[0].timestamp.as_deref(), Some("T"));
}

#[test]
fn a_file_of_garbage_is_counted_and_not_kept() {
    let loaded = loaded(&b"garbage\n".repeat(DAMAGE_KEPT_MAX + 500));
    assert_eq!(loaded.damage.len(), DAMAGE_KEPT_MAX);
    assert_eq!(loaded.n_damage, DAMAGE_KEPT_MAX as u64 + 500);
}

/// The word that the first record has for the session may be the damaged one.
#[test]
fn a_record_beside_a_fragment_is_found_though_the_first_one_names_another_session() {
    let mut records = conversation(5);
    records[0] = with(records[0].clone(), "sessionId", json!("damaged"));
    let mut lines: Vec<Vec<u8>> = records.iter().map(line).collect();
    // `{` of a fourth record, glued to the fifth, glued to a sixth.
    lines[2] = b"{".to_vec();
    lines[3].pop();
    let loaded = loaded(&lines.concat());
    let found = uuids(&loaded);
    assert_eq!(found, [id(1), id(2), id(4), id(5)], "{:?}", loaded.damage);
}

/// A hostile line costs time in proportion to its length.
#[test]
fn a_line_of_beginnings_is_judged_in_bounded_time() {
    for beginning in ["{\"uuid\":", "{\"uuid\":{\"uuid\":\"", "{\"a\":[", "{"] {
        let loaded = loaded(beginning.repeat((1 << 20) / beginning.len()).as_bytes());
        assert_eq!(loaded.n_damage, 1);
    }
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo.jsonl");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert!(fifo.metadata().unwrap().file_type().is_fifo());
    let refused = |path: &Path| matches!(load(path), Err(ReadError::NotAFile { .. }));
    assert!(refused(&fifo));
    assert!(refused(dir.path()));
    assert!(refused(Path::new("/dev/zero")));
    let missing = load(&dir.path().join("missing")).unwrap_err();
    assert!(matches!(missing, ReadError::NotFound { .. }));
    // R28: the path is for who asks for it, not for what is printed.
    assert!(!missing.to_string().contains("missing\""));
    assert!(!missing.to_string().contains(dir.path().to_str().unwrap()));
}

/// A long chain is loaded in stretches; they come together in order.
#[test]
fn a_long_chain_is_whole_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.jsonl");
    let mut file = fs::File::create(&path).unwrap();
    let n = transcripts::big(&mut file, 9 << 20, 2_000, true).unwrap();
    file.flush().unwrap();
    let loaded = load(&path).unwrap();
    let given_up = n / 16 + u64::from(n % 16 == 15);
    assert_eq!(loaded.n_records, n);
    assert_eq!(loaded.damage, []);
    let is_last = u64::from(n % 16 == 15);
    assert_eq!(loaded.records.len() as u64, n - given_up + is_last);
    assert_eq!(loaded.n_forks, given_up - is_last);
    for pair in loaded.records.windows(2) {
        assert_eq!(pair[1].parent_uuid.as_deref(), Some(&*pair[0].uuid));
    }
}

/// What was done to a good file.
#[derive(Debug, Clone)]
enum Harm {
    Flip { line: usize, at: usize, byte: u8 },
    Glue { line: usize },
    Cut { line: usize, at: usize },
    Twice { line: usize },
    Insert { line: usize, bytes: Vec<u8> },
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        (any::<usize>(), any::<usize>(), any::<u8>()).prop_map(|(line, at, byte)| Harm::Flip {
            line,
            at,
            byte
        }),
        any::<usize>().prop_map(|line| Harm::Glue { line }),
        (any::<usize>(), any::<usize>()).prop_map(|(line, at)| Harm::Cut { line, at }),
        any::<usize>().prop_map(|line| Harm::Twice { line }),
        (
            any::<usize>(),
            proptest::collection::vec(any::<u8>(), 0..80)
        )
            .prop_map(|(line, bytes)| Harm::Insert { line, bytes }),
    ]
}

proptest! {
    // Each case reads the file once for every record.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is done to some lines, the records of the others are all there.
    #[test]
    fn harm_to_one_line_costs_no_other(harms in proptest::collection::vec(harm(), 0..8)) {
        const N: usize = 12;
        let mut lines: Vec<Vec<u8>> = conversation(N as u64).iter().map(line).collect();
        let mut untouched: BTreeSet<usize> = (0..N).collect();
        for harm in harms {
            match harm {
                Harm::Flip { line, at, byte } => {
                    let line = line % N;
                    let at = at % lines[line].len().max(1);
                    if let Some(old) = lines[line].get_mut(at) {
                        // A newline that is lost glues, which `Glue` does without harm.
                        if *old != b'\n' { *old = byte; untouched.remove(&line); }
                    }
                }
                // Both records are whole still, and have to be found.
                Harm::Glue { line } => {
                    let line = line % N;
                    if lines[line].last() == Some(&b'\n') && untouched.contains(&line) { lines[line].pop(); }
                }
                Harm::Cut { line, at } => {
                    let line = line % N;
                    let at = at % lines[line].len().max(1);
                    lines[line].truncate(at);
                    untouched.remove(&line);
                }
                Harm::Twice { line } => {
                    let copy = lines[line % N].clone();
                    lines[line % N].extend(copy);
                }
                Harm::Insert { line, bytes } => {
                    let line = line % N;
                    if lines[line].last() == Some(&b'\n') { lines[line].extend(bytes); lines[line].push(b'\n'); }
                }
            }
        }
        let harmed = lines.concat();
        for n in untouched {
            // A record that was read is one that another can hang from.
            let n = n as u64 + 1;
            let probe = transcripts::user(99, Some(n), "probe");
            let loaded = loaded(&[&harmed[..], b"\n", &line(&probe)].concat());
            let (probe, chain) = loaded.records.split_last().unwrap();
            prop_assert!(!probe.gap_before, "{n}: {:?}", loaded.damage);
            prop_assert_eq!(&chain.last().unwrap().uuid, &id(n));
        }
    }

}

proptest! {
    /// Nothing that a file can hold is a panic, nor does reading it twice differ.
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let (first, second) = (loaded(&bytes), loaded(&bytes));
        prop_assert_eq!(first.damage, second.damage);
    }

    /// A record is the same after it went through the file, whatever its text.
    #[test]
    fn text_comes_back_as_it_was(text in ".*") {
        let record = with(transcripts::user(1, None, &text), "extra", json!(text));
        let loaded = loaded(&line(&record));
        let content = loaded.records[0].content().unwrap();
        prop_assert_eq!(content.parts[0].text.as_deref(), Some(&*text));
        prop_assert_eq!(serde_json::from_slice::<serde_json::Value>(loaded.records[0].raw()).unwrap(), record);
    }
}
