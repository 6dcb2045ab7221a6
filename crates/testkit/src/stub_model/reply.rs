//! What the stub answers: ready bytes, and what happens between and after them.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

/// One answer. Cheap to clone: its bytes are shared.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    pub(super) framing: Framing,
    pub(super) parts: Vec<Part>,
    pub(super) end: End,
}

#[derive(Debug, Clone)]
pub(super) enum Part {
    Bytes(Arc<[u8]>),
    /// Goes out as it is where the framing would wrap it.
    Unframed(Arc<[u8]>),
    Pause(Duration),
    Gate(Gate),
}

/// How the client knows where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// The connection ends with it.
    Close,
    /// Chunked transfer coding.
    Chunked,
    /// `content-length`.
    Length,
}

/// How the answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As its framing says.
    Whole,
    /// The connection is closed where the framing promised more.
    Cut,
    /// The connection is reset.
    Reset,
}

/// Holds an answer back until it is opened.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Debug, Default)]
struct GateState {
    reached: bool,
    open: bool,
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the answer go on, now or when it comes here.
    pub fn open(&self) {
        self.change(|state| state.open = true);
    }

    /// Waits until an answer has come to the gate, for at most `wait`; says whether one did.
    #[must_use]
    pub fn wait_until_reached(&self, wait: Duration) -> bool {
        let (state, changed) = &*self.0;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(state, wait, |state| !state.reached);
        waited.unwrap_or_else(PoisonError::into_inner).0.reached
    }

    pub(super) fn pass(&self, stopped: &AtomicBool) {
        self.change(|state| state.reached = true);
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.open && !stopped.load(Ordering::SeqCst) {
            let step = Duration::from_millis(50);
            let waited = changed.wait_timeout(state, step);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn change(&self, change: impl FnOnce(&mut GateState)) {
        let (state, changed) = &*self.0;
        change(&mut state.lock().unwrap_or_else(PoisonError::into_inner));
        changed.notify_all();
    }
}

impl Reply {
    /// An empty event stream; the connection ends with it.
    #[must_use]
    pub fn stream() -> Self {
        Self::new(200, "text/event-stream", Framing::Close)
    }

    /// A body of this type.
    #[must_use]
    pub fn body(status: u16, content_type: &str, body: &str) -> Self {
        Self::new(status, content_type, Framing::Length).bytes(body)
    }

    /// A JSON body.
    #[must_use]
    pub fn json(status: u16, body: &str) -> Self {
        Self::body(status, "application/json", body)
    }

    /// A whole answer of `n` chunks of `hello world `.
    #[must_use]
    pub fn hello(n: usize) -> Self {
        let chunk = frame(&delta(json!({"content": "hello world "}), None));
        Self::whole(&chunk.repeat(n), "stop", n)
    }

    /// A whole answer of this text.
    #[must_use]
    pub fn says(text: &str) -> Self {
        Self::whole(&frame(&delta(json!({"content": text}), None)), "stop", 1)
    }

    /// A whole answer that calls a tool. Every one has an id of its own.
    #[must_use]
    pub fn call(name: &str, args: &str) -> Self {
        static N_CALLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let call = json!({
            "index": 0,
            "id": format!("call_{}", N_CALLS.fetch_add(1, Ordering::Relaxed)),
            "type": "function",
            "function": {"name": name, "arguments": args},
        });
        Self::whole(
            &frame(&delta(json!({"tool_calls": [call]}), None)),
            "tool_calls",
            1,
        )
    }

    fn whole(chunks: &str, finish: &str, n_chunks: usize) -> Self {
        let first = frame(&delta(json!({"role": "assistant", "content": ""}), None));
        let last = frame(&delta(json!({}), Some(finish)));
        let usage = frame(&usage(10, n_chunks as u64));
        let body = [&first, chunks, &last, &usage, "data: [DONE]\n\n"].concat();
        Self::new(200, "text/event-stream", Framing::Chunked).bytes(body)
    }

    fn new(status: u16, content_type: &str, framing: Framing) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            framing,
            parts: Vec::new(),
            end: End::Whole,
        }
    }

    /// With another header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With another framing.
    #[must_use]
    pub fn framed(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// With another end.
    #[must_use]
    pub fn ends(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// And then these bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.parts.push(Part::Bytes(bytes.as_ref().into()));
        self
    }

    /// And then these bytes, past the framing.
    #[must_use]
    pub fn unframed(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.parts.push(Part::Unframed(bytes.as_ref().into()));
        self
    }

    /// And then an event with this data.
    #[must_use]
    pub fn event(self, data: &Value) -> Self {
        self.bytes(frame(data))
    }

    /// And then a chunk of the answer.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.event(&delta(json!({"content": text}), None))
    }

    /// And then the chunk that says why the answer ends.
    #[must_use]
    pub fn finish(self, reason: &str) -> Self {
        self.event(&delta(json!({}), Some(reason)))
    }

    /// And then the last event of a stream.
    #[must_use]
    pub fn done(self) -> Self {
        self.bytes("data: [DONE]\n\n")
    }

    /// And then nothing for a while.
    #[must_use]
    pub fn pause(mut self, wait: Duration) -> Self {
        self.parts.push(Part::Pause(wait));
        self
    }

    /// And then nothing until the gate is opened.
    #[must_use]
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.parts.push(Part::Gate(gate.clone()));
        self
    }

    pub(super) fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {} Stub\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match self.framing {
            Framing::Close => head.push_str("connection: close\r\n"),
            Framing::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
            Framing::Length => {
                let length: usize = self.parts.iter().map(Part::len).sum();
                head.push_str(&format!("content-length: {length}\r\n"));
            }
        }
        head + "\r\n"
    }
}

impl Part {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) | Self::Unframed(bytes) => bytes.len(),
            Self::Pause(_) | Self::Gate(_) => 0,
        }
    }
}

/// A chunk with this delta.
#[must_use]
pub fn delta(delta: Value, finish: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-stub",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "fake-model",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    })
}

/// A chunk that tells the tokens.
#[must_use]
pub fn usage(prompt: u64, completion: u64) -> Value {
    json!({
        "id": "chatcmpl-stub",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "fake-model",
        "choices": [],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    })
}

/// The event that carries this data.
#[must_use]
pub fn frame(data: &Value) -> String {
    format!("data: {data}\n\n")
}
