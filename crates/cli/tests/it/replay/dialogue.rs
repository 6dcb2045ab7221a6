//! Driven sessions: each line of the host is sent once what came before it has come again.

use std::{collections::HashMap, fs, path::Path, thread};

use serde_json::{Value, json};
use testkit::{
    driven::Driven,
    faults::{Fault, shim},
    home::Home,
    need,
};

use super::{
    args, assert_all_met, assert_decided,
    compare::{Difference, compare, kind},
    in_one_place, model,
    sample::{Sample, Step},
    workspace,
};
use crate::world::{ONRECORD, transcript};

/// A sample, and what is broken after its first turn where something was.
type Broken = (&'static str, Option<fn(&Path)>);

/// Samples on a disk that is as fast as any.
const SAMPLES: &[Broken] = &[
    ("multi.stream", None),
    ("sdk.basic", None),
    ("sdk.ctl", None),
    ("sdk.can", None),
    ("bad.closeearly", None),
    ("bad.direct-then-control", None),
    ("bad.malformed", None),
    ("bad.malformed-midturn", None),
    ("bad.noinit", None),
    ("bad.withprompt", None),
    ("long.isdir", Some(replace_by_folder)),
    ("long.rmdir", Some(remove_folder)),
    ("long.rmfile", Some(remove)),
];

/// Samples in which the disk takes its time.
const SLOW: &[Broken] = &[
    ("slowlong.session", None),
    ("latefail.session", Some(remove)),
];

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

fn remove_folder(path: &Path) {
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

fn replace_by_folder(path: &Path) {
    fs::rename(path, path.with_extension("bak")).unwrap();
    fs::create_dir(path).unwrap();
}

#[test]
fn driven_sessions_are_answered_as_qwen_code_answers_them() {
    replay_all(SAMPLES, &Fault::none());
}

#[test]
fn driven_sessions_on_a_slow_disk_are_answered_as_qwen_code_answers_them() {
    // A write that takes its time is to us what a slow fsync is to them.
    let Some(fault) = shim("write:slow=4000:after=1,times=1,in=.jsonl") else {
        return;
    };
    replay_all(SLOW, &fault);
}

fn replay_all(samples: &[Broken], fault: &Fault) {
    let Some(folder) = need::samples() else {
        return;
    };
    let met: Vec<usize> = thread::scope(|scope| {
        let replays: Vec<_> = samples
            .iter()
            .map(|(name, breaks)| {
                let sample = Sample::read(&folder, name);
                scope.spawn(move || assert_decided(&sample.name, replay(&sample, *breaks, fault)))
            })
            .collect();
        let met = replays.into_iter().map(|replay| replay.join().unwrap());
        met.flatten().collect()
    });
    let names: Vec<&str> = samples.iter().map(|(name, _)| *name).collect();
    assert_all_met(&names, &met);
}

fn replay(sample: &Sample, breaks: Option<fn(&Path)>, fault: &Fault) -> Vec<Difference> {
    let home = Home::new();
    let stub = model(sample);
    let mut command = home.command_under(fault, ONRECORD);
    command
        .env("OPENAI_BASE_URL", stub.base_url())
        .args(args(sample));
    if sample.args.is_empty() {
        command.args(crate::driven::DRIVEN);
    }
    let mut replay = Replay {
        process: Driven::start(&mut command),
        sample,
        home: &home,
        n_awaited: HashMap::new(),
        ids: HashMap::new(),
    };
    let mut is_open = true;
    let mut n_results = 0;
    for step in &sample.steps {
        match step {
            Step::Heard(message) => {
                replay.expect(message);
                if message["type"] == "result" {
                    n_results += 1;
                    if let Some(breaks) = breaks.filter(|_| n_results == 1) {
                        replay.wait_for_all();
                        breaks(&transcript(&home));
                    }
                }
            }
            Step::Said(line) if is_open => {
                replay.wait_for_all();
                replay.say(line);
            }
            Step::Said(_) => {}
            Step::Closed => {
                replay.wait_for_all();
                replay.process.close_input();
                is_open = false;
            }
        }
    }
    replay.wait_for_all();
    let ran = replay.process.end();
    assert_eq!(ran.code, 0, "{}: {ran:?}", sample.name);
    let ours: Vec<Value> = ran
        .stdout_lines()
        .into_iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    differences(sample, &home, &ours)
}

/// A session that is played again.
struct Replay<'a> {
    process: Driven,
    sample: &'a Sample,
    home: &'a Home,
    /// How many messages of each kind have to have come before the host goes on.
    n_awaited: HashMap<String, usize>,
    /// Our ids of questions, by theirs.
    ids: HashMap<String, String>,
}

/// What the host waits for: results, questions, and answers to its own requests.
fn awaited(message: &Value) -> Option<String> {
    match kind(message).as_str() {
        kind @ ("result" | "can_use_tool") => Some(kind.to_owned()),
        // A server is ready with the last thing that both ask of it.
        "mcp_message" => {
            let method = &message["request"]["message"]["method"];
            (method == "tools/list").then(|| "tools/list".to_owned())
        }
        "control_response" => Some(format!("answer {}", message["response"]["request_id"])),
        _ => None,
    }
}

impl Replay<'_> {
    fn expect(&mut self, message: &Value) {
        if let Some(kind) = awaited(message) {
            // A request has one answer from us, also where Qwen Code gave two.
            let once = kind.starts_with("answer");
            let n = self.n_awaited.entry(kind).or_default();
            *n = if once { 1 } else { *n + 1 };
        }
        if kind(message) == "can_use_tool" {
            self.wait_for_all();
            let question = self
                .process
                .seen()
                .iter()
                .rfind(|m| kind(m) == "can_use_tool");
            let id = |message: &Value| message["request_id"].as_str().unwrap().to_owned();
            self.ids.insert(id(message), id(question.unwrap()));
        }
    }

    fn wait_for_all(&mut self) {
        loop {
            let mut n_missing = self.n_awaited.clone();
            for message in self.process.seen() {
                if let Some(n) = awaited(message).and_then(|kind| n_missing.get_mut(&kind)) {
                    *n = n.saturating_sub(1);
                }
            }
            if n_missing.values().all(|n| *n == 0) {
                return;
            }
            let message = self.process.until(&format!("{n_missing:?}"), |_| true);
            self.serve(&message);
        }
    }

    /// Answers questions for MCP servers as the host of the capture did, by their method.
    fn serve(&mut self, message: &Value) {
        if kind(message) != "mcp_message" {
            return;
        }
        let asked = &message["request"]["message"];
        let mut answer = self.answer_to(&asked["method"]);
        answer["id"] = asked.get("id").cloned().unwrap_or(json!(0));
        self.process
            .send(&json!({"type": "control_response", "response": {
                "subtype": "success",
                "request_id": message["request_id"],
                "response": {"mcp_response": answer},
            }}));
    }

    fn answer_to(&self, method: &Value) -> Value {
        let answer = self.sample.heard.iter().find_map(|asked| {
            let is_asked =
                kind(asked) == "mcp_message" && asked["request"]["message"]["method"] == *method;
            is_asked.then(|| self.said_to(asked)).flatten()
        });
        answer.unwrap_or_else(|| panic!("the capture has no answer to {method}"))
    }

    /// What the host of the capture answered to a question for an MCP server.
    fn said_to(&self, asked: &Value) -> Option<Value> {
        self.sample.steps.iter().find_map(|step| {
            let Step::Said(line) = step else { return None };
            let said: Value = serde_json::from_str(line).ok()?;
            let response = &said["response"];
            (response["request_id"] == asked["request_id"])
                .then(|| response["response"]["mcp_response"].clone())
        })
    }

    fn say(&mut self, line: &str) {
        let line = line.replace(&self.sample.folder(), &workspace(self.home));
        let Ok(mut message) = serde_json::from_str::<Value>(&line) else {
            self.process.send_bytes(format!("{line}\n").as_bytes());
            return;
        };
        if message["type"] == "control_response" {
            if message["response"]["response"]
                .get("mcp_response")
                .is_some()
            {
                // Given when it was asked.
                return;
            }
            let id = message["response"]["request_id"].as_str().unwrap();
            message["response"]["request_id"] = json!(self.ids[id]);
        }
        self.process.send(&message);
    }
}

/// Compares what belongs to the conversation, then the answers, then the notices.
fn differences(sample: &Sample, home: &Home, ours: &[Value]) -> Vec<Difference> {
    let theirs = in_one_place(&sample.heard, &sample.folder());
    let ours = in_one_place(ours, &workspace(home));
    let of_the_conversation = |message: &&Value| {
        !matches!(
            kind(message).as_str(),
            "control_response" | "mcp_message" | "session_recording_degraded"
        )
    };
    let part = |messages: &[Value]| -> Vec<Value> {
        messages
            .iter()
            .filter(of_the_conversation)
            .cloned()
            .collect()
    };
    let mut found = compare(&part(&theirs), &part(&ours));
    found.extend(differences_of_answers(sample, &theirs, &ours));
    found.extend(differences_of_calls(&theirs, &ours));
    found.extend(super::one_shot::differences_of_notices(&theirs, &ours));
    found
}

/// Answers may come in any order; each belongs to its request.
fn differences_of_answers(sample: &Sample, theirs: &[Value], ours: &[Value]) -> Vec<Difference> {
    let mut found = Vec::new();
    for step in &sample.steps {
        let Step::Said(line) = step else { continue };
        let Ok(said) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        if said["type"] != "control_request" {
            continue;
        }
        let answers = |messages: &[Value]| -> Vec<Value> {
            let of_request = messages.iter().filter(|m| {
                m["type"] == "control_response" && m["response"]["request_id"] == said["request_id"]
            });
            of_request.cloned().collect()
        };
        let subtype = said["request"]["subtype"].as_str().unwrap_or_default();
        let differences = compare(&answers(theirs), &answers(ours));
        found.extend(differences.into_iter().map(|difference| Difference {
            place: format!("{subtype}: {}", difference.place),
            ..difference
        }));
    }
    found
}

/// Calls of tools of the host.
fn differences_of_calls(theirs: &[Value], ours: &[Value]) -> Vec<Difference> {
    let calls = |messages: &[Value]| -> Vec<Value> {
        let calls = messages
            .iter()
            .filter(|m| m["request"]["message"]["method"] == "tools/call");
        calls
            .map(|m| {
                let mut m = m.clone();
                // Numbers of a connection.
                m["request"]["message"]["id"] = json!(0);
                m
            })
            .collect()
    };
    compare(&calls(theirs), &calls(ours))
}
