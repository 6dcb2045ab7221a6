//! What a recorder leaves on a sound disk, and when (R1, R4, B1).

use std::{fs, os::unix::fs::PermissionsExt, thread};

use expect_test::expect;
use serde_json::value::RawValue;
use transcript::{
    lock,
    record::{
        Body, Content, FunctionCall, FunctionResponse, Part, Response, Title, TitleSource,
        ToolCallResult, UsageMetadata,
    },
    recorder::{NotSaved, Start},
};
use wire::{limits::TITLE_ANCHOR_BYTES, recording::RecordingState};

use crate::rig::{Rig, answer, assert_chain, assistant, is_title, note, user};

fn title(text: &str) -> Title {
    Title {
        text: text.to_owned(),
        source: TitleSource::Manual,
    }
}

fn resume(tail: Option<String>, title: Option<Title>) -> Start {
    Start::Resume {
        tail,
        title,
        lock: None,
    }
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

#[test]
fn nothing_is_on_disk_before_the_first_record() {
    let rig = Rig::new();
    let recorder = rig.begin();
    answer(recorder.flush()).unwrap();
    recorder.finalize();
    assert_eq!(recorder.report().state, RecordingState::Saved);
    answer(recorder.close()).unwrap();
    assert!(rig.disk.calls().is_empty());
    assert_eq!(fs::read_dir(rig.folder()).unwrap().count(), 0);
}

#[test]
fn a_recorder_that_never_wrote_lets_go_of_everything() {
    let rig = Rig::new();
    drop(rig.begin());
    assert!(!rig.disk.is_in_use());
    let recorder = rig.begin();
    answer(recorder.close()).unwrap();
    assert!(!rig.disk.is_in_use());
}

#[test]
fn files_and_folders_are_for_the_owner_alone() {
    let rig = Rig::new();
    let recorder = rig.begin();
    answer(recorder.append_strict(user("hi"))).unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(rig.path()), 0o600);
    for folder in ["projects", "projects/p", "projects/p/chats"] {
        assert_eq!(mode(rig.folder().join(folder)), 0o700);
    }
}

#[test]
fn lines_have_the_fields_of_the_format_in_its_order() {
    let rig = Rig::new();
    let recorder = rig.begin();
    recorder.append(user("line\nbreak, \"quotes\", größer 😀"));
    recorder.set_git_branch(Some("main".to_owned()));
    recorder.append(Body::Assistant {
        model: "m".to_owned(),
        message: Content {
            role: "model".to_owned(),
            parts: vec![
                Part::thought("hm"),
                Part {
                    function_call: Some(FunctionCall {
                        id: Some("c1".to_owned()),
                        name: "list_directory".to_owned(),
                        args: raw("{\r\n  \"path\": \"a b\\\\\\\" c\"\n}"),
                    }),
                    ..Part::default()
                },
            ],
        },
        usage: Some(UsageMetadata::default()),
    });
    recorder.append(Body::ToolResult {
        message: Content {
            role: "user".to_owned(),
            parts: vec![Part {
                function_response: Some(FunctionResponse {
                    id: Some("c1".to_owned()),
                    name: "list_directory".to_owned(),
                    response: Response {
                        output: Some("a".to_owned()),
                        error: None,
                    },
                }),
                ..Part::default()
            }],
        },
        result: ToolCallResult {
            call_id: "c1".to_owned(),
            status: "success",
            result_display: raw("\"a\""),
            error: None,
            error_type: None,
            execution_status: "success",
        },
    });
    recorder.set_git_branch(None);
    recorder.append(note("{\"n\":1}"));
    answer(recorder.close()).unwrap();
    let mut text = String::from_utf8(rig.bytes()).unwrap();
    for (n, uuid) in rig.uuids().iter().enumerate() {
        text = text.replace(uuid, &format!("#{n}"));
    }
    expect![[r##"
        {"uuid":"#0","parentUuid":null,"sessionId":"5e551014-0000-4000-8000-000000000001","timestamp":"2026-11-30T10:00:00.123Z","type":"user","provenance":"real_user","cwd":"/home/user/project","version":"0.0.0","message":{"role":"user","parts":[{"text":"line\nbreak, \"quotes\", größer 😀"}]}}
        {"uuid":"#1","parentUuid":"#0","sessionId":"5e551014-0000-4000-8000-000000000001","timestamp":"2026-11-30T10:00:00.123Z","type":"assistant","provenance":"assistant_output","cwd":"/home/user/project","version":"0.0.0","gitBranch":"main","model":"m","message":{"role":"model","parts":[{"text":"hm","thought":true},{"functionCall":{"id":"c1","name":"list_directory","args":{"path":"a b\\\" c"}}}]},"usageMetadata":{"promptTokenCount":0,"candidatesTokenCount":0,"thoughtsTokenCount":0,"totalTokenCount":0,"cachedContentTokenCount":0}}
        {"uuid":"#2","parentUuid":"#1","sessionId":"5e551014-0000-4000-8000-000000000001","timestamp":"2026-11-30T10:00:00.123Z","type":"tool_result","provenance":"tool_result","cwd":"/home/user/project","version":"0.0.0","gitBranch":"main","message":{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"list_directory","response":{"output":"a"}}}]},"toolCallResult":{"callId":"c1","status":"success","resultDisplay":"a","executionStatus":"success"}}
        {"uuid":"#3","parentUuid":"#2","sessionId":"5e551014-0000-4000-8000-000000000001","timestamp":"2026-11-30T10:00:00.123Z","type":"system","provenance":"system","cwd":"/home/user/project","version":"0.0.0","subtype":"note","systemPayload":{"n":1}}
    "##]]
    .assert_eq(&text);
}

#[test]
fn a_strict_answer_comes_when_that_record_is_on_disk() {
    let rig = Rig::new();
    let recorder = rig.begin();
    recorder.append(user("one"));
    answer(recorder.append_strict(user("two"))).unwrap();
    assert_eq!(rig.lines().len(), 2);
    assert_eq!(recorder.report().state, RecordingState::Saved);
    assert_eq!(recorder.report().last_record_uuid, rig.uuids().pop());
}

#[test]
fn a_record_reaches_the_disk_without_anybody_asking() {
    let rig = Rig::new();
    let recorder = rig.begin();
    let mut states = recorder.watch();
    assert_eq!(*states.borrow_and_update(), RecordingState::Saved);
    recorder.append(user("one"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        states
            .wait_for(|state| *state == RecordingState::Saved)
            .await
            .unwrap();
        while recorder.report().state != RecordingState::Saved {
            states.changed().await.unwrap();
        }
    });
    assert_eq!(rig.lines().len(), 1);
}

#[test]
fn records_of_many_threads_make_one_chain() {
    let rig = Rig::new();
    let recorder = rig.begin();
    thread::scope(|scope| {
        for _ in 0..4 {
            let recorder = recorder.clone();
            scope.spawn(move || {
                for n in 0..500 {
                    recorder.append(user(&n.to_string()));
                }
            });
        }
    });
    answer(recorder.close()).unwrap();
    let lines = rig.lines();
    assert_eq!(lines.len(), 2000);
    assert!(lines[0]["parentUuid"].is_null());
    for pair in lines.windows(2) {
        assert_eq!(pair[1]["parentUuid"], pair[0]["uuid"]);
    }
}

#[test]
fn a_closed_recorder_accepts_nothing_and_says_so() {
    let rig = Rig::new();
    let recorder = rig.begin();
    recorder.append(user("one"));
    answer(recorder.close()).unwrap();
    answer(recorder.close()).unwrap();
    recorder.append(user("two"));
    assert_eq!(
        answer(recorder.append_strict(user("three"))),
        Err(NotSaved::Closed)
    );
    answer(recorder.flush()).unwrap();
    assert_eq!(rig.lines().len(), 1);
    assert_eq!(recorder.report().state, RecordingState::Saved);
}

#[test]
fn what_was_accepted_is_written_when_the_last_handle_goes() {
    let rig = Rig::new();
    let recorder = rig.begin();
    let other = recorder.clone();
    for n in 0..100 {
        recorder.append(user(&n.to_string()));
    }
    drop(recorder);
    other.append(user("last"));
    drop(other);
    assert_eq!(rig.lines().len(), 101);
}

/// R5.
#[test]
fn a_new_transcript_is_locked_until_its_recorder_is_closed() {
    let rig = Rig::new();
    let recorder = rig.begin();
    answer(recorder.append_strict(user("one"))).unwrap();
    assert!(lock::acquire(&rig.path()).is_err());
    answer(recorder.close()).unwrap();
    assert!(lock::acquire(&rig.path()).unwrap().is_some());
}

/// R5.
#[test]
fn a_resumed_session_s_lock_is_given_back_at_its_close() {
    for has_record in [false, true] {
        let rig = Rig::new();
        rig.put(b"");
        let recorder = rig.start(Start::Resume {
            tail: None,
            title: None,
            lock: lock::acquire(&rig.path()).unwrap(),
        });
        if has_record {
            recorder.append(user("one"));
        }
        assert!(lock::acquire(&rig.path()).is_err());
        answer(recorder.close()).unwrap();
        assert!(lock::acquire(&rig.path()).unwrap().is_some());
    }
}

#[test]
fn a_resume_without_a_record_leaves_the_file_alone() {
    let rig = Rig::new();
    let left = b"{\"uuid\":\"torn";
    rig.put(left);
    let recorder = rig.start(resume(Some("a".to_owned()), Some(title("name"))));
    recorder.finalize();
    answer(recorder.flush()).unwrap();
    answer(recorder.close()).unwrap();
    assert_eq!(rig.bytes(), left);
    assert!(rig.disk.calls().is_empty());
    assert_eq!(recorder.report().last_record_uuid.as_deref(), Some("a"));
}

#[test]
fn a_resumed_session_goes_on_behind_its_tail() {
    let rig = Rig::new();
    let left = "{\"uuid\":\"a\\\"b\",\"sessionId\":\"s\",\"type\":\"user\",\"parentUuid\":null}\n";
    rig.put(left.as_bytes());
    let recorder = rig.start(resume(Some("a\"b".to_owned()), None));
    recorder.append(user("more"));
    answer(recorder.close()).unwrap();
    assert!(rig.bytes().starts_with(left.as_bytes()));
    let lines = rig.lines();
    assert_chain(&lines);
    assert_eq!(lines[1]["parentUuid"], "a\"b");
}

/// R4, B1.
#[test]
fn a_file_that_cannot_be_created_yet_loses_nothing() {
    let rig = Rig::new();
    let in_the_way = rig.folder().join("projects");
    fs::write(&in_the_way, "").unwrap();
    let recorder = rig.begin();
    let states = recorder.watch();
    let strict = answer(recorder.append_strict(user("one")));
    assert!(matches!(strict, Err(NotSaved::NeverStarted(_))));
    assert_eq!(recorder.report().state, RecordingState::NeverStarted);
    assert_eq!(*states.borrow(), RecordingState::NeverStarted);
    assert!(recorder.report().class.is_some());
    assert!(answer(recorder.flush()).is_err());
    recorder.append(user("two"));
    assert!(answer(recorder.flush()).is_err());

    fs::remove_file(&in_the_way).unwrap();
    answer(recorder.append_strict(user("three"))).unwrap();
    assert_eq!(recorder.report().state, RecordingState::Saved);
    assert_eq!(*states.borrow(), RecordingState::Saved);
    let texts: Vec<_> = rig
        .lines()
        .iter()
        .map(|line| line["message"]["parts"][0]["text"].clone())
        .collect();
    assert_eq!(texts, ["one", "two", "three"]);
    assert_chain(&rig.lines());
    assert_eq!(rig.n_notices(), 0);
    assert_eq!(rig.log().read_all().len(), 1);
}

/// R4.
#[test]
fn a_flush_and_a_close_try_again_as_well() {
    let rig = Rig::new();
    let in_the_way = rig.folder().join("projects");
    fs::write(&in_the_way, "").unwrap();
    let recorder = rig.begin();
    recorder.append(user("one"));
    assert!(answer(recorder.flush()).is_err());
    fs::remove_file(&in_the_way).unwrap();
    answer(recorder.flush()).unwrap();

    let rig = Rig::new();
    let in_the_way = rig.folder().join("projects");
    fs::write(&in_the_way, "").unwrap();
    let recorder = rig.begin();
    recorder.append(user("one"));
    assert!(answer(recorder.flush()).is_err());
    fs::remove_file(&in_the_way).unwrap();
    answer(recorder.close()).unwrap();
    assert_eq!(rig.lines().len(), 1);
}

/// B7.
#[test]
fn too_much_waiting_for_a_file_is_given_up_without_a_word() {
    let mut rig = Rig::new();
    rig.bounds.waiting_bytes_max = 2_000;
    let in_the_way = rig.folder().join("projects");
    fs::write(&in_the_way, "").unwrap();
    let recorder = rig.begin();
    recorder.append(user("one"));
    assert!(answer(recorder.flush()).is_err());
    for _ in 0..10 {
        recorder.append(user(&"x".repeat(300)));
    }
    assert_eq!(recorder.report().state, RecordingState::NeverStarted);
    fs::remove_file(&in_the_way).unwrap();
    recorder.append(user("late"));
    let late = answer(recorder.flush());
    assert!(matches!(late, Err(NotSaved::NeverStarted(_))));
    assert!(answer(recorder.close()).is_err());
    assert_eq!(recorder.report().state, RecordingState::NeverStarted);
    assert!(!rig.path().exists());
    assert_eq!(rig.n_notices(), 0);
}

/// B7: the record that would be too much gets a try of its own before all is given up.
#[test]
fn a_healed_disk_is_found_before_anything_is_given_up() {
    let mut rig = Rig::new();
    rig.bounds.waiting_bytes_max = 2_000;
    let in_the_way = rig.folder().join("projects");
    fs::write(&in_the_way, "").unwrap();
    let recorder = rig.begin();
    recorder.append(user(&"x".repeat(1_200)));
    assert!(answer(recorder.flush()).is_err());
    fs::remove_file(&in_the_way).unwrap();
    recorder.append(user(&"x".repeat(1_200)));
    answer(recorder.close()).unwrap();
    assert_eq!(rig.lines().len(), 2);
}

#[test]
fn an_existing_file_is_never_taken_for_a_new_session() {
    let rig = Rig::new();
    rig.put(b"precious");
    let recorder = rig.begin();
    let strict = answer(recorder.append_strict(user("one")));
    assert!(matches!(strict, Err(NotSaved::NeverStarted(_))));
    assert!(answer(recorder.close()).is_err());
    assert_eq!(rig.bytes(), b"precious");
    assert_eq!(rig.n_notices(), 0);
}

#[test]
fn without_a_data_root_nothing_starts() {
    let rig = Rig::new();
    let mut options = rig.options(Start::New);
    options.path = None;
    let recorder = rig.start_with(options);
    recorder.append(user("one"));
    assert!(answer(recorder.flush()).is_err());
    assert_eq!(recorder.report().state, RecordingState::NeverStarted);
    assert!(answer(recorder.close()).is_err());
    assert_eq!(rig.n_notices(), 0);
    assert_eq!(rig.log().read_all().len(), 1);
}

#[test]
fn a_title_is_repeated_beside_the_chain_after_much_else() {
    let rig = Rig::new();
    let recorder = rig.begin();
    recorder.append(user("one"));
    answer(recorder.rename(title("name"))).unwrap();
    let n_bytes = 10_000;
    for _ in 0..5 {
        recorder.append(user(&"x".repeat(n_bytes)));
    }
    answer(recorder.flush()).unwrap();
    let lines = rig.lines();
    let at: Vec<_> = (0..lines.len()).filter(|&n| is_title(&lines[n])).collect();
    let n_before = TITLE_ANCHOR_BYTES.div_ceil(n_bytes as u64) as usize;
    assert_eq!(at, [1, 1 + n_before + 1]);
    let (side, before, after) = (&lines[at[1]], &lines[at[1] - 1], &lines[at[1] + 1]);
    assert_eq!(side["parentUuid"], before["uuid"]);
    assert_eq!(after["parentUuid"], before["uuid"]);
    assert_eq!(side["systemPayload"], lines[1]["systemPayload"]);
    assert_ne!(side["uuid"], lines[1]["uuid"]);
}

#[test]
fn the_last_title_stands_at_the_end_and_only_once() {
    let rig = Rig::new();
    let recorder = rig.begin();
    answer(recorder.rename(title("name"))).unwrap();
    recorder.finalize();
    recorder.append(user("one"));
    recorder.finalize();
    recorder.finalize();
    answer(recorder.close()).unwrap();
    let lines = rig.lines();
    let titles: Vec<_> = lines.iter().map(is_title).collect();
    assert_eq!(titles, [true, false, true]);
    assert_eq!(lines[2]["parentUuid"], lines[1]["uuid"]);
}

#[test]
fn a_resumed_title_is_repeated_after_the_first_record() {
    let rig = Rig::new();
    rig.put(b"");
    let recorder = rig.start(resume(None, Some(title("name"))));
    recorder.append(user("one"));
    recorder.append(assistant("two"));
    answer(recorder.close()).unwrap();
    let lines = rig.lines();
    let titles: Vec<_> = lines.iter().map(is_title).collect();
    assert_eq!(titles, [false, true, false, true]);
    assert_eq!(lines[2]["parentUuid"], lines[0]["uuid"]);
    assert_eq!(lines[3]["systemPayload"]["customTitle"], "name");
}

#[test]
fn much_at_once_is_written_in_order() {
    let rig = Rig::new();
    let recorder = rig.begin();
    let sent: Vec<_> = (0..3_000)
        .map(|n| recorder.append(user(&"z".repeat(n))))
        .collect();
    answer(recorder.close()).unwrap();
    assert_eq!(rig.uuids(), sent);
}
