//! How sessions are closed (R21).

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use testkit::{
    faults::{Fault, shim},
    home::Home,
    stub_model::Gate,
};
use wire::{recording::FaultClass, words};

use super::{CLOSE, Client, held, is_chunk, prompt, recording};
use crate::world::{transcript, valid_prefix};

/// A client with a session whose record was lost after its first turn.
fn with_lost_record(home: &Home) -> (Client, String) {
    let mut client = Client::offline(home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    fs::remove_file(transcript(home)).unwrap();
    client.turn(&session, "SAY 1 chunks");
    (client, session)
}

/// R21, R28: a strict close of a lost record keeps the session, and names the class and the mend.
#[test]
fn a_strict_close_that_cannot_save_keeps_the_session_and_says_what_to_do() {
    let home = Home::new();
    let (mut client, session) = with_lost_record(&home);
    let first = client.close(&session, true);
    let error = &first["error"];
    assert_eq!(error["code"], -32_603);
    assert_eq!(error["message"], "Internal error");
    let details = error["data"]["details"].as_str().unwrap();
    assert!(details.contains("(gone)"), "{details}");
    assert!(
        details.contains(words::remedy(FaultClass::Gone)),
        "{details}"
    );
    assert_eq!(error["data"]["onrecord/recording"]["state"], "degraded");

    assert_eq!(
        client.turn(&session, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    for _ in 0..2 {
        assert_eq!(client.close(&session, true)["error"], first["error"]);
    }
    let closed = client.close(&session, false)["result"].clone();
    assert_eq!(
        (&closed["closed"], &closed["sessionId"]),
        (&json!(true), &json!(session))
    );
    assert_eq!(recording(&closed)["state"], "degraded", "R27");
    let error = client
        .rpc
        .error("session/prompt", &prompt(&session, "gone"));
    assert!(error.to_string().contains("Session not found"), "{error}");
    client.end(&home);
}

/// R21: repeating a close, or closing what was never there, is no fault of anybody.
#[test]
fn a_session_that_is_not_open_is_closed() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    for strict in [true, false] {
        let closed = client.close("nope", strict);
        assert_eq!(
            closed["result"],
            json!({"sessionId": "nope", "closed": true})
        );
    }
    let session = client.session();
    let both = [
        (CLOSE, json!({"sessionId": session})),
        (CLOSE, json!({"sessionId": session})),
    ];
    for id in client.rpc.request_all(&both) {
        assert_eq!(client.rpc.answer(id)["result"]["closed"], true);
    }
    client.end(&home);
}

#[test]
fn a_close_with_wrong_params_is_refused_and_closes_nothing() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    for params in [
        json!({}),
        json!({"sessionId": ""}),
        json!({"sessionId": session, "drainTimeoutMs": 0}),
        json!({"sessionId": session, "drainTimeoutMs": "x"}),
        json!({"sessionId": session, "drainTimeoutMs": 2_147_483_648_u64}),
        json!({"sessionId": session, "drainTimeoutMs": -1}),
        json!({"sessionId": session, "requireFlush": "yes"}),
    ] {
        assert_eq!(
            client.rpc.error(CLOSE, &params)["code"],
            -32_602,
            "{params}"
        );
    }
    assert_eq!(
        client.turn(&session, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    client.end(&home);
}

/// The prompt that runs is cancelled, and answered before the close is; what it said is on disk.
#[test]
fn a_close_cancels_the_running_prompt_and_answers_it_first() {
    for strict in [false, true] {
        let (home, gate) = (Home::new(), Gate::new());
        let stub = held(&gate);
        let mut client = Client::of_stub(&home, &stub, &[]).initialized();
        let session = client.session();
        let prompt = client.prompt(&session, "go on for long");
        client.rpc.place(0, "a chunk", |f| is_chunk(f, "begun"));
        let params = json!({"sessionId": session, "drainTimeoutMs": 8000, "requireFlush": strict});
        let close = client.rpc.request(CLOSE, &params);
        let closed = client.rpc.place_of_answer(close);
        let cancelled = client.rpc.place_of_answer(prompt);
        assert!(cancelled < closed);
        assert_eq!(
            client.rpc.answer(prompt)["result"]["stopReason"],
            "cancelled"
        );
        assert_eq!(client.rpc.answer(close)["result"]["closed"], true);
        assert_eq!(
            recording(&client.rpc.answer(close)["result"])["state"],
            "saved"
        );
        let records = valid_prefix(&transcript(&home));
        assert_eq!(records.len(), 2, "the prompt, and what was said");
        client.end(&home);
    }
}

/// R21: what is known to be lost before anything is given up cancels nothing.
#[test]
fn a_strict_close_that_fails_at_once_leaves_the_running_prompt_alone() {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let prompt = client.prompt(&session, "go on for long");
    client.rpc.place(0, "a chunk", |f| is_chunk(f, "begun"));
    fs::remove_file(transcript(&home)).unwrap();
    assert_eq!(client.close(&session, true)["error"]["code"], -32_603);
    gate.open();
    assert_eq!(
        client.rpc.answer(prompt)["result"]["stopReason"],
        "end_turn"
    );
    assert_eq!(client.turn(&session, "next")["stopReason"], "end_turn");
    client.end(&home);
}

/// The idle reaper of a daemon closes only what nobody uses.
#[test]
fn a_close_of_what_is_unheld_only_leaves_a_running_prompt_alone() {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let prompt = client.prompt(&session, "go on for long");
    client.rpc.place(0, "a chunk", |f| is_chunk(f, "begun"));
    let params = json!({"sessionId": session, "onlyIfUnheld": true});
    let answer = client.rpc.result(CLOSE, &params);
    assert_eq!(answer["closed"], false);
    assert_eq!(answer["holds"][0]["category"], "session");
    gate.open();
    assert_eq!(
        client.rpc.answer(prompt)["result"]["stopReason"],
        "end_turn"
    );
    assert_eq!(client.rpc.result(CLOSE, &params)["closed"], true);
    client.end(&home);
}

/// A disk whose second write to a transcript takes this long.
fn slow_disk(millis: u64) -> Option<Fault> {
    shim(&format!("write:slow={millis}:after=1,times=1,in=.jsonl"))
}

fn close_within(
    client: &mut Client,
    session: &str,
    millis: u64,
    strict: bool,
) -> (Value, Duration) {
    let began = Instant::now();
    let params = json!({"sessionId": session, "drainTimeoutMs": millis, "requireFlush": strict});
    let answer = client.rpc.call(CLOSE, &params);
    (answer, began.elapsed())
}

/// A close that was given up is no close: the session goes on, and a later one succeeds.
#[test]
fn a_close_keeps_its_drain_timeout_and_the_session_goes_on_after_it() {
    let Some(fault) = slow_disk(6_000) else {
        return;
    };
    let home = Home::new();
    let mut client = Client::under(&home, &fault, &[]).initialized();
    let session = client.session();
    assert_eq!(
        recording(&client.turn(&session, "SAY 1 chunks"))["state"],
        "pending"
    );
    let (answer, took) = close_within(&mut client, &session, 300, false);
    let details = &answer["error"]["data"]["details"];
    assert_eq!(details, "Session close timed out after 300ms", "{answer}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(
        client.turn(&session, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    assert_eq!(client.close(&session, true)["result"]["closed"], true);
    assert!(client.degraded().is_empty(), "late is not failed");
    client.end(&home);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4);
}

/// R21, R27, B7: a strict close does not wait for ever, and does not call saved what is not.
#[test]
fn a_strict_close_of_a_record_that_is_not_yet_on_disk_is_refused_and_may_be_tried_again() {
    let Some(fault) = slow_disk(6_000) else {
        return;
    };
    let home = Home::new();
    let mut client = Client::under(&home, &fault, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    let (answer, took) = close_within(&mut client, &session, 300, true);
    assert_eq!(
        answer["error"]["data"]["onrecord/recording"]["state"],
        "pending"
    );
    assert!(took < Duration::from_secs(2), "{took:?}");
    let mut answer = Value::Null;
    for _ in 0..5 {
        answer = close_within(&mut client, &session, 8_000, true).0;
        if answer.get("result").is_some() {
            break;
        }
    }
    assert_eq!(answer["result"]["closed"], true, "{answer}");
    assert_eq!(recording(&answer["result"])["state"], "saved");
    client.end(&home);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 2);
}

/// B7, R27: an ordinary close of a record that hangs ends in bounded time and does not say saved.
#[test]
fn an_ordinary_close_does_not_wait_for_a_disk_that_hangs() {
    let Some(fault) = slow_disk(60_000) else {
        return;
    };
    let home = Home::new();
    let mut client = Client::under(&home, &fault, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    let (answer, took) = close_within(&mut client, &session, 8_000, false);
    assert_eq!(answer["result"]["closed"], true, "{answer}");
    assert!(took < Duration::from_secs(7), "{took:?}");
    assert_eq!(recording(&answer["result"])["state"], "pending");
    client.end(&home);
}

fn load_params(home: &Home, session: &str) -> Value {
    json!({"sessionId": session, "cwd": home.workspace(), "mcpServers": []})
}

/// A load that comes while its session is being closed opens it afresh instead of going with it.
#[test]
fn a_load_behind_a_close_waits_for_it_and_opens_the_session_again() {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let running = client.prompt(&session, "go on for long");
    client.rpc.place(0, "a chunk", |f| is_chunk(f, "begun"));
    let both = [
        (CLOSE, json!({"sessionId": session})),
        ("session/load", load_params(&home, &session)),
        ("session/close", json!({"sessionId": "another"})),
    ];
    let ids = client.rpc.request_all(&both);
    let closed = client.rpc.place_of_answer(ids[0]);
    let loaded = client.rpc.place_of_answer(ids[1]);
    assert!(closed < loaded);
    let cancelled = client.rpc.answer(running)["result"]["stopReason"].clone();
    assert_eq!(cancelled, "cancelled");
    assert!(client.rpc.answer(ids[1]).get("result").is_some());
    let answer = client.turn(&session, "again");
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(recording(&answer)["state"], "saved");
    client.end(&home);
    assert_eq!(valid_prefix(&transcript(&home)).len(), 4);
}

#[test]
fn a_load_behind_a_close_that_fails_finds_the_session_that_goes_on() {
    let home = Home::new();
    let (mut client, session) = with_lost_record(&home);
    let both = [
        (CLOSE, json!({"sessionId": session, "requireFlush": true})),
        ("session/resume", load_params(&home, &session)),
    ];
    let ids = client.rpc.request_all(&both);
    assert!(client.rpc.answer(ids[0]).get("error").is_some());
    let loaded = client.rpc.answer(ids[1]);
    assert_eq!(
        recording(&loaded["result"])["state"],
        "degraded",
        "{loaded}"
    );
    client.end(&home);
}

/// Two that close the same session take nothing away from whoever opens it again between them.
#[test]
fn closes_of_one_session_do_not_close_the_one_that_is_loaded_after_them() {
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    let all = [
        (CLOSE, json!({"sessionId": session})),
        ("session/load", load_params(&home, &session)),
        (CLOSE, json!({"sessionId": session})),
    ];
    let ids = client.rpc.request_all(&all);
    for id in ids {
        assert!(client.rpc.answer(id).get("result").is_some());
    }
    assert_eq!(
        client.turn(&session, "SAY 1 chunks")["stopReason"],
        "end_turn"
    );
    client.end(&home);
}

/// The close of ACP is an ordinary one.
#[test]
fn the_close_of_the_protocol_cancels_the_prompt_and_ends_the_session() {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = held(&gate);
    let mut client = Client::of_stub(&home, &stub, &[]).initialized();
    let session = client.session();
    let running = client.prompt(&session, "go on for long");
    client.rpc.place(0, "a chunk", |f| is_chunk(f, "begun"));
    let params = json!({"sessionId": session});
    let id = client.rpc.request("session/close", &params);
    let closed = client.rpc.place_of_answer(id);
    assert!(client.rpc.place_of_answer(running) < closed);
    let answer = client.rpc.answer(id)["result"].clone();
    assert_eq!(recording(&answer)["state"], "saved");
    assert_eq!(answer.as_object().unwrap().len(), 1, "{answer}");
    let error = client
        .rpc
        .error("session/prompt", &prompt(&session, "gone"));
    assert!(error.to_string().contains("Session not found"), "{error}");
    assert_eq!(client.rpc.result("session/close", &params), json!({}));
    let refused = client.rpc.error("session/close", &json!({}));
    assert_eq!(refused["code"], -32_602);
    client.end(&home);
}
