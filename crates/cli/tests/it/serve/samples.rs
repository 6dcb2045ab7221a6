//! The answers of `qwen serve` 0.24, captured, beside ours to the same requests. Ours may say more; what it says
//! less, or otherwise, stands in [`DIFFERENT`] with the reason.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};
use testkit::{home::Home, http::ask_raw, need, served::Served, stub_model::StubModel};
use uuid::Uuid;

use super::ours;

/// Samples of a situation that other tests bring about, where their names say it.
const ELSEWHERE: &[&str] = &[
    "err-body-too-large",
    "err-create-sessionid-conflict",
    "err-prompt-queue-full",
    "err-session-limit",
    "err-vote-badoption",
    "err-vote-sentinel",
    "load-after-kill",
    "load-archived",
    "load-mid-turn",
    "ok-self-origin",
    "ra-rate-limited",
    "rd-archive-strict",
    "rd-early-load",
    "rd-early-resume",
    "rd-status",
    "rd-transcript",
    "rd3-load-after-torn",
    "rdE-load",
    "rdL-load",
    "rdL-load2",
    "rdL-status",
    "session-create-with-clientid",
    "sse-noauth",
    "sse-query-token",
    "sse-subscriber-limit",
    "status-turn-error",
    "turns-current-running",
    "vote-ok",
];

/// What ours says less, or otherwise: in which samples (the beginning of their names), what (the beginning of a
/// difference), and why.
const DIFFERENT: &[(&str, &str, &str)] = &[
    // Answers as a whole.
    (
        "auth-root-noauth",
        "",
        "no page is served without a folder for it",
    ),
    (
        "root-html",
        "404, not 200",
        "no page is served without a folder for it",
    ),
    (
        "spa-session",
        "404, not 200",
        "no page is served without a folder for it",
    ),
    (
        "unknown-html",
        "404, not 200",
        "no page is served without a folder for it",
    ),
    (
        "context-usage",
        "",
        "our agent does not count the tokens of each part of a prompt",
    ),
    (
        "model-bad",
        "",
        "our agent takes any name: the endpoint says whether it has that model",
    ),
    ("rd-branch", "", "no branches"),
    (
        "rd-runtime-stop",
        "",
        "one child, which stops with its daemon",
    ),
    ("shell-disabled", "", "no shell of the person's own"),
    (
        "rd3-list-after-restart",
        "",
        "another workspace than the one that is served",
    ),
    (
        "prompt-no-session-trailing",
        " is {",
        "every refusal is JSON",
    ),
    // Parts of answers.
    (
        "approval-",
        "no .planExecutionMode",
        "a plan is carried out in the mode that is then set",
    ),
    ("", "no .limits.", "limits of what is not there"),
    ("daemon-status", "no .", "what the stock page does not read"),
    (
        "",
        "no .state.models.availableModels[]",
        "a model is its name",
    ),
    ("", "no .state._meta", "of Qwen's own clients"),
    ("model-set", "no ._meta", "of Qwen's own clients"),
    ("rd-model", "no ._meta", "of Qwen's own clients"),
    (
        "err-create-arraybody",
        "no .hasActivePrompt",
        "created here, attached to there",
    ),
    ("health-deep", ".", "sessions were there before"),
    (
        "list-after-close",
        "no .sessions[].titleSource",
        "a name of a prompt is no title",
    ),
    (
        "load-historypage-small",
        "no .history",
        "a stored session of a single turn",
    ),
    (
        "",
        "no .promptTerminals",
        "a ledger beside the record would call done what is not saved",
    ),
    (
        "",
        "no .compactedReplay[].data.update.timestamp",
        "in `_meta`, once",
    ),
    (
        "",
        "no .compactedReplay[].data.update._meta.promptId",
        "ids of prompts are not recorded",
    ),
    (
        "",
        "no .compactedReplay[].data.update._meta.qwenTranscript.segmentId",
        "a record is one segment",
    ),
    ("", "no .events[].data.timestamp", "in `_meta`, once"),
    (
        "",
        "no .events[].data._meta.promptId",
        "ids of prompts are not recorded",
    ),
    (
        "",
        "no .events[].data._meta.qwenTranscript.segmentId",
        "a record is one segment",
    ),
    (
        "load-live",
        "no .compactedReplay[]",
        "another event is the first",
    ),
    (
        "rd-attach",
        "no .compactedReplay[]",
        "another event is the first",
    ),
    ("session-stats", "no .sources", "none are kept"),
    (
        "",
        ".availableCommands[].input is null",
        "our commands take none",
    ),
    ("", "no .availableCommands[]._meta", "of Qwen's own clients"),
    ("", "no .workflow", "no workflows"),
    ("", "no .savedWorkflows", "no workflows"),
    ("transcript", "no .nextCursor", "it is given whole"),
    (
        "turns-current",
        "no .originatorClientId",
        "nobody said who asks",
    ),
    ("ui-session-turn-index", "no .", "it is given whole"),
    ("ui_workspace_", "no .", "what the stock page does not need"),
    (
        "ui_workspaces_WS_git",
        "",
        "what the stock page does not need",
    ),
];

/// The folder of the captured daemon.
const THEIR_CWD: &str = "/home/user/daemon/ws";

/// Daemons with the arguments that their samples stand for, by the beginnings of the samples' names.
const DAEMONS: [(&str, &[&str]); 4] = [
    ("ra-", &["--token", "s3cret", "--require-auth"]),
    ("auth-", &["--token", "s3cret"]),
    (
        "cors-",
        &[
            "--token",
            "s3cret",
            "--allow-origin",
            "http://localhost:3000",
        ],
    ),
    ("", &["--max-sessions", "1000"]),
];

/// What is to be before a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A session that was never prompted.
    New,
    /// A session with a turn.
    Prompted,
    /// A session with a turn that was closed.
    Stored,
}

/// The beginnings of the names of samples that tell of more than a new session.
const BEFORE: [(&str, Before); 17] = [
    ("list", Before::Prompted),
    ("load-cold", Before::Stored),
    ("load-historypage", Before::Stored),
    ("load-live", Before::Prompted),
    ("metadata-none", Before::Prompted),
    ("rd-attach", Before::Prompted),
    ("rd-coldload", Before::Stored),
    ("rd-export", Before::Stored),
    ("rd-status", Before::Prompted),
    ("rd-transcript", Before::Prompted),
    ("rd3-l", Before::Stored),
    ("resume-cold", Before::Stored),
    ("status", Before::Prompted),
    ("transcript", Before::Prompted),
    ("turns-by-id", Before::Prompted),
    ("turns-current", Before::Prompted),
    ("ui-session-turn-index", Before::Prompted),
];

struct Sample {
    before: Before,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
    status: u16,
    answer: Value,
}

/// A request as `METHOD PATH -H 'name: value' … -d BODY` without quotes, then the answer as it came.
fn parsed(name: &str, text: &str) -> Option<Sample> {
    let (request, answer) = text.strip_prefix("> ")?.split_once('\n')?;
    let (head, body) = request.split_once(" -d ").unwrap_or((request, ""));
    let mut parts = head.split(" -H ");
    let (method, path) = parts
        .next()?
        .trim()
        .trim_end_matches(" --head")
        .split_once(' ')?;
    let headers = parts.map(|header| {
        let (name, value) = header.split_once(':').unwrap();
        (name.trim().to_owned(), value.trim().to_owned())
    });
    let status = answer.split_whitespace().nth(1)?.parse().ok()?;
    let their_body = answer
        .split_once("\r\n\r\n")
        .or_else(|| answer.split_once("\n\n"));
    let before = BEFORE.iter().find(|(head, _)| name.starts_with(head));
    Some(Sample {
        before: before.map_or(Before::New, |(_, before)| *before),
        method: method.to_owned(),
        path: path.to_owned(),
        headers: headers.collect(),
        body: body.to_owned(),
        status,
        answer: serde_json::from_str(their_body?.1.trim()).unwrap_or_default(),
    })
}

impl Sample {
    /// The session that must live for the request to mean the same; `None` where none must.
    fn session(&self) -> Option<&str> {
        let id = self
            .path
            .strip_prefix("/session/")?
            .split(['/', '?'])
            .next()?;
        let is_known = self.answer["code"] != "session_not_found" && Uuid::parse_str(id).is_ok();
        is_known.then_some(id)
    }

    /// The same request, of our workspace and of a session of our own.
    fn asked(&self, daemon: &Served, home: &Home) -> (u16, Value) {
        let cwd = home.workspace().to_str().unwrap().to_owned();
        let encoded = cwd.replace('/', "%2F");
        let their = THEIR_CWD.replace('/', "%2F");
        let mut path = self.path.replace(&their, &encoded);
        let mut body = self.body.replace(THEIR_CWD, &cwd);
        let mut client = None;
        let named = self.session();
        if named.is_some() || self.before == Before::Prompted {
            let own = Uuid::new_v4().to_string();
            let wish = json!({"sessionScope": "thread", "sessionId": own});
            let opened = daemon.good("POST", "/session", Some(&wish));
            client = opened["clientId"].as_str().map(str::to_owned);
            let id = named.unwrap_or("no session");
            path = path.replace(id, &own);
            body = body.replace(id, &own);
            if self.before != Before::New {
                let prompt = daemon.turn(&own, &mut daemon.events(&own, ""), "say hello");
                let prompt = prompt["data"]["promptId"].as_str().unwrap();
                if let Some((head, id)) = path.split_once("/turns/")
                    && Uuid::parse_str(id).is_ok()
                {
                    path = format!("{head}/turns/{prompt}");
                }
            }
            if self.before == Before::Stored {
                daemon.good("DELETE", &format!("/session/{own}"), None);
            }
        }
        let headers: Vec<(&str, &str)> = self
            .headers
            .iter()
            .map(|(name, value)| {
                let is_theirs = value.starts_with("client_");
                let ours = client.as_deref().filter(|_| is_theirs);
                (name.as_str(), ours.unwrap_or(value))
            })
            .collect();
        ask_raw(daemon.address(), &self.method, &path, &headers, &body)
    }
}

/// What is less in ours, or otherwise: a key that is not there, a value of another type, another code.
fn differences(theirs: &Value, ours: &Value, at: &str, found: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, value) in theirs {
                let at = format!("{at}.{key}");
                match ours.get(key) {
                    None => found.push(format!("no {at}")),
                    Some(own) if key == "code" && own != value => {
                        found.push(format!("{at} is {own}, not {value}"));
                    }
                    Some(own) => differences(value, own, &at, found),
                }
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            if let (Some(first), Some(own)) = (theirs.first(), ours.first()) {
                differences(first, own, &format!("{at}[]"), found);
            }
        }
        (theirs, ours) => {
            if std::mem::discriminant(theirs) != std::mem::discriminant(ours) {
                found.push(format!("{at} is {ours}, not {theirs}"));
            }
        }
    }
}

fn compared(sample: &Sample, daemon: &Served, home: &Home) -> Vec<String> {
    let (status, answer) = sample.asked(daemon, home);
    let mut found = Vec::new();
    if status != sample.status {
        found.push(format!("{status}, not {}", sample.status));
    }
    differences(&sample.answer, &answer, "", &mut found);
    found
}

fn samples(folder: &Path) -> BTreeMap<String, Sample> {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|kind| kind == "http"))
        .filter_map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = fs::read(&path).unwrap();
            let sample = parsed(&name, &String::from_utf8_lossy(&text))?;
            Some((name, sample))
        })
        .collect()
}

#[test]
fn what_the_real_daemon_answered_ours_answers_too() {
    let Some(folder) = need::samples() else {
        return;
    };
    let stub = StubModel::hello(1);
    let daemons = DAEMONS.map(|(head, args)| {
        let home = Home::new();
        let daemon = Served::start(ours(&home, &stub).args(args));
        (head, daemon, home)
    });
    let (mut unexplained, mut explained) = (Vec::new(), vec![false; DIFFERENT.len()]);
    for (name, sample) in samples(&folder.join("daemon")) {
        if ELSEWHERE.contains(&name.as_str()) {
            continue;
        }
        let daemon = daemons.iter().find(|(head, ..)| name.starts_with(head));
        let (_, daemon, home) = daemon.unwrap();
        for difference in compared(&sample, daemon, home) {
            let of = |(of, what, _): &(&str, &str, &str)| {
                name.starts_with(of) && difference.starts_with(what)
            };
            match DIFFERENT.iter().position(of) {
                Some(at) => explained[at] = true,
                None => unexplained.push(format!("{name}: {difference}")),
            }
        }
    }
    assert_eq!(unexplained, [""; 0]);
    let is_stale = DIFFERENT
        .iter()
        .zip(explained)
        .filter(|(_, is_met)| !is_met);
    let stale: Vec<_> = is_stale.map(|(difference, _)| difference).collect();
    assert!(stale.is_empty(), "not met any more: {stale:?}");
}
