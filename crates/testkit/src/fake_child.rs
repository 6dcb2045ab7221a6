//! An agent child in memory: whoever tests a bridge, or a daemon around one, says its lines by hand.
//!
//! Frames are looked for among all that came and were not taken, so that no test depends on the order in
//! which it asks, unless it takes them one by one.

use std::{collections::VecDeque, future::Future, io, pin::Pin, sync::Arc, time::Duration};

use bridge::{Child, Ended, Handle, Launch};
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
    },
    sync::{Mutex, mpsc, watch},
};

/// Bytes that each direction of the pipe holds.
const PIPE_BYTES: usize = 64 << 10;

/// Children that are started and not yet taken.
const LAUNCHES_MAX: usize = 64;

/// How long anything is waited for.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// What starts fake children.
#[derive(Debug)]
struct Launcher {
    started: mpsc::Sender<FakeChild>,
}

/// The children that are started, in their order.
#[derive(Debug)]
pub struct Launches(mpsc::Receiver<FakeChild>);

/// A launcher, and where its children come out.
#[must_use]
pub fn launcher() -> (Arc<dyn Launch>, Launches) {
    let (started, launches) = mpsc::channel(LAUNCHES_MAX);
    (Arc::new(Launcher { started }), Launches(launches))
}

impl Launch for Launcher {
    fn launch(&self) -> io::Result<Child> {
        // Two pipes, so that each direction can end by itself.
        let (near_in, far_out) = duplex(PIPE_BYTES);
        let (near_out, far_in) = duplex(PIPE_BYTES);
        let (level, _) = watch::channel(Life::default());
        let fake = FakeChild {
            reader: Arc::new(Mutex::new(BufReader::new(split(far_in).0))),
            writer: Some(split(far_out).1),
            level: level.clone(),
            untaken: VecDeque::new(),
        };
        let unable = |_full| io::Error::from(io::ErrorKind::WouldBlock);
        self.started.try_send(fake).map_err(unable)?;
        Ok(Child {
            output: Box::new(split(near_in).0),
            input: Box::new(split(near_out).1),
            handle: Box::new(FakeHandle(level)),
        })
    }
}

/// How far a fake child is from its end.
#[derive(Debug, Clone, Default)]
struct Life {
    is_terminated: bool,
    ended: Option<Ended>,
}

#[derive(Debug)]
struct FakeHandle(watch::Sender<Life>);

impl Handle for FakeHandle {
    fn ended(&mut self) -> Pin<Box<dyn Future<Output = Ended> + Send + '_>> {
        let mut level = self.0.subscribe();
        Box::pin(async move {
            match level.wait_for(|life| life.ended.is_some()).await {
                Ok(life) => life.ended.clone().unwrap_or_default(),
                Err(_) => Ended::default(),
            }
        })
    }

    fn terminate(&mut self) {
        self.0.send_modify(|life| life.is_terminated = true);
    }

    fn kill(&mut self) {
        self.0.send_modify(|life| {
            life.ended.get_or_insert(killed());
        });
    }
}

impl Drop for FakeHandle {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The end by SIGKILL.
fn killed() -> Ended {
    Ended {
        exit_code: None,
        signal: Some("SIGKILL".to_owned()),
    }
}

/// The child's side. Dropping it ends its output; it lives on until it is told to end.
#[derive(Debug)]
pub struct FakeChild {
    reader: Arc<Mutex<BufReader<ReadHalf<DuplexStream>>>>,
    writer: Option<WriteHalf<DuplexStream>>,
    level: watch::Sender<Life>,
    untaken: VecDeque<Value>,
}

impl Launches {
    /// The next child, before it shook hands.
    ///
    /// # Panics
    /// Where none is started in time.
    pub async fn next(&mut self) -> FakeChild {
        match tokio::time::timeout(WAIT_MAX, self.0.recv()).await {
            Ok(Some(child)) => child,
            Ok(None) | Err(_) => panic!("no child was started"),
        }
    }

    /// The next child, which takes part in nothing.
    ///
    /// # Panics
    /// As [`Launches::next`].
    pub async fn plain(&mut self) -> FakeChild {
        let mut child = self.next().await;
        child.initialize(&json!({})).await;
        child
    }

    /// Whether a child was started that is not taken.
    #[must_use]
    pub fn is_started(&mut self) -> bool {
        !self.0.is_empty()
    }
}

impl FakeChild {
    /// Answers `initialize`, with this `_meta`.
    ///
    /// # Panics
    /// Where it is not asked.
    pub async fn initialize(&mut self, meta: &Value) {
        let request = self.heard("initialize").await;
        let result = json!({"protocolVersion": 1, "agentCapabilities": {}, "_meta": meta});
        self.answer(&request, &result).await;
    }

    /// The next frame that was not taken; `None` at the end of input.
    ///
    /// # Panics
    /// Where nothing comes in time, or what comes is no JSON.
    pub async fn next(&mut self) -> Option<Value> {
        if let Some(frame) = self.untaken.pop_front() {
            return Some(frame);
        }
        self.read().await
    }

    async fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        let mut reader = self.reader.lock().await;
        match tokio::time::timeout(WAIT_MAX, reader.read_line(&mut line)).await {
            Ok(Ok(n)) if n > 0 => match serde_json::from_str(&line) {
                Ok(frame) => Some(frame),
                Err(error) => panic!("no JSON ({error}): {line}"),
            },
            Ok(_) => None,
            Err(_) => panic!("nothing came; not taken: {:#?}", self.untaken),
        }
    }

    /// The first frame of this method that was not taken.
    ///
    /// # Panics
    /// Where it does not come in time.
    pub async fn heard(&mut self, method: &str) -> Value {
        self.first(method, |frame| frame["method"] == method).await
    }

    /// The answer to a request of this id.
    ///
    /// # Panics
    /// Where it does not come in time.
    pub async fn answer_to(&mut self, id: &Value) -> Value {
        let is = |frame: &Value| frame.get("method").is_none() && frame["id"] == *id;
        self.first("an answer", is).await
    }

    async fn first(&mut self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.untaken.iter().position(&is)
            && let Some(frame) = self.untaken.remove(at)
        {
            return frame;
        }
        loop {
            match self.read().await {
                Some(frame) if is(&frame) => return frame,
                Some(frame) => self.untaken.push_back(frame),
                None => panic!(
                    "the input ended before {what}; not taken: {:#?}",
                    self.untaken
                ),
            }
        }
    }

    /// Frames that came and were not taken, as far as they were looked through.
    #[must_use]
    pub fn untaken(&self) -> Vec<Value> {
        self.untaken.iter().cloned().collect()
    }

    /// Says a line, whatever it is.
    ///
    /// # Panics
    /// Where its output is ended.
    pub async fn say(&mut self, line: &str) {
        let writer = self.writer.as_mut().expect("its output is not ended");
        // Dropped: a test that kills it goes on talking.
        _ = writer.write_all(format!("{line}\n").as_bytes()).await;
    }

    /// Answers a request.
    ///
    /// # Panics
    /// As [`FakeChild::say`].
    pub async fn answer(&mut self, request: &Value, result: &Value) {
        let frame = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        self.say(&frame.to_string()).await;
    }

    /// Refuses a request.
    ///
    /// # Panics
    /// As [`FakeChild::say`].
    pub async fn refuse(&mut self, request: &Value, error: &Value) {
        let frame = json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
        self.say(&frame.to_string()).await;
    }

    /// Refuses a request as unknown.
    ///
    /// # Panics
    /// As [`FakeChild::say`].
    pub async fn refuse_unknown(&mut self, request: &Value) {
        let error = json!({"code": -32601, "message": "Method not found"});
        self.refuse(request, &error).await;
    }

    /// Sends a notification.
    ///
    /// # Panics
    /// As [`FakeChild::say`].
    pub async fn notify(&mut self, method: &str, params: &Value) {
        let frame = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.say(&frame.to_string()).await;
    }

    /// Sends a request.
    ///
    /// # Panics
    /// As [`FakeChild::say`].
    pub async fn ask(&mut self, id: &Value, method: &str, params: &Value) {
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.say(&frame.to_string()).await;
    }

    /// Sends an update of a session.
    ///
    /// # Panics
    /// As [`FakeChild::say`].
    pub async fn update(&mut self, session_id: &str, update: &Value) {
        let params = json!({"sessionId": session_id, "update": update});
        self.notify("session/update", &params).await;
    }

    /// Sends a piece of an answer.
    ///
    /// # Panics
    /// As [`FakeChild::say`].
    pub async fn chunk(&mut self, session_id: &str, text: &str) {
        let update = json!({
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": text},
        });
        self.update(session_id, &update).await;
    }

    /// Says that the record of a session failed (R15).
    ///
    /// # Panics
    /// As [`FakeChild::say`].
    pub async fn degraded(&mut self, session_id: &str) {
        let params = json!({"v": 1, "sessionId": session_id, "reason": "write_failed"});
        self.notify("qwen/notify/session/recording-degraded", &params)
            .await;
    }

    /// Waits until it is asked to end.
    ///
    /// # Panics
    /// Where it is not, in time.
    pub async fn terminated(&mut self) {
        self.level(|life| life.is_terminated).await;
    }

    /// Waits until it is killed, or has ended.
    ///
    /// # Panics
    /// Where it is not, in time.
    pub async fn killed(&mut self) -> Ended {
        self.level(|life| life.ended.is_some()).await;
        self.level.borrow().ended.clone().unwrap_or_default()
    }

    async fn level(&self, is: impl FnMut(&Life) -> bool) {
        let mut level = self.level.subscribe();
        let reached = tokio::time::timeout(WAIT_MAX, level.wait_for(is)).await;
        assert!(matches!(reached, Ok(Ok(_))), "the child was left alone");
    }

    /// Ends its output alone.
    pub fn end_output(&mut self) {
        self.writer = None;
    }

    /// Ends with this exit code.
    pub fn exit(self, code: i32) {
        let ended = Ended {
            exit_code: Some(code),
            signal: None,
        };
        self.end(ended);
    }

    /// Ends by SIGKILL, as one that ran out of memory does.
    pub fn die(self) {
        self.end(killed());
    }

    fn end(self, ended: Ended) {
        self.level.send_modify(|life| {
            life.ended.get_or_insert(ended);
        });
    }

    /// Plays a healthy agent until its end: sessions are made, a prompt is answered by two pieces of text,
    /// everything closes, and a stored session is never found.
    ///
    /// # Panics
    /// Where what it hears is no frame.
    pub async fn serve(mut self) {
        let mut level = self.level.subscribe();
        let mut n_sessions = 0u32;
        loop {
            let is_over = |life: &Life| life.is_terminated || life.ended.is_some();
            // What is waited for holds a lock, which is let go here.
            let over = async { level.wait_for(is_over).await.is_ok() };
            let frame = tokio::select! {
                frame = self.next() => frame,
                _is_told = over => return self.exit(0),
            };
            let Some(frame) = frame else {
                return self.exit(0);
            };
            if frame.get("id").is_none() {
                continue;
            }
            let params = &frame["params"];
            let id = params["sessionId"].as_str().unwrap_or_default().to_owned();
            match frame["method"].as_str().unwrap_or_default() {
                "initialize" => self.answer(&frame, &json!({"protocolVersion": 1})).await,
                "session/new" => {
                    n_sessions += 1;
                    let made = format!("00000000-0000-4000-8000-{n_sessions:012}");
                    let wished = params["_meta"]["qwen-code/sessionId"].as_str();
                    let id = wished.map_or(made, str::to_owned);
                    let result = json!({
                        "sessionId": id,
                        "modes": {"currentModeId": "default", "availableModes": []},
                        "models": {"currentModelId": "fake", "availableModels": []},
                    });
                    self.answer(&frame, &result).await;
                }
                "session/prompt" => {
                    self.chunk(&id, "hello ").await;
                    self.chunk(&id, "world").await;
                    self.answer(&frame, &json!({"stopReason": "end_turn"}))
                        .await;
                }
                "session/load" | "session/resume" => {
                    let uri = format!("session:{id}");
                    let error = json!({
                        "code": -32002,
                        "message": format!("Resource not found: {uri}"),
                        "data": {"uri": uri},
                    });
                    self.refuse(&frame, &error).await;
                }
                "craft/cancelPendingPrompt" => {
                    self.answer(&frame, &json!({"cancelled": false})).await;
                }
                "qwen/control/session/approval_mode" => {
                    let result = json!({"previous": "default", "current": params["mode"]});
                    self.answer(&frame, &result).await;
                }
                "qwen/control/session/close" => {
                    let result = json!({"sessionId": id, "closed": true});
                    self.answer(&frame, &result).await;
                }
                "session/set_model" => self.answer(&frame, &json!({})).await,
                _ => self.refuse_unknown(&frame).await,
            }
        }
    }
}
