//! What a client is told of the record, and when (R4, R15, R19, B1, B6).

use std::fs;

use serde_json::{Value, json};
use testkit::{
    faults::{Immutable, SmallDisk, shim},
    home::{Home, transcripts_under},
    stub_model::Gate,
};
use wire::words;

use super::{CLOSE, Client, DEGRADED, STATE, held, is_chunk, recording, updates};
use crate::world::{shell, transcript, valid_prefix};

fn is_degraded(frame: &Value) -> bool {
    frame["method"] == DEGRADED
}

/// R15, R3: exactly once for a recorder, and nothing but what was agreed.
#[test]
fn a_lost_transcript_is_told_once_in_the_turn_that_found_it_and_before_its_answer() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    let first = client.turn(&session, "SAY 1 chunks");
    assert_eq!(recording(&first)["state"], "saved");
    assert!(client.degraded().is_empty());
    fs::remove_file(transcript(&home)).unwrap();

    let from = client.rpc.seen().len();
    let id = client.prompt(&session, "SAY 1 chunks");
    let answered = client.rpc.place_of_answer(id);
    let told = client.rpc.place(from, "the notice", is_degraded);
    assert!(from <= told && told < answered);
    let answer = client.rpc.answer(id)["result"].clone();
    assert_eq!(answer["stopReason"], "end_turn", "R26");
    assert_eq!(recording(&answer)["state"], "degraded");
    assert_eq!(recording(&answer)["class"], "gone");

    client.turn(&session, "SAY 1 chunks");
    client.close(&session, true);
    client.close(&session, true);
    client.close(&session, false);
    let frames = client.end(&home);
    let told: Vec<_> = frames.iter().filter(|f| is_degraded(f)).collect();
    let exact = json!({
        "jsonrpc": "2.0",
        "method": DEGRADED,
        "params": {"v": 1, "sessionId": session, "reason": "write_failed"},
    });
    assert_eq!(told, [&exact]);
}

/// R2, R15: every session has a recorder of its own.
#[test]
fn one_session_is_degraded_and_the_other_goes_on_being_saved() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let (one, other) = (client.session(), client.session());
    client.turn(&one, "SAY 1 chunks");
    fs::remove_file(transcript(&home)).unwrap();
    client.turn(&other, "SAY 1 chunks");
    assert_eq!(
        recording(&client.turn(&one, "SAY 1 chunks"))["state"],
        "degraded"
    );
    assert_eq!(
        recording(&client.turn(&other, "SAY 1 chunks"))["state"],
        "saved"
    );
    assert_eq!(client.degraded().len(), 1);
    assert_eq!(client.degraded()[0]["params"]["sessionId"], one);
    assert!(client.close(&other, true).get("result").is_some());
    client.end(&home);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4);
}

/// R15, B4: what the kernel refuses, with its class and no more.
#[test]
fn a_transcript_that_may_not_be_written_is_told_with_its_class() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    client.close(&session, false);
    let Some(immutable) = Immutable::new(&transcript(&home)) else {
        return;
    };
    client.load(&session);
    assert!(client.degraded().is_empty(), "to load writes nothing");
    let answer = client.turn(&session, "SAY 1 chunks");
    assert_eq!(recording(&answer)["state"], "degraded");
    assert_eq!(recording(&answer)["class"], "permission");
    assert_eq!(client.degraded().len(), 1);
    drop(immutable);
    client.end(&home);
}

/// R15, R1, R26, case-L01: a disk that fills up changes no answer, and what is on it stays whole.
#[test]
fn a_disk_that_fills_is_told_before_the_answer_which_is_that_of_the_work() {
    let Some(disk) = SmallDisk::with_size_kib(64) else {
        return;
    };
    let home = Home::new();
    let mut command = home.command_under(&disk.fault(), crate::world::ONRECORD);
    command
        .env("ONRECORD_HOME", disk.path())
        .args(["acp", "--model", "offline", "--yolo"]);
    let mut client = Client::start(&home, &mut command).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    let filler = disk.path().join(".filler");
    let fill = format!("head -c 1M /dev/zero > '{}'; seq 1 3000", filler.display());
    let answer = client.turn(&session, &shell(&fill));
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(recording(&answer)["state"], "degraded");
    assert_eq!(recording(&answer)["class"], "storage_full");
    assert_eq!(client.degraded().len(), 1);
    client.end(&home);
    let files = transcripts_under(&disk.after());
    let records = valid_prefix(&files[0]);
    let last = recording(&answer)["lastRecordUuid"].clone();
    assert_eq!(records.last().unwrap()["uuid"], last);
}

/// R15, R27: a title that is not saved is not said to be.
#[test]
fn a_title_that_is_not_saved_is_answered_so_behind_the_news() {
    const TITLE: &str = "qwen/control/session/title";
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    let params = json!({"sessionId": session, "displayName": "the title", "titleSource": "manual"});
    let saved = client.rpc.result(TITLE, &params);
    let answer = |persisted| {
        json!({
            "sessionId": session,
            "displayName": "the title",
            "titleSource": "manual",
            "persisted": persisted,
        })
    };
    assert_eq!(saved, answer(true));
    let update =
        |title| json!({"v": 1, "sessionId": session, "title": title, "titleSource": "manual"});
    let titles = |client: &Client| -> Vec<_> {
        let told = client.rpc.all_of("qwen/notify/session/title-update");
        told.into_iter()
            .map(|frame| frame["params"].clone())
            .collect()
    };
    assert_eq!(titles(&client), [update("the title")]);
    client.turn(&session, "/rename another");
    let both = [update("the title"), update("another")];
    assert_eq!(titles(&client), both);
    fs::remove_file(transcript(&home)).unwrap();
    let id = client.rpc.request(TITLE, &params);
    let answered = client.rpc.place_of_answer(id);
    let told = client.rpc.place(0, "the notice", is_degraded);
    assert!(told < answered);
    assert_eq!(client.rpc.answer(id)["result"], answer(false));
    assert_eq!(client.rpc.result(TITLE, &params), answer(false), "for good");
    assert_eq!(client.degraded().len(), 1);
    assert_eq!(titles(&client), both, "R27");
    client.end(&home);
}

/// R15, R21: a failure that is found while a session closes comes before the close is answered, and
/// the running prompt is cancelled and answered before that too.
#[test]
fn a_failure_found_while_closing_is_told_before_the_close_is_answered() {
    for strict in [false, true] {
        let (home, gate) = (Home::new(), Gate::new());
        let stub = held(&gate);
        let mut client = Client::of_stub(&home, &stub, &[]).initialized();
        let session = client.session();
        let prompt = client.prompt(&session, "go on for long");
        client.rpc.place(0, "a chunk", |f| is_chunk(f, "begun"));
        fs::remove_file(transcript(&home)).unwrap();
        let mut params = json!({"sessionId": session, "drainTimeoutMs": 8000});
        if strict {
            params["requireFlush"] = json!(true);
        }
        let close = client.rpc.request(CLOSE, &params);
        let closed = client.rpc.place_of_answer(close);
        let told = client.rpc.place(0, "the notice", is_degraded);
        assert!(told < closed, "strict: {strict}");
        let answer = client.rpc.answer(close);
        if strict {
            assert_eq!(answer["error"]["code"], -32_603);
        } else {
            let cancelled = client.rpc.place_of_answer(prompt);
            assert!(cancelled < closed);
            let answered = client.rpc.answer(prompt);
            assert_eq!(answered["result"]["stopReason"], "cancelled");
            assert_eq!(answer["result"]["closed"], true);
        }
        assert_eq!(client.degraded().len(), 1);
        client.end(&home);
    }
}

/// The update `notice` is younger than the schema of some clients, which drop the connection at it.
#[test]
fn a_notice_for_the_person_goes_only_to_clients_that_take_it() {
    for (capabilities, n) in [(json!({}), 0), (json!({"notice": {}}), 1)] {
        let home = Home::new();
        let mut client = Client::offline(&home, &[]).initialized_with(&capabilities);
        let session = client.session();
        client.turn(&session, "SAY 1 chunks");
        fs::remove_file(transcript(&home)).unwrap();
        client.turn(&session, "SAY 1 chunks");
        client.turn(&session, "SAY 1 chunks");
        let frames = client.end(&home);
        let notices = updates(&frames, &session, "notice");
        assert_eq!(notices.len(), n, "{capabilities}");
        for notice in notices {
            assert_eq!(notice["content"]["text"], words::DEGRADED_MESSAGE, "R11");
        }
    }
}

/// R4, B1: a file that cannot be made yet is no failure, and is said all the same.
#[test]
fn a_record_that_never_started_is_a_level_and_no_event() {
    let home = Home::new();
    fs::write(home.data_root(), "in the way").unwrap();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    let id = client.prompt(&session, "SAY 1 chunks");
    let answered = client.rpc.place_of_answer(id);
    let told = client.rpc.place(0, STATE, |f| f["method"] == STATE);
    assert!(told < answered, "at once");
    let exact = json!({
        "jsonrpc": "2.0",
        "method": STATE,
        "params": {"v": 1, "sessionId": session, "state": "never_started"},
    });
    let mut told = client.rpc.seen()[told].clone();
    told["params"].as_object_mut().unwrap().remove("class");
    assert_eq!(told, exact);
    let answer = client.rpc.answer(id)["result"].clone();
    assert_eq!(recording(&answer)["state"], "never_started");
    fs::remove_file(home.data_root()).unwrap();
    let answer = client.turn(&session, "SAY 1 chunks");
    assert_eq!(recording(&answer)["state"], "saved");
    assert!(client.close(&session, true).get("result").is_some());
    let frames = client.end(&home);
    assert!(!frames.iter().any(is_degraded));
    let states: Vec<_> = frames
        .iter()
        .filter(|frame| frame["method"] == STATE)
        .map(|frame| frame["params"]["state"].clone())
        .collect();
    assert_eq!(states, ["never_started", "saved"]);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4, "nothing is lost");
}

/// R21, R4: what never started is not flushed, so a strict close keeps the session.
#[test]
fn a_strict_close_of_a_record_that_never_started_is_refused_without_a_path() {
    let home = Home::new();
    fs::write(home.data_root(), "in the way").unwrap();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    let answer = client.close(&session, true);
    assert_eq!(answer["error"]["code"], -32_603, "{answer}");
    assert_eq!(
        answer["error"]["data"]["onrecord/recording"]["state"],
        "never_started"
    );
    assert_eq!(
        client.turn(&session, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    assert!(client.close(&session, false).get("result").is_some());
    client.end(&home);
}

/// B1: a short `pending` is everyday life and is not told.
#[test]
fn pending_is_told_only_once_it_has_stood_for_a_quarter_of_a_second() {
    for (slow_ms, states) in [(20, vec![]), (900, vec!["pending", "saved"])] {
        let rule = format!("write:slow={slow_ms}:after=1,times=1,in=.jsonl");
        let Some(fault) = shim(&rule) else { return };
        let home = Home::new();
        let mut client = Client::under(&home, &fault, &[]).initialized();
        let session = client.session();
        let answer = client.turn(&session, "SAY 1 chunks");
        assert_eq!(recording(&answer)["state"], "saved", "R13: waited for");
        client.turn(&session, "SAY 1 chunks");
        assert!(client.close(&session, true).get("result").is_some());
        assert_eq!(client.states(), states, "{slow_ms} ms");
        assert!(client.degraded().is_empty());
        client.end(&home);
    }
}

/// B1, R27: an answer that does not wait for the disk any longer does not say saved.
#[test]
fn an_answer_that_does_not_wait_for_a_slow_disk_says_pending() {
    let Some(fault) = shim("write:slow=3500:after=1,times=1,in=.jsonl") else {
        return;
    };
    let home = Home::new();
    let mut client = Client::under(&home, &fault, &[]).initialized();
    let session = client.session();
    let answer = client.turn(&session, "SAY 1 chunks");
    assert_eq!(recording(&answer)["state"], "pending");
    client.rpc.place(0, "saved", |f| {
        f["method"] == STATE && f["params"]["state"] == "saved"
    });
    assert_eq!(client.states(), ["pending", "saved"]);
    client.end(&home);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 2);
}

/// B1: `degraded` is told at once, with its class.
#[test]
fn a_degraded_record_is_also_told_as_a_level() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    fs::remove_file(transcript(&home)).unwrap();
    let id = client.prompt(&session, "SAY 1 chunks");
    let answered = client.rpc.place_of_answer(id);
    let told = client.rpc.place(0, STATE, |f| f["method"] == STATE);
    assert!(told < answered);
    let params = json!({"v": 1, "sessionId": session, "state": "degraded", "class": "gone"});
    assert_eq!(client.rpc.seen()[told]["params"], params);
    client.turn(&session, "SAY 1 chunks");
    assert_eq!(client.states(), ["degraded"], "only what differs");
    client.end(&home);
}

/// B1: the report is in the answers to new, load, prompt and close.
#[test]
fn every_answer_about_a_session_carries_the_level_of_its_record() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let params = json!({"cwd": home.workspace(), "mcpServers": []});
    let answer = client.rpc.result("session/new", &params);
    assert_eq!(recording(&answer)["state"], "saved");
    let session = answer["sessionId"].as_str().unwrap().to_owned();
    let answer = client.turn(&session, "SAY 1 chunks");
    let last = valid_prefix(&transcript(&home)).last().unwrap()["uuid"].clone();
    let report = json!({"state": "saved", "lastRecordUuid": last});
    assert_eq!(recording(&answer), &report);
    assert_eq!(recording(&client.close(&session, false)["result"]), &report);
    assert_eq!(recording(&client.load(&session)), &report);
    client.end(&home);
}

/// B1: the person's choice.
#[test]
fn a_session_without_a_record_says_off_and_closes_strictly() {
    let home = Home::new();
    let mut client = Client::offline(&home, &["--no-chat-recording"]).initialized();
    let session = client.session();
    let answer = client.turn(&session, "SAY 1 chunks");
    assert_eq!(recording(&answer), &json!({"state": "off"}));
    assert!(client.close(&session, true).get("result").is_some());
    client.end(&home);
    assert!(home.transcripts().is_empty());
}

/// R19, R9: what a recorder lost is lost for good, and the next one begins healthy.
#[test]
fn a_session_that_is_closed_and_loaded_again_begins_healthy() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    let path = transcript(&home);
    let before = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    client.turn(&session, "SAY 2 chunks");
    client.close(&session, false);
    fs::write(&path, &before).unwrap();
    let loaded = client.load(&session);
    assert_eq!(recording(&loaded)["state"], "saved");
    assert_eq!(
        recording(&client.turn(&session, "SAY 1 chunks"))["state"],
        "saved"
    );
    assert!(client.close(&session, true).get("result").is_some());
    assert_eq!(client.degraded().len(), 1);
    client.end(&home);
    assert_eq!(valid_prefix(&path).len(), 4);
    assert!(fs::read(&path).unwrap().starts_with(&before));

    // A failure of the second recorder is told again: once per recorder.
    let mut client = Client::offline(&home, &[]).initialized();
    client.load(&session);
    client.turn(&session, "SAY 1 chunks");
    fs::remove_file(&path).unwrap();
    client.turn(&session, "SAY 1 chunks");
    client.close(&session, false);
    fs::write(&path, &before).unwrap();
    client.load(&session);
    fs::remove_file(&path).unwrap();
    client.turn(&session, "SAY 1 chunks");
    client.turn(&session, "SAY 1 chunks");
    assert_eq!(client.degraded().len(), 2);
    client.end(&home);
}

/// B6: the turn that failed has the result of its work; each further one is refused.
#[test]
fn a_required_record_that_is_lost_refuses_every_further_prompt() {
    let home = Home::new();
    let mut client = Client::offline(&home, &["--require-recording"]).initialized();
    let (session, other) = (client.session(), client.session());
    assert_eq!(
        client.turn(&session, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    fs::remove_file(transcript(&home)).unwrap();
    for _ in 0..2 {
        let params = super::prompt(&session, "SAY 1 chunks");
        let error = client.rpc.error("session/prompt", &params);
        assert_eq!(error["data"]["errorKind"], "recording_required");
        assert_eq!(error["data"]["details"], words::REQUIRED_NOT_BEGUN_LINE);
    }
    assert_eq!(
        client.turn(&other, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    assert_eq!(client.degraded().len(), 1);
    let frames = client.end(&home);
    assert_eq!(
        updates(&frames, &session, "agent_message_chunk").len(),
        2,
        "one turn only"
    );
}

/// R10, R15: also what only the last flush finds, when nothing is asked any more.
#[test]
fn a_loss_that_is_found_at_the_end_of_input_is_told_before_the_end_of_output() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    fs::remove_file(transcript(&home)).unwrap();
    let frames = client.end(&home);
    assert_eq!(frames.iter().filter(|frame| is_degraded(frame)).count(), 1);
}

/// R27, B2: an answer that shows a session does not call saved what is not there any more.
#[test]
fn a_load_of_a_live_session_whose_transcript_is_gone_says_so() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    fs::remove_file(transcript(&home)).unwrap();
    let loaded = client.load(&session);
    assert_eq!(recording(&loaded)["state"], "degraded");
    assert_eq!(recording(&loaded)["class"], "gone");
    assert_eq!(client.degraded().len(), 1);
}

fn torn(home: &Home) -> String {
    let mut client = Client::offline(home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    client.end(home);
    let path = transcript(home);
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str("{\"uuid\":\"torn");
    fs::write(&path, text).unwrap();
    session
}

/// B3: before anything is appended.
#[test]
fn a_torn_record_is_mended_when_it_is_loaded() {
    let home = Home::new();
    let session = torn(&home);
    let mut client = Client::offline(&home, &[]).initialized();
    let loaded = client.load(&session);
    assert_eq!(recording(&loaded)["state"], "saved");
    assert!(valid_prefix(&transcript(&home)).len() > 1);
    assert!(client.degraded().is_empty());
}

/// R15, R19: the notice comes before there is an answer that opens the session.
#[test]
fn a_torn_record_that_cannot_be_mended_is_told_before_the_answer_to_the_load() {
    let home = Home::new();
    let session = torn(&home);
    let Some(_immutable) = Immutable::new(&transcript(&home)) else {
        return;
    };
    let mut client = Client::offline(&home, &[]).initialized();
    let cwd = home.workspace();
    let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    let id = client.rpc.request("session/load", &params);
    let answered = client.rpc.place_of_answer(id);
    let told = client.rpc.place(0, "the notice", is_degraded);
    assert!(told < answered);
    let answer = client.rpc.answer(id)["result"].clone();
    assert_eq!(recording(&answer)["state"], "degraded");
    assert_eq!(
        client.turn(&session, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    assert_eq!(client.degraded().len(), 1);
    client.end(&home);
}

/// B3: a gap is visible, in both ways of a load.
#[test]
fn a_load_of_a_damaged_record_says_that_it_is_not_whole() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    client.turn(&session, "SAY 1 chunks");
    client.end(&home);
    let path = transcript(&home);
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1] = "\u{1}broken";
    fs::write(&path, lines.join("\n") + "\n").unwrap();

    let told = words::damaged(2, 1);
    let takes_notices = json!({"notice": {}});
    for meta in [json!({}), json!({"qwen.session.loadReplayMode": "bulk"})] {
        let mut client = Client::offline(&home, &[]).initialized_with(&takes_notices);
        let cwd = home.workspace();
        let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": [], "_meta": meta});
        let loaded = client.rpc.result("session/load", &params);
        let replay = &loaded["_meta"]["qwen.session.loadReplay"];
        assert_eq!(replay["partial"], true, "{loaded}");
        assert_eq!(replay["replayError"], told);
        let frames = client.end(&home);
        let notices = updates(&frames, &session, "notice");
        assert_eq!(notices.len(), 1, "{notices:?}");
        assert_eq!(notices[0]["content"]["text"], told);
    }
}
