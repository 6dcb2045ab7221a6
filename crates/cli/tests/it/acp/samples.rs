//! Captured conversations of the real daemon and of plain clients with the real Qwen Code agent: what
//! the client said there is said to ours, and what is answered is compared by its shape.
//!
//! `DECISIONS` is all that may differ. A difference that is not in it fails, and so does an entry
//! that no conversation needs any more.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::Path,
    sync::Mutex,
};

use serde_json::{Value, json};
use testkit::{
    home::Home,
    need::samples,
    stub_model::{Gate, Reply, StubModel},
};

use super::child::{Client, DEGRADED, stub_command, text};

/// Conversations, and the request before which the transcripts are taken away.
const CONVERSATIONS: [(&str, Option<u64>); 11] = [
    ("02-session-new", None),
    ("03-approval-mode-and-prompt", None),
    ("06-cancel-during-stream", None),
    ("07-close-load", None),
    ("08-archive-strict-close-ok", None),
    (
        "10-recording-degraded-midsession-strict-close-fails",
        Some(29),
    ),
    ("12-degraded-during-best-effort-close", Some(8)),
    ("13-degraded-during-strict-close", Some(11)),
    ("14-title-write-fails", Some(16)),
    ("30-zed-like-client-real-child", None),
    ("31-plain-client-degraded-close-real-child", Some(8)),
];

/// What is different on purpose: where, and why.
const DECISIONS: [(&str, &str); 15] = [
    (
        "10, answer 30: cpuPercent heap rssBytes -> error -32601",
        "there is no JavaScript heap to tell of; a daemon shows nothing instead",
    ),
    (
        "10, answer 33: cpuPercent heap rssBytes -> error -32601",
        "as before",
    ),
    (
        "13, answer 10: stopReason, stopReason \"cancelled\" -> stopReason, stopReason \"end_turn\"",
        "our strict close finds the loss first, and then gives nothing up",
    ),
    (
        "30, answer 5: error -32603 -> ",
        "every name is a model of an endpoint of one's own; the endpoint knows better",
    ),
    (
        "30, answer 12: stopReason, stopReason \"end_turn\" -> stopReason, stopReason \"cancelled\"",
        "their cancel came too late, ours in time",
    ),
    (
        "30, answer 15: error -32601 -> ",
        "the protocol's own `session/close` is served",
    ),
    (
        "30, answer 18: error -32603 -> error -32602",
        "a session that is not open is a wrong param",
    ),
    ("30, answer 19: error -32603 -> error -32602", "as before"),
    ("30, answer 22: error -32603 -> error -32602", "as before"),
    (
        "30, answer 23: configOptions models modes sessionId -> error -32602",
        "a relative folder depends on where the agent was started",
    ),
    (
        "30, answer 24: configOptions models modes sessionId -> error -32602",
        "no tool can run in a folder that is not there",
    ),
    (
        "30, answer 26: error -32602 -> ",
        "the key comes from the environment, so that every method is none",
    ),
    (
        "30, answer 30: cancelled, cancelled false -> error -32602",
        "the session is closed since answer 15",
    ),
    (
        "31, answer 6: error -32603 -> stopReason, stopReason \"cancelled\"",
        "a prompt that a second one ended is always cancelled, never an error",
    ),
    (
        "31, answer 23: error -32603 -> closed holds sessionId, closed false",
        "a prompt that runs holds its session, so the close need not wait for it",
    ),
];

/// What answers may carry beside what was agreed: branches and background work are not offered, and
/// when a prompt was cancelled is told to every client.
const PRIVATE: [&str; 3] = [
    "_meta.qwen.branchPoint",
    "_meta.hasRunningBackgroundTasks",
    "_meta.qwen.promptCancelled",
];

/// What is sent or left out freely: what a session that was there before said, heartbeats, our level
/// of the record, and features that are not offered.
const OPTIONAL: [&str; 6] = [
    "agent_message_chunk",
    "available_commands_update",
    "qwen/notify/channel/active-work",
    "_onrecord/recording_state",
    "qwen/notify/session/prompt-suggestion",
    "craft/drainMidTurnQueue",
];

/// One frame of a conversation.
struct Step {
    from_client: bool,
    frame: Value,
}

fn steps(path: &Path) -> Vec<Step> {
    let lines = fs::read_to_string(path).unwrap();
    let rows = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["frame"].is_object())
        .map(|row| Step {
            from_client: row["dir"] == "c2a",
            frame: row["frame"].clone(),
        })
        .collect()
}

fn is_request(frame: &Value) -> bool {
    frame.get("id").is_some() && frame.get("method").is_some()
}

/// Whether a later frame of the client comes before the answer and ends the prompt.
fn is_interrupted(steps: &[Step], at: usize) -> bool {
    const ENDING: [&str; 4] = [
        "craft/cancelPendingPrompt",
        "session/cancel",
        "session/prompt",
        "qwen/control/session/close",
    ];
    let id = &steps[at].frame["id"];
    let until_answer = steps[at + 1..]
        .iter()
        .take_while(|step| step.from_client || step.frame["id"] != *id || is_request(&step.frame));
    let mut of_client = until_answer.filter(|step| step.from_client);
    of_client.any(|step| ENDING.iter().any(|method| step.frame["method"] == *method))
}

/// A model that holds those answers that are interrupted.
fn model(steps: &[Step], gate: &Gate) -> StubModel {
    let prompts = (0..steps.len()).filter(|&at| steps[at].frame["method"] == "session/prompt");
    // Only those with a prompt, and of a session that there is, reach the model.
    let reaching = prompts.filter(|&at| {
        let params = &steps[at].frame["params"];
        params["prompt"].is_array() && params["sessionId"] != "nope"
    });
    let held: VecDeque<bool> = reaching.map(|at| is_interrupted(steps, at)).collect();
    let (held, gate) = (Mutex::new(held), gate.clone());
    StubModel::serve(move |request| {
        let asked = request.last_text().unwrap_or_default();
        if request.last_is_result() {
            return Reply::says("done.");
        }
        if asked == BEFORE {
            return Reply::hello(1);
        }
        if held.lock().unwrap().pop_front() == Some(true) {
            return Reply::stream()
                .text("begun")
                .gate(&gate)
                .finish("stop")
                .done();
        }
        match asked
            .strip_prefix("TOOL:")
            .and_then(|call| call.split_once(' '))
        {
            Some((name, args)) => Reply::call(name, args),
            None => Reply::hello(1),
        }
    })
}

/// The prompt of sessions that were there before the conversation begins.
const BEFORE: &str = "said before";

/// The shape of an answer: its error's code, or the names in its result.
fn shape(answer: &Value) -> String {
    if let Some(error) = answer.get("error") {
        return format!("error {}", error["code"]);
    }
    let mut names = BTreeSet::new();
    for (name, value) in answer["result"].as_object().into_iter().flatten() {
        if name == "_meta" {
            let private = value.as_object().into_iter().flatten();
            names.extend(private.map(|(name, _)| format!("_meta.{name}")));
        } else {
            names.insert(name.clone());
        }
    }
    names.retain(|name| !name.starts_with("_meta.onrecord/") && !PRIVATE.contains(&name.as_str()));
    let mut shape = names.into_iter().collect::<Vec<_>>().join(" ");
    for word in ["stopReason", "closed", "cancelled", "persisted"] {
        let value = &answer["result"][word];
        if !value.is_null() {
            shape = format!("{shape}, {word} {value}");
        }
    }
    shape
}

/// What a frame of the agent is: its method, and the kind of an update.
fn kind(frame: &Value) -> Option<String> {
    let method = frame["method"].as_str()?;
    Some(match frame["params"]["update"]["sessionUpdate"].as_str() {
        Some(kind) => kind.to_owned(),
        None => method.to_owned(),
    })
}

/// What is compared of one side.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    answers: BTreeMap<u64, String>,
    kinds: BTreeSet<String>,
    /// The news of the failure came before the answer of the request that met it.
    degraded_first: bool,
}

fn seen(frames: &[&Value], met: Option<u64>, number: impl Fn(u64) -> Option<u64>) -> Seen {
    let mut seen = Seen::default();
    let mut is_degraded = false;
    for frame in frames {
        seen.kinds.extend(kind(frame));
        is_degraded |= frame["method"] == DEGRADED;
        let id = frame["id"]
            .as_u64()
            .filter(|_| frame.get("method").is_none());
        if let Some(id) = id.and_then(&number) {
            seen.answers.insert(id, shape(frame));
            if Some(id) == met {
                seen.degraded_first = is_degraded;
            }
        }
    }
    seen
}

fn is_answer(frame: &Value, id: u64) -> bool {
    frame["id"] == id && frame.get("method").is_none()
}

/// Reads on from `from` to the frame that is waited for. Other questions of ours, which the client of
/// the conversation was not asked, are refused.
fn attend(client: &mut Client, from: &mut usize, is: impl Fn(&Value) -> bool) -> Value {
    loop {
        let place = client
            .rpc
            .place(*from, "a frame that is waited for", |frame| {
                is(frame) || is_request(frame)
            });
        *from = place + 1;
        let frame = client.rpc.seen()[place].clone();
        if is(&frame) {
            return frame;
        }
        client.rpc.refuse(&frame, -32_601, "Method not found");
    }
}

/// Says to our agent what the client said; what both sides said.
fn converse(name: &str, steps: &[Step], fails_before: Option<u64>) -> (Seen, Seen) {
    let (home, gate) = (Home::new(), Gate::new());
    let stub = model(steps, &gate);
    let mut client = Client::start(&home, stub_command(&home, &stub).args(["--yolo"]));
    let workspace = text(&home.workspace());
    fs::write(home.workspace().join("r.txt"), "one\ntwo\n").unwrap();
    if !steps
        .iter()
        .any(|step| step.frame["method"] == "initialize")
    {
        let work = json!({"v": 1, "intervalMs": 15000, "categories": ["session"]});
        let meta = json!({"qwen.daemon.activeWorkHeartbeat": work});
        let hello = json!({"protocolVersion": 1, "clientCapabilities": {}, "_meta": meta});
        client.rpc.result("initialize", &hello);
    }
    let mut sessions: BTreeMap<String, String> = BTreeMap::new();
    let mut ids: BTreeMap<u64, u64> = BTreeMap::new();
    let mut interrupted = BTreeSet::new();
    let mut n_ours = 0;
    let mut n_begun = 0;
    for (at, step) in steps.iter().enumerate() {
        let frame = &step.frame;
        if !step.from_client {
            // What was answered by now there has to be answered here, before the client goes on.
            if let Some(id) = frame["id"].as_u64().filter(|_| !is_request(frame))
                && let Some(&ours) = ids.get(&id)
                && !interrupted.contains(&id)
                && !client.rpc.seen().iter().any(|f| is_answer(f, ours))
            {
                attend(&mut client, &mut n_ours, |f| is_answer(f, ours));
            }
            // Sessions that the other agent began have other ids here.
            if let (Some(theirs), Some(id)) =
                (frame["result"]["sessionId"].as_str(), frame["id"].as_u64())
                && let Some(&ours) = ids.get(&id)
                && let Some(session) = client.rpc.answer(ours)["result"]["sessionId"].as_str()
            {
                sessions.insert(theirs.to_owned(), session.to_owned());
            }
            continue;
        }
        let Some(method) = frame["method"].as_str() else {
            // Their answer to a question: the next one of the same kind is ours.
            let asked = steps[..at]
                .iter()
                .rfind(|s| !s.from_client && s.frame["id"] == frame["id"]);
            let asked = asked.unwrap().frame["method"].as_str().unwrap();
            if asked == "craft/drainMidTurnQueue" {
                continue;
            }
            let question = attend(&mut client, &mut n_ours, |f| f["method"] == asked);
            client.rpc.reply(&question, &frame["result"]);
            continue;
        };
        let mut params = frame["params"]
            .to_string()
            .replace("/home/user/ws", &workspace);
        let theirs = frame["params"]["sessionId"].as_str().unwrap_or_default();
        let is_known =
            sessions.contains_key(theirs) || theirs.len() != 36 || theirs.starts_with("1111");
        if !is_known {
            let session = client.session();
            client.turn(&session, BEFORE);
            sessions.insert(theirs.to_owned(), session);
        }
        for (theirs, ours) in &sessions {
            params = params.replace(theirs, ours);
        }
        let params: Value = serde_json::from_str(&params).unwrap();
        let Some(id) = frame["id"].as_u64() else {
            client.rpc.notify(method, &params);
            continue;
        };
        if fails_before == Some(id) {
            for path in home.transcripts() {
                fs::remove_file(path).unwrap();
            }
        }
        let ours = client.rpc.request(method, &params);
        ids.insert(id, ours);
        if method == "session/prompt" && is_interrupted(steps, at) {
            let begun = client
                .rpc
                .place(n_begun, "a chunk", |f| super::child::is_chunk(f, "begun"));
            n_begun = begun + 1;
            interrupted.insert(id);
        }
    }
    gate.open();
    for &ours in ids.values() {
        if !client.rpc.seen().iter().any(|f| is_answer(f, ours)) {
            attend(&mut client, &mut n_ours, |f| is_answer(f, ours));
        }
    }
    let frames = client.rpc.end().0;
    let back: BTreeMap<u64, u64> = ids.iter().map(|(&theirs, &ours)| (ours, theirs)).collect();
    let of_agent: Vec<_> = steps
        .iter()
        .filter(|s| !s.from_client)
        .map(|s| &s.frame)
        .collect();
    let theirs = seen(&of_agent, fails_before, |id| {
        ids.contains_key(&id).then_some(id)
    });
    let all: Vec<_> = frames.iter().collect();
    let ours = seen(&all, fails_before, |id| back.get(&id).copied());
    assert_eq!(theirs.answers.len(), ours.answers.len(), "{name}");
    (theirs, ours)
}

/// What is different, each as `conversation, where: theirs -> ours`.
fn differences(name: &str, theirs: &Seen, ours: &Seen) -> Vec<String> {
    let mut all = Vec::new();
    let number = &name[..2];
    for (id, shape) in &theirs.answers {
        if ours.answers.get(id) != Some(shape) {
            all.push(format!(
                "{number}, answer {id}: {shape} -> {}",
                ours.answers[id]
            ));
        }
    }
    let matters = |kind: &&String| !OPTIONAL.contains(&kind.as_str());
    for kind in theirs.kinds.difference(&ours.kinds).filter(matters) {
        all.push(format!("{number}, only theirs: {kind}"));
    }
    for kind in ours.kinds.difference(&theirs.kinds).filter(matters) {
        all.push(format!("{number}, only ours: {kind}"));
    }
    if theirs.degraded_first != ours.degraded_first {
        let (theirs, ours) = (theirs.degraded_first, ours.degraded_first);
        all.push(format!("{number}, degraded first: {theirs} -> {ours}"));
    }
    all
}

/// R15, R21: what a client of the real agent sees, it sees of ours, but for what was decided.
#[test]
fn what_a_client_of_the_real_agent_said_is_answered_alike() {
    let Some(folder) = samples() else { return };
    let mut found = Vec::new();
    for (name, fails_before) in CONVERSATIONS {
        let path = folder.join("acp").join(format!("{name}.jsonl"));
        let steps = steps(&path);
        let (theirs, ours) = converse(name, &steps, fails_before);
        found.extend(differences(name, &theirs, &ours));
    }
    let decided: Vec<_> = DECISIONS
        .iter()
        .map(|(what, _)| (*what).to_owned())
        .collect();
    assert_eq!(found, decided, "theirs -> ours");
}

/// Names in what a daemon reads of sessions and workspaces that ours leaves out, and why.
const LEFT_OUT: [(&str, &str, &str); 5] = [
    (
        "qwen/status/session/stats",
        "sources",
        "no helper asks the model beside the turn",
    ),
    (
        "qwen/status/session/supported_commands",
        "savedWorkflows",
        "there are no workflows",
    ),
    (
        "qwen/status/session/supported_commands",
        "workflowToolFeatures",
        "as before",
    ),
    (
        "qwen/status/session/supported_commands",
        "workflowsEnabled",
        "as before",
    ),
    (
        "qwen/status/session/turn_index",
        "snapshot",
        "every page is the whole",
    ),
];

/// What a daemon reads has the names that it looks for, and no others.
#[test]
fn what_a_daemon_reads_has_the_names_of_the_real_agents_answers() {
    let Some(folder) = samples() else { return };
    let methods = fs::read_to_string(folder.join("acp/methods.json")).unwrap();
    let methods: Vec<Value> = serde_json::from_str(&methods).unwrap();
    let home = Home::new();
    let mut client = Client::offline(&home, &[]).initialized();
    let session = client.session();
    client.turn(&session, "SAY 1 chunks");
    let mut missing = Vec::new();
    for method in [
        "qwen/status/session/context",
        "qwen/status/session/stats",
        "qwen/status/session/supported_commands",
        "qwen/status/session/tasks",
        "qwen/status/session/transcript",
        "qwen/status/session/turn_index",
        "qwen/status/workspace/mcp",
        "qwen/status/workspace/preflight",
        "qwen/status/workspace/skills",
        "qwen/status/workspace/tools",
    ] {
        let sample = methods.iter().find(|sample| sample["method"] == method);
        let theirs = &sample.expect("it was captured")["examples"][0]["result"];
        let params = json!({"sessionId": session, "cwd": home.workspace()});
        let ours = client.rpc.result(method, &params);
        let names = |value: &Value| -> BTreeSet<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        let (theirs, ours) = (names(theirs), names(&ours));
        assert!(ours.is_subset(&theirs), "{method}: {ours:?}");
        missing.extend(theirs.difference(&ours).map(|name| (method, name.clone())));
    }
    let left_out: Vec<_> = LEFT_OUT
        .iter()
        .map(|&(method, name, _)| (method, name.to_owned()))
        .collect();
    assert_eq!(missing, left_out);
    let named = json!({"sessionId": "nope"});
    for read in ["context", "stats", "tasks", "transcript", "turn_index"] {
        client
            .rpc
            .error(&format!("qwen/status/session/{read}"), &named);
    }
    client.end(&home);
}
