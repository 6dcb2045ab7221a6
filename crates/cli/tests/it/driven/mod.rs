//! A program drives a session over standard input and output (`--input-format stream-json`).

mod control;
mod end;
mod input;
mod interrupt;
mod mcp;
mod permission;
mod recording;
mod renewed;
mod required;
mod turns;

use std::process::Command;

use serde_json::{Value, json};
use testkit::{driven::Driven, faults::Fault, home::Home, run::Outcome, stub_model::StubModel};

use crate::world::ONRECORD;

/// Flags of every driven run.
pub(crate) const DRIVEN: [&str; 4] = [
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
];

/// The program at the other end.
#[derive(Debug)]
pub(crate) struct Host {
    driven: Driven,
    n_requests: usize,
}

impl Host {
    /// Drives a session of the offline model.
    pub(crate) fn offline(home: &Home, args: &[&str]) -> Self {
        Self::start(
            home.command(ONRECORD)
                .args(["--model", "offline"])
                .args(args),
        )
    }

    /// As [`Host::offline`], under a fault.
    pub(crate) fn under(home: &Home, fault: &Fault, args: &[&str]) -> Self {
        let mut command = home.command_under(fault, ONRECORD);
        Self::start(command.args(["--model", "offline"]).args(args))
    }

    /// Drives a session of a stub model.
    pub(crate) fn of_stub(home: &Home, stub: &StubModel, args: &[&str]) -> Self {
        let mut command = home.command(ONRECORD);
        command.env("OPENAI_BASE_URL", stub.base_url());
        Self::start(command.args(["--model", "stub"]).args(args))
    }

    /// Drives what this command starts.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self {
            driven: Driven::start(command.args(DRIVEN)),
            n_requests: 0,
        }
    }

    /// Sends a line as it is.
    pub(crate) fn send(&mut self, message: &Value) {
        self.driven.send(message);
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.driven.send_bytes(bytes);
    }

    /// Sends a prompt.
    pub(crate) fn prompt(&mut self, text: &str) {
        self.send(&user(text));
    }

    /// Sends a prompt and reads up to the result of its turn.
    pub(crate) fn turn(&mut self, text: &str) -> Value {
        self.prompt(text);
        self.result()
    }

    /// Reads up to the next result.
    pub(crate) fn result(&mut self) -> Value {
        self.until("a result", |message| message["type"] == "result")
    }

    /// Reads up to what is waited for.
    pub(crate) fn until(&mut self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        self.driven.until(what, is)
    }

    /// Reads up to a message of this subtype.
    pub(crate) fn system(&mut self, subtype: &str) -> Value {
        self.until(subtype, |message| {
            message["type"] == "system" && message["subtype"] == subtype
        })
    }

    /// Sends a request; answers its id.
    pub(crate) fn request(&mut self, request: &Value) -> String {
        self.n_requests += 1;
        let id = format!("host-{}", self.n_requests);
        self.send(&json!({"type": "control_request", "request_id": id, "request": request}));
        id
    }

    /// Sends a request and reads up to its answer: `{subtype, request_id, …}`.
    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        let id = self.request(request);
        self.answer_to(&id)
    }

    /// Reads up to the answer to a request.
    pub(crate) fn answer_to(&mut self, id: &str) -> Value {
        self.until("an answer", |message| {
            message["type"] == "control_response" && message["response"]["request_id"] == id
        })["response"]
            .clone()
    }

    /// Begins SDK mode.
    pub(crate) fn initialize(&mut self, fields: Value) -> Value {
        let mut request = fields;
        request["subtype"] = json!("initialize");
        let answer = self.ask(&request);
        assert_eq!(answer["subtype"], "success", "{answer}");
        answer["response"].clone()
    }

    /// Reads up to the next question of this kind.
    pub(crate) fn question(&mut self, subtype: &str) -> Value {
        self.until(subtype, |message| {
            message["type"] == "control_request" && message["request"]["subtype"] == subtype
        })
    }

    /// Answers a question.
    pub(crate) fn reply(&mut self, question: &Value, response: &Value) {
        self.send(&json!({"type": "control_response", "response": {
            "subtype": "success",
            "request_id": question["request_id"],
            "response": response,
        }}));
    }

    /// Answers a question with an error.
    pub(crate) fn reply_with_error(&mut self, question: &Value, error: &str) {
        self.send(&json!({"type": "control_response", "response": {
            "subtype": "error",
            "request_id": question["request_id"],
            "error": error,
        }}));
    }

    /// All messages so far.
    pub(crate) fn seen(&self) -> &[Value] {
        self.driven.seen()
    }

    /// The process.
    pub(crate) fn process(&mut self) -> &mut Driven {
        &mut self.driven
    }

    /// Closes the input and reads to the end.
    pub(crate) fn end(self) -> Outcome {
        self.driven.end()
    }

    /// Reads to the end of a session that ends by itself.
    pub(crate) fn wait(self) -> Outcome {
        self.driven.wait()
    }
}

/// A prompt.
pub(crate) fn user(text: &str) -> Value {
    json!({
        "type": "user",
        "session_id": "",
        "message": {"role": "user", "content": text},
        "parent_tool_use_id": null,
    })
}

/// Results among messages.
pub(crate) fn results(messages: &[Value]) -> Vec<&Value> {
    of_type(messages, "result")
}

/// Messages of a type.
pub(crate) fn of_type<'a>(messages: &'a [Value], kind: &str) -> Vec<&'a Value> {
    messages.iter().filter(|m| m["type"] == kind).collect()
}

/// Results of tool calls among messages.
pub(crate) fn tool_results(messages: &[Value]) -> Vec<&Value> {
    of_type(messages, "user")
        .into_iter()
        .map(|message| &message["message"]["content"][0])
        .collect()
}

/// Messages of type `system` and this subtype.
pub(crate) fn of_subtype<'a>(messages: &'a [Value], subtype: &str) -> Vec<&'a Value> {
    messages
        .iter()
        .filter(|m| m["type"] == "system" && m["subtype"] == subtype)
        .collect()
}
