//! Transcripts that Qwen Code 0.24 really wrote. They are read where `ONRECORD_SAMPLES` points.

use std::{
    fs,
    path::{Path, PathBuf},
};

use testkit::need;
use transcript::{
    export,
    reader::{Damage, Loaded, Stored, Type, load},
    verify::verify,
};

fn recorder() -> Option<PathBuf> {
    Some(need::samples()?.join("recorder"))
}

fn all(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // These two hold messages of the control protocol.
        let is_protocol = matches!(&*name, "in.jsonl" | "out.jsonl");
        if path.is_dir() && name != "sdk-clients" {
            all(&path, found);
        } else if name.ends_with(".jsonl") && !is_protocol {
            found.push(path);
        }
    }
}

/// The one file of a sample's folder, or the sample itself.
fn sample(recorder: &Path, name: &str) -> Loaded {
    let path = recorder.join(name);
    if path.is_file() {
        return load(&path).unwrap();
    }
    let mut files = Vec::new();
    all(&path, &mut files);
    let [file] = &files[..] else {
        panic!("{name} holds {} transcripts", files.len());
    };
    load(file).unwrap()
}

fn prompts(loaded: &Loaded) -> Vec<String> {
    let prompts = loaded
        .records
        .iter()
        .filter(|record| record.kind == Type::User);
    prompts.map(text).collect()
}

fn text(record: &Stored) -> String {
    let parts = record.content().unwrap().parts;
    parts.into_iter().filter_map(|part| part.text).collect()
}

fn damage(loaded: &Loaded) -> Vec<String> {
    loaded.damage.iter().map(Damage::to_string).collect()
}

fn n_gaps(loaded: &Loaded) -> usize {
    loaded
        .records
        .iter()
        .filter(|record| record.gap_before)
        .count()
}

#[test]
fn every_sample_loads_and_exports_and_none_is_changed() {
    let Some(recorder) = recorder() else { return };
    let mut files = Vec::new();
    all(&recorder, &mut files);
    assert!(files.len() > 80, "{} transcripts", files.len());
    for path in files {
        let before = fs::read(&path).unwrap();
        let loaded = load(&path).unwrap();
        let report = verify(&path).unwrap();
        assert_eq!(loaded.damage, report.damage);
        let n_lines = before
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .count();
        assert!(
            loaded.n_records as usize + loaded.damage.len() >= n_lines,
            "{}",
            path.display()
        );
        let mut exported = Vec::new();
        export::json(&loaded, &mut exported).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&exported).unwrap();
        let n_texts: usize = loaded
            .records
            .iter()
            .map(|record| record.texts().count())
            .sum();
        assert_eq!(json["records"].as_array().unwrap().len(), n_texts);
        export::markdown(&loaded, &mut exported).unwrap();
        export::text(&loaded, &mut exported).unwrap();
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn ordinary_runs_are_sound_and_whole() {
    let Some(recorder) = recorder() else { return };
    for (name, n_records, n_bytes) in [
        ("plain.json", 4, 2105),
        ("tool-write.partial", 9, 6133),
        ("atcmd", 5, 2657),
        ("multi.stream", 12, 6411),
        ("sdk.can.transcript.jsonl", 60, 39965),
    ] {
        let loaded = sample(&recorder, name);
        assert_eq!(damage(&loaded), [""; 0], "{name}");
        assert_eq!(loaded.records.len(), n_records, "{name}");
        assert_eq!(
            (loaded.n_records, loaded.n_bytes),
            (n_records as u64, n_bytes),
            "{name}"
        );
        assert_eq!(loaded.n_forks, 0, "{name}");
    }
}

#[test]
fn a_rewind_leaves_the_branch_that_was_given_up() {
    let Some(recorder) = recorder() else { return };
    let loaded = sample(&recorder, "tui.systemrecords/compress-rewind.jsonl");
    assert_eq!(damage(&loaded), [""; 0]);
    assert_eq!(
        (loaded.n_records, loaded.n_forks, loaded.n_gaps),
        (34, 1, 0)
    );
    let mut prompts = prompts(&loaded);
    prompts[1].truncate(8);
    assert_eq!(
        prompts,
        ["turn one", "turn two", "turn three", "replacement turn"]
    );
    assert_eq!(loaded.records.len(), 27);
    let subtypes: Vec<_> = loaded
        .records
        .iter()
        .filter_map(|r| r.subtype.as_deref())
        .collect();
    assert!(subtypes.contains(&"rewind") && subtypes.contains(&"chat_compression"));
    assert!(loaded.records.iter().any(|r| {
        r.payload()
            .is_some_and(|p| p.get().contains("compressedHistory"))
    }));
}

#[test]
fn a_title_written_beside_the_conversation_hides_nothing() {
    let Some(recorder) = recorder() else { return };
    let loaded = sample(&recorder, "tui.systemrecords/renamed-slash-title.jsonl");
    assert_eq!(loaded.title.as_ref().unwrap().text, "my title");
    assert_eq!((loaded.n_records, loaded.n_forks), (57, 1));
    // Only the one beside the chain is not on it.
    assert_eq!(loaded.records.len(), 56);
    assert_eq!(
        loaded.records.last().unwrap().subtype.as_deref(),
        Some("custom_title")
    );
    assert_eq!(prompts(&loaded).len(), 8);
}

/// What Qwen Code itself loses: everything before a tail that was torn (R1, B3).
#[test]
fn what_was_glued_onto_a_torn_tail_is_found_and_so_is_what_is_before() {
    let Some(recorder) = recorder() else { return };
    for (name, found, expected) in [
        (
            "tornA.1-before.jsonl",
            1,
            "line 4: the last record is incomplete",
        ),
        (
            "tornA.3-after-resume1.jsonl",
            2,
            "line 4: part of a record; the whole records beside it are kept",
        ),
        (
            "tornA.5-after-resume2.jsonl",
            3,
            "line 4: part of a record; the whole records beside it are kept",
        ),
        (
            "tornB.1-before.jsonl",
            1,
            "line 4: the last record lacks its newline; nothing is lost",
        ),
        (
            "tornB.5-after-resume2.jsonl",
            3,
            "line 4: 2 records on one line; all are kept",
        ),
        (
            "tornC.5-after-resume2.jsonl",
            3,
            "line 5: part of a record; the whole records beside it are kept",
        ),
        (
            "tornfull.2",
            3,
            "line 7: part of a record; the whole records beside it are kept",
        ),
    ] {
        let loaded = sample(&recorder, name);
        assert_eq!(damage(&loaded), [expected], "{name}");
        assert_eq!(prompts(&loaded).len(), found, "{name}");
        assert_eq!(n_gaps(&loaded), 0, "{name}");
        assert_eq!(loaded.records.len() as u64, loaded.n_records, "{name}");
    }
}

#[test]
fn the_corner_cases_of_its_loader_end_nowhere_here() {
    let Some(recorder) = recorder() else { return };
    let corner = |n: u32| {
        sample(
            &recorder,
            &format!("corner.inputs/00000000-0000-4000-8000-0000000000{n:02}.jsonl"),
        )
    };
    // Two session ids, at which the other program dies.
    let mixed = corner(1);
    assert_eq!(prompts(&mixed), ["one", "foreign sid"]);
    assert_eq!(
        damage(&mixed),
        ["line 3: records of another session from here on"]
    );
    // Unknown type and subtype.
    let unknown = corner(2);
    assert_eq!(damage(&unknown), [""; 0]);
    assert!(
        unknown
            .records
            .iter()
            .any(|r| r.subtype.as_deref() == Some("future_thing"))
    );
    // Two records with one id.
    let parts = corner(3);
    assert_eq!(text(&parts.records[1]), "two frag2");
    // A first line that is none.
    assert_eq!(prompts(&corner(4)), ["one", "NEW"]);
    // A circle.
    let circle = corner(5);
    assert_eq!(prompts(&circle), ["one", "NEW"]);
    assert_eq!(n_gaps(&circle), 1);
    // A prompt without answer is there.
    assert_eq!(prompts(&corner(7)), ["one", "unanswered", "NEW"]);
    // A line of NULs.
    assert_eq!(prompts(&corner(10)), ["one", "NEW"]);
}

#[test]
fn a_transcript_that_was_unlinked_in_the_middle_shows_that_it_begins_late() {
    let Some(recorder) = recorder() else { return };
    let loaded = sample(&recorder, "long.rmfile");
    assert!(loaded.records[0].gap_before);
    assert_eq!(n_gaps(&loaded), 1);
    assert_eq!(
        damage(&loaded),
        ["line 1: earlier records are missing here"]
    );
}

/// case-G01: the last line's branch is the active one, and the other is counted.
#[test]
fn two_writers_make_a_fork_and_no_damage() {
    let Some(recorder) = recorder() else { return };
    let loaded = sample(&recorder, "conc.two-writers.jsonl");
    assert_eq!(damage(&loaded), [""; 0]);
    assert_eq!((loaded.n_records, loaded.n_forks), (12, 1));
    assert_eq!(loaded.records.len(), 8);
}
