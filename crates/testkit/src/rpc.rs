//! The other side of a program that speaks JSON-RPC on its standard input and output, one frame a line.
//!
//! Frames are kept in the order of the wire. Whatever is waited for is looked for among all of them
//! first, so that no test depends on the order in which it asks; where an order matters, it compares
//! places in [`Rpc::seen`].

use std::{process::Command, time::Duration};

use serde_json::{Value, json};

use crate::{driven::Driven, run::Outcome};

/// A running program and what it said.
#[derive(Debug)]
pub struct Rpc {
    driven: Driven,
    n_requests: u64,
}

impl Rpc {
    /// Starts the program.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        Self {
            driven: Driven::start(command),
            n_requests: 0,
        }
    }

    /// All frames so far.
    #[must_use]
    pub fn seen(&self) -> &[Value] {
        self.driven.seen()
    }

    /// The process, for what is no frame.
    pub fn process(&mut self) -> &mut Driven {
        &mut self.driven
    }

    /// Sends a request; answers its id.
    ///
    /// # Panics
    /// Where the program does not read any more.
    pub fn request(&mut self, method: &str, params: &Value) -> u64 {
        let (id, frame) = self.next_request(method, params);
        self.driven.send(&frame);
        id
    }

    /// Sends requests in one write, so that the program finds the later ones as early as it can.
    ///
    /// # Panics
    /// As [`Rpc::request`].
    pub fn request_all(&mut self, requests: &[(&str, Value)]) -> Vec<u64> {
        let mut bytes = Vec::new();
        let mut ids = Vec::new();
        for (method, params) in requests {
            let (id, frame) = self.next_request(method, params);
            bytes.extend_from_slice(format!("{frame}\n").as_bytes());
            ids.push(id);
        }
        self.driven.send_bytes(&bytes);
        ids
    }

    fn next_request(&mut self, method: &str, params: &Value) -> (u64, Value) {
        self.n_requests += 1;
        let id = self.n_requests;
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        (id, frame)
    }

    /// Sends a notification.
    ///
    /// # Panics
    /// As [`Rpc::request`].
    pub fn notify(&mut self, method: &str, params: &Value) {
        let frame = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.driven.send(&frame);
    }

    /// Answers a request of the program.
    ///
    /// # Panics
    /// As [`Rpc::request`].
    pub fn reply(&mut self, request: &Value, result: &Value) {
        let frame = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        self.driven.send(&frame);
    }

    /// Refuses a request of the program.
    ///
    /// # Panics
    /// As [`Rpc::request`].
    pub fn refuse(&mut self, request: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        let frame = json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
        self.driven.send(&frame);
    }

    /// The answer to a request: a whole frame.
    ///
    /// # Panics
    /// Where it does not come in time.
    pub fn answer(&mut self, id: u64) -> Value {
        let at = self.place(0, &format!("the answer to {id}"), |frame| {
            answers(frame, id)
        });
        self.seen()[at].clone()
    }

    /// A request and its answer.
    ///
    /// # Panics
    /// As [`Rpc::answer`].
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    /// A request and its result.
    ///
    /// # Panics
    /// As [`Rpc::answer`], and where it is refused.
    pub fn result(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.call(method, params);
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// A request and its error.
    ///
    /// # Panics
    /// As [`Rpc::answer`], and where it is not refused.
    pub fn error(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.call(method, params);
        assert!(answer.get("error").is_some(), "{method}: {answer}");
        answer["error"].clone()
    }

    /// The place of the first frame from `from` on that `is` what is waited for.
    ///
    /// # Panics
    /// Where it does not come in time.
    pub fn place(&mut self, from: usize, what: &str, is: impl Fn(&Value) -> bool) -> usize {
        let found = self.seen().iter().skip(from).position(&is);
        if let Some(found) = found {
            return from + found;
        }
        self.driven.until(what, is);
        self.seen().len() - 1
    }

    /// The place of an answer.
    ///
    /// # Panics
    /// As [`Rpc::place`].
    pub fn place_of_answer(&mut self, id: u64) -> usize {
        self.place(0, &format!("the answer to {id}"), |frame| {
            answers(frame, id)
        })
    }

    /// The first frame of this method from a place on; requests and notifications alike.
    ///
    /// # Panics
    /// As [`Rpc::place`].
    pub fn said(&mut self, from: usize, method: &str) -> Value {
        let at = self.place(from, method, |frame| frame["method"] == method);
        self.seen()[at].clone()
    }

    /// The frames of a method so far.
    #[must_use]
    pub fn all_of(&self, method: &str) -> Vec<Value> {
        let frames = self.seen().iter();
        frames.filter(|f| f["method"] == method).cloned().collect()
    }

    /// Whether the program says anything within this time.
    #[must_use]
    pub fn says_something_in(&mut self, wait: Duration) -> bool {
        self.driven.says_something_in(wait)
    }

    /// Ends its input, reads the rest and waits for its end.
    ///
    /// # Panics
    /// Where it does not end in time, or said anything that is no frame.
    #[must_use]
    pub fn end(mut self) -> (Vec<Value>, Outcome) {
        self.driven.close_input();
        self.wait()
    }

    /// Reads the rest and waits for its end, with its input still open.
    ///
    /// # Panics
    /// As [`Rpc::end`].
    #[must_use]
    pub fn wait(self) -> (Vec<Value>, Outcome) {
        let outcome = self.driven.wait();
        let frames: Vec<Value> = outcome
            .stdout_lines()
            .into_iter()
            .map(|line| match serde_json::from_str(line) {
                Ok(frame) => frame,
                Err(error) => panic!("no JSON ({error}): {line}"),
            })
            .collect();
        for frame in &frames {
            assert_is_frame(frame);
        }
        (frames, outcome)
    }
}

fn answers(frame: &Value, id: u64) -> bool {
    frame["id"] == id && frame.get("method").is_none()
}

/// What a strict reader of the other side checks of every frame.
fn assert_is_frame(frame: &Value) {
    assert_eq!(frame["jsonrpc"], "2.0", "{frame}");
    if frame.get("method").is_some() {
        assert!(frame["method"].is_string(), "{frame}");
    } else {
        assert!(frame.get("id").is_some(), "{frame}");
        let has = |key| frame.get(key).is_some();
        assert!(has("result") != has("error"), "{frame}");
    }
}
