//! The binary over its pipes, with a client that is nothing but a program of these tests.

mod cancel;
mod close;
mod files;
mod images;
mod permission;
mod plan;
mod prompt;
mod record;
mod sessions;
mod settings;
mod start;

use std::{path::Path, process::Command};

use serde_json::{Value, json};
use testkit::{
    faults::Fault,
    home::Home,
    rpc::Rpc,
    run::Outcome,
    stub_model::{Gate, Reply, StubModel},
};

use crate::world::ONRECORD;

/// A client, and the agent that it started.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) rpc: Rpc,
    cwd: String,
}

impl Client {
    /// The agent with the offline model, not yet initialized.
    pub(crate) fn offline(home: &Home, args: &[&str]) -> Self {
        Self::under(home, &Fault::none(), args)
    }

    /// As [`Client::offline`], under a fault.
    pub(crate) fn under(home: &Home, fault: &Fault, args: &[&str]) -> Self {
        let mut command = home.command_under(fault, ONRECORD);
        command.args(["acp", "--model", "offline"]).args(args);
        Self::start(home, &mut command)
    }

    /// The agent with a stub model.
    pub(crate) fn of_stub(home: &Home, stub: &StubModel, args: &[&str]) -> Self {
        let mut command = stub_command(home, stub);
        Self::start(home, command.args(args))
    }

    /// What this command starts.
    pub(crate) fn start(home: &Home, command: &mut Command) -> Self {
        Self {
            rpc: Rpc::start(command),
            cwd: text(&home.workspace()),
        }
    }

    /// Says hello as a plain editor does that offers nothing.
    pub(crate) fn initialized(self) -> Self {
        self.initialized_with(&json!({}))
    }

    /// Says hello with these capabilities.
    pub(crate) fn initialized_with(mut self, capabilities: &Value) -> Self {
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        self.rpc.result("initialize", &params);
        self
    }

    /// A session in the workspace.
    pub(crate) fn session(&mut self) -> String {
        let params = json!({"cwd": self.cwd, "mcpServers": []});
        let answer = self.rpc.result("session/new", &params);
        answer["sessionId"].as_str().unwrap().to_owned()
    }

    /// Takes a stored session up.
    pub(crate) fn load(&mut self, session: &str) -> Value {
        let params = json!({"sessionId": session, "cwd": self.cwd, "mcpServers": []});
        self.rpc.result("session/load", &params)
    }

    /// Sends a prompt; answers the request's id.
    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> u64 {
        self.rpc.request("session/prompt", &prompt(session, text))
    }

    /// A whole turn: the prompt's result.
    pub(crate) fn turn(&mut self, session: &str, text: &str) -> Value {
        self.rpc.result("session/prompt", &prompt(session, text))
    }

    /// Closes a session; the whole answer.
    pub(crate) fn close(&mut self, session: &str, strict: bool) -> Value {
        let mut params = json!({"sessionId": session});
        if strict {
            params["requireFlush"] = json!(true);
        }
        self.rpc.call(CLOSE, &params)
    }

    /// The session's frames that say that its recording failed.
    pub(crate) fn degraded(&self) -> Vec<Value> {
        self.rpc.all_of(DEGRADED)
    }

    /// The words of `_onrecord/recording_state` so far.
    pub(crate) fn states(&self) -> Vec<Value> {
        let told = self.rpc.all_of(STATE).into_iter();
        told.map(|frame| frame["params"]["state"].clone()).collect()
    }

    /// Ends the input; all frames, and how the process ended. Nothing may leak.
    pub(crate) fn end(self, home: &Home) -> Vec<Value> {
        let (frames, outcome) = self.rpc.end();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert_nothing_leaks(&frames, &outcome, home);
        frames
    }
}

pub(crate) const CLOSE: &str = "qwen/control/session/close";
pub(crate) const DEGRADED: &str = "qwen/notify/session/recording-degraded";
pub(crate) const STATE: &str = "_onrecord/recording_state";

/// The agent with a stub model, for what [`Client::of_stub`] does not set.
pub(crate) fn stub_command(home: &Home, stub: &StubModel) -> Command {
    let mut command = home.command(ONRECORD);
    command
        .args(["acp", "--model", "stub"])
        .env("OPENAI_BASE_URL", stub.base_url());
    command
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

pub(crate) fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

/// The report of the record that an answer carries.
pub(crate) fn recording(result: &Value) -> &Value {
    &result["_meta"]["onrecord/recording"]
}

/// A model that says `begun`, and is done once the gate opens. After that it says `hello world `.
pub(crate) fn held(gate: &Gate) -> StubModel {
    let first = Reply::stream()
        .text("begun")
        .gate(gate)
        .finish("stop")
        .done();
    StubModel::replies(vec![first, Reply::hello(1)])
}

/// Whether a frame is a piece of the answer with this text.
pub(crate) fn is_chunk(frame: &Value, text: &str) -> bool {
    let update = &frame["params"]["update"];
    update["sessionUpdate"] == "agent_message_chunk" && update["content"]["text"] == text
}

/// The updates of a session of this kind.
pub(crate) fn updates<'a>(frames: &'a [Value], session: &str, kind: &str) -> Vec<&'a Value> {
    frames
        .iter()
        .filter(|frame| frame["params"]["sessionId"] == session)
        .map(|frame| &frame["params"]["update"])
        .filter(|update| update["sessionUpdate"] == kind)
        .collect()
}

/// R28: neither frames nor standard error name a path, a system error or the data root; but for what
/// the formats carry by design: folders of sessions, and what tools were told and say.
fn assert_nothing_leaks(frames: &[Value], outcome: &Outcome, home: &Home) {
    let frames: Vec<Value> = frames.iter().cloned().map(without_designed).collect();
    let said = format!("{}\n{}", Value::from(frames), outcome.stderr);
    for canary in [
        home.path().to_str().unwrap(),
        "onrecord-home-",
        "onrecord-disk-",
        ".jsonl",
        "/tmp",
        "os error",
        "ENOSPC",
        "ENOENT",
        "EPERM",
        "errno",
        "No space",
        "No such file",
        "not permitted",
    ] {
        assert!(!said.contains(canary), "{canary}: {said}");
    }
}

/// A value without the fields that hold paths by design.
fn without_designed(value: Value) -> Value {
    const DESIGNED: [&str; 11] = [
        "cwd",
        "workspaceCwd",
        "invocationCwd",
        "arguments",
        "rawInput",
        "rawOutput",
        "locations",
        "content",
        "title",
        "preview",
        "path",
    ];
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(key, _)| !DESIGNED.contains(&key.as_str()))
            .map(|(key, value)| (key, without_designed(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_designed).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}
