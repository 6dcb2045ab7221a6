//! The story of a record that fails, frame by frame, as the clients of our daemon see it; where it is told
//! better than by the daemon whose protocol it is, each such difference.

use std::fs;

use serde_json::{Value, json};
use testkit::{
    faults::Immutable,
    home::Home,
    http::{Events, ask_as},
    served::{Served, ended, of_type},
    stub_model::StubModel,
};

use super::{Hosted, ours};
use crate::world::valid_prefix;

/// A session whose record is saved so far, and a client of it.
struct Story {
    home: Home,
    daemon: Served,
    session: String,
    client: String,
    epoch: String,
}

impl Story {
    fn begin(args: &[&str]) -> Self {
        let home = Home::new();
        let stub = StubModel::hello(1);
        let daemon = Served::start(ours(&home, &stub).args(args));
        // The stub of a daemon lives as long as its test.
        std::mem::forget(stub);
        let opened = daemon.good("POST", "/session", Some(&json!({"sessionScope": "thread"})));
        let text = |field: &str| opened[field].as_str().unwrap().to_owned();
        let (session, client) = (text("sessionId"), text("clientId"));
        let mut story = Self {
            home,
            daemon,
            session,
            client,
            epoch: String::new(),
        };
        let mut events = story.daemon.events(&story.session, "");
        story.turn(&mut events, "saved");
        story
    }

    /// A turn of the client, up to its end.
    fn turn(&mut self, events: &mut Events, text: &str) -> Value {
        let body = json!({"prompt": [{"type": "text", "text": text}]});
        let path = format!("/session/{}/prompt", self.session);
        let headers = [("x-qwen-client-id", &*self.client)];
        let (status, accepted) =
            ask_as(self.daemon.address(), "POST", &path, &headers, Some(&body));
        assert_eq!(status, 202, "{accepted}");
        self.epoch = accepted["eventEpoch"].as_str().unwrap().to_owned();
        ended(events, &accepted["promptId"])
    }

    /// From now on nothing can be written to the record.
    fn fault(&self) -> Option<Immutable> {
        let transcripts = self.home.transcripts();
        assert_eq!(transcripts.len(), 1);
        Immutable::new(&transcripts[0])
    }

    /// The record fails in a turn; the frame that told it.
    fn fail(&mut self, events: &mut Events) -> Value {
        let end = self.turn(events, "lost");
        assert_eq!(end["data"]["stopReason"], "end_turn", "R26");
        let told = of_type(events, "session_recording_degraded");
        assert_eq!(told.len(), 1);
        told[0].clone()
    }

    fn get(&self, path: &str) -> Value {
        self.daemon.good("GET", path, None)
    }

    fn path(&self, rest: &str) -> String {
        format!("/session/{}{rest}", self.session)
    }

    fn workspace(&self) -> String {
        let workspace = self.home.workspace();
        workspace.to_str().unwrap().replace('/', "%2F")
    }
}

fn snapshot(events: &mut Events) -> Value {
    events.until("a snapshot", |event| event["type"] == "session_snapshot")["data"].clone()
}

/// R16, R20: one ordinary event of the bus, with the client whose prompt was running and without the
/// prompt, before the end of the turn; and never again, whatever else fails.
#[test]
fn the_event_is_told_once_in_the_turn_that_it_belongs_to() {
    let mut story = Story::begin(&[]);
    let Some(_immutable) = story.fault() else {
        return;
    };
    let mut events = story.daemon.events(&story.session, "");
    let told = story.fail(&mut events);
    assert_eq!(
        told["data"],
        json!({"sessionId": story.session, "reason": "write_failed"})
    );
    assert_eq!(told["v"], 1);
    assert_eq!(told["originatorClientId"], story.client);
    assert!(told.get("promptId").is_none(), "{told}");
    assert!(told["id"].is_u64() && told["_meta"]["serverTimestamp"].is_u64());
    let keys: Vec<&String> = told.as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 6, "nothing else crosses: {told}");
    story.turn(&mut events, "lost, too");
    let rename = story.daemon.good(
        "PATCH",
        &story.path("/metadata"),
        Some(&json!({"displayName": "a name"})),
    );
    assert_eq!(rename["persisted"], false, "R27: {rename}");
    assert_eq!(of_type(&events, "session_recording_degraded").len(), 1);
    let said = format!("{:?}{rename}", events.seen());
    assert!(!said.contains(".jsonl"), "R28");
}

/// R18, B1, 20.6: wherever a live session is shown, its record is, too; and not that of its neighbour.
#[test]
fn the_level_is_everywhere_a_session_is_named() {
    let mut story = Story::begin(&[]);
    let healthy = story.daemon.session("default");
    let Some(_immutable) = story.fault() else {
        return;
    };
    let mut events = story.daemon.events(&story.session, "");
    story.fail(&mut events);
    let is_degraded = |row: &Value| {
        assert_eq!(row["recordingDegraded"], true, "{row}");
        assert_eq!(row["recordingState"], "degraded", "{row}");
    };
    is_degraded(&story.get(&story.path("/status")));
    is_degraded(
        &story
            .daemon
            .good("POST", &story.path("/load"), Some(&json!({}))),
    );
    is_degraded(
        &story
            .daemon
            .good("POST", &story.path("/resume"), Some(&json!({}))),
    );
    let (list, live) = (
        format!("/workspace/{}/sessions", story.workspace()),
        format!("/workspaces/{}/sessions/live-state", story.workspace()),
    );
    for path in [list, live] {
        let listed = story.get(&path);
        for row in listed["sessions"].as_array().unwrap() {
            if row["sessionId"] == story.session {
                is_degraded(row);
            } else {
                assert_eq!(row["sessionId"], healthy);
                assert_eq!(row["recordingDegraded"], false, "{row}");
            }
        }
    }
    assert_eq!(story.get("/health?deep=1")["recordingDegraded"], 1);
    let mut late = story.daemon.events(&story.session, "?snapshot=1");
    is_degraded(&snapshot(&mut late));
    let mut other = story.daemon.events(&healthy, "?snapshot=1");
    assert_eq!(snapshot(&mut other)["recordingDegraded"], false);
}

/// R18: a cursor before the event replays it; one behind it has the snapshot, and so has one that the ring
/// has left.
#[test]
fn whoever_comes_late_learns_it_however_late() {
    let mut story = Story::begin(&["--event-ring-size", "3"]);
    let Some(_immutable) = story.fault() else {
        return;
    };
    let mut events = story.daemon.events(&story.session, "");
    let told = story.fail(&mut events)["id"].as_u64().unwrap();
    let head = events.seen().last().unwrap()["id"].as_u64().unwrap();
    let open = |id| {
        story
            .daemon
            .events_after(&story.session, "?snapshot=1", id, &story.epoch)
    };
    let kinds = |events: &Events| -> Vec<String> {
        let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
        events.seen().iter().map(kind).collect()
    };

    let mut at_head = open(head);
    assert_eq!(snapshot(&mut at_head)["recordingDegraded"], true);
    assert_eq!(kinds(&at_head), ["replay_complete", "session_snapshot"]);

    for text in ["one", "two", "three"] {
        story.turn(&mut events, text);
    }
    let mut evicted =
        story
            .daemon
            .events_after(&story.session, "?snapshot=1", told - 1, &story.epoch);
    assert_eq!(snapshot(&mut evicted)["recordingDegraded"], true);
    let kinds = kinds(&evicted);
    assert_eq!(kinds.first().unwrap(), "state_resync_required");
    assert_eq!(evicted.seen()[0]["data"]["reason"], "ring_evicted");
    assert_eq!(kinds.len(), 1 + 3 + 2, "{kinds:?}");
    assert!(of_type(&evicted, "session_recording_degraded").is_empty());
    assert!(story.get("/health?deep=1")["resyncs"].as_u64().unwrap() > 0);
}

/// R21, 20.7: a close that needs the record is refused with class and remedy, and the session goes on; an
/// ordinary close says in its event what was lost.
#[test]
fn a_strict_close_is_refused_and_an_ordinary_one_says_what_is_lost() {
    let mut story = Story::begin(&[]);
    let Some(immutable) = story.fault() else {
        return;
    };
    let mut events = story.daemon.events(&story.session, "");
    story.fail(&mut events);
    for _ in 0..2 {
        let refused = story.daemon.archive(&story.session);
        let error = &refused["errors"][0];
        assert_eq!(error["sessionId"], story.session, "{refused}");
        assert_eq!(error["code"], "recording_flush_failed");
        let text = error["error"].as_str().unwrap();
        assert!(text.contains("permission") && !text.contains('/'), "{text}");
        assert_eq!(refused["archived"], json!([]));
    }
    let end = story.turn(&mut events, "still there");
    assert_eq!(end["data"]["stopReason"], "end_turn");
    assert_eq!(of_type(&events, "session_recording_degraded").len(), 1);
    story.daemon.good("DELETE", &story.path(""), None);
    let all = events.to_end();
    let last = all.last().unwrap();
    assert_eq!(last["type"], "session_closed");
    assert_eq!(last["data"]["recordingDegraded"], true, "{last}");
    drop(immutable);
    let records = valid_prefix(&story.home.transcripts()[0]);
    assert!(format!("{records:?}").contains("saved"));
}

/// R19: what is loaded again has a recorder of its own; the history is what was saved.
#[test]
fn a_session_that_is_loaded_again_begins_healthy() {
    let mut story = Story::begin(&[]);
    let Some(immutable) = story.fault() else {
        return;
    };
    let mut events = story.daemon.events(&story.session, "");
    story.fail(&mut events);
    story.daemon.good("DELETE", &story.path(""), None);
    drop(immutable);
    let loaded = story
        .daemon
        .good("POST", &story.path("/load"), Some(&json!({})));
    assert_eq!(loaded["attached"], false);
    assert_ne!(loaded["eventEpoch"], story.epoch);
    assert_eq!(loaded["recordingDegraded"], false);
    let history = loaded["compactedReplay"].to_string();
    assert!(history.contains("saved") && !history.contains("lost"));
    loaded["clientId"]
        .as_str()
        .unwrap()
        .clone_into(&mut story.client);
    let mut events = story.daemon.events(&story.session, "?snapshot=1");
    assert_eq!(snapshot(&mut events)["recordingDegraded"], false);
    let end = story.turn(&mut events, "saved again");
    assert_eq!(end["data"]["stopReason"], "end_turn");
    assert!(of_type(&events, "session_recording_degraded").is_empty());
    let archived = story.daemon.archive(&story.session);
    assert_eq!(archived["archived"], json!([story.session]), "{archived}");
}

/// 20.9: the stop tells the streams and is a good one, whatever became of a record; the next daemon knows
/// nothing of it, and says so to an old cursor.
#[test]
fn a_stop_is_a_good_one_and_the_next_daemon_begins_healthy() {
    let mut story = Story::begin(&[]);
    let Some(immutable) = story.fault() else {
        return;
    };
    let mut events = story.daemon.events(&story.session, "");
    let told = story.fail(&mut events)["id"].as_u64().unwrap();
    let Story {
        home,
        daemon,
        session,
        epoch,
        ..
    } = story;
    assert!(daemon.stop().success());
    let all = events.to_end();
    let last = all.last().unwrap();
    assert_eq!(last["type"], "session_died");
    assert_eq!(last["data"]["reason"], "daemon_shutdown");
    drop(immutable);

    let stub = StubModel::hello(1);
    let daemon = Served::start(&mut ours(&home, &stub));
    let path = format!("/session/{session}");
    assert_eq!(daemon.ask("GET", &format!("{path}/status"), None).0, 404);
    let loaded = daemon.good("POST", &format!("{path}/load"), Some(&json!({})));
    assert_eq!(loaded["recordingDegraded"], false);
    let mut events = daemon.events_after(&session, "?snapshot=1", told, &epoch);
    assert_eq!(snapshot(&mut events)["recordingDegraded"], false);
    let first = &events.seen()[0];
    assert_eq!(first["type"], "state_resync_required");
    assert_eq!(first["data"]["reason"], "epoch_reset");
    assert_eq!(first["data"]["detail"], "epoch_mismatch");
    // What was there is untouched.
    assert!(
        fs::read_to_string(&home.transcripts()[0])
            .unwrap()
            .contains("saved")
    );
}

/// R16 to R21 with the real agent, as far as its protocol tells them.
#[test]
fn the_real_agent_is_hosted_through_the_same_story() {
    let (home, stub) = (Home::new(), StubModel::hello(1));
    let Some(daemon) = Hosted::RealByOurs.start(&home, &stub) else {
        return;
    };
    let session = daemon.session("default");
    let mut events = daemon.events(&session, "");
    daemon.turn(&session, &mut events, "saved");
    let transcripts = home.transcripts();
    let Some(immutable) = Immutable::new(&transcripts[0]) else {
        return;
    };
    let end = daemon.turn(&session, &mut events, "lost");
    assert_eq!(end["data"]["stopReason"], "end_turn", "R26");
    if of_type(&events, "session_recording_degraded").is_empty() {
        events.until("the event", |event| {
            event["type"] == "session_recording_degraded"
        });
    }
    let path = format!("/session/{session}");
    let status = daemon.good("GET", &format!("{path}/status"), None);
    assert_eq!(status["recordingDegraded"], true, "{status}");
    // It never says its level, and nobody makes one up.
    assert!(status.get("recordingState").is_none(), "{status}");
    let refused = daemon.archive(&session);
    let error = &refused["errors"][0];
    assert_eq!(error["code"], "recording_flush_failed", "{refused}");
    assert!(!refused.to_string().contains(".jsonl"), "R28: {refused}");
    daemon.turn(&session, &mut events, "still there");
    assert_eq!(of_type(&events, "session_recording_degraded").len(), 1);
    daemon.good("DELETE", &path, None);
    drop(immutable);
    daemon.good("POST", &format!("{path}/load"), Some(&json!({})));
    let mut events = daemon.events(&session, "?snapshot=1");
    assert_eq!(snapshot(&mut events)["recordingDegraded"], false);
}
