//! A bridge with a child in memory, and a reader of its streams.

use std::time::Duration;

use bridge::{Bridge, Caller, Options, PermissionPolicy, Subscribe};
use bus::Subscription;
use serde_json::{Value, json, value::RawValue};
use testkit::fake_child::{FakeChild, Launches, launcher};
use wire::{
    event::Frame,
    http::{NewSession, Opened, Prompt, Scope},
    sse,
};

pub(crate) const NOW_MS: u64 = 1_796_078_400_123;

pub(crate) fn options() -> Options {
    Options {
        workspace: "/ws".into(),
        permission_policy: PermissionPolicy::default(),
        permission_wait: None,
        prompts_max: 5,
        sessions_max: None,
        prompt_deadline: None,
        initialize_wait: Duration::from_secs(10),
        restore_wait: Duration::from_secs(60),
        idle_max: None,
        bus: bus::Limits {
            ring_events: 8_000,
            ring_bytes: 64 << 20,
            replay_bytes: 8 << 20,
            subscribers: 64,
            queue_bytes: 2 << 20,
        },
        now_ms: || NOW_MS,
    }
}

/// A bridge and its child.
pub(crate) struct Rig {
    pub(crate) bridge: Bridge,
    pub(crate) launches: Launches,
    pub(crate) child: FakeChild,
}

/// A bridge that has started its child.
pub(crate) async fn rig(options: Options) -> Rig {
    let (bridge, mut launches) = bridge(options);
    let starting = bridge.clone();
    let preheat = tokio::spawn(async move { starting.preheat().await });
    let child = launches.plain().await;
    preheat.await.unwrap();
    Rig {
        bridge,
        launches,
        child,
    }
}

/// A bridge without a child.
pub(crate) fn bridge(options: Options) -> (Bridge, Launches) {
    let (launch, launches) = launcher();
    (Bridge::new(options, launch), launches)
}

pub(crate) fn nobody() -> Caller {
    Caller {
        client_id: None,
        is_local: true,
    }
}

pub(crate) fn client(id: &str) -> Caller {
    Caller {
        client_id: Some(id.to_owned()),
        is_local: true,
    }
}

pub(crate) fn thread() -> NewSession {
    NewSession {
        scope: Scope::Thread,
        ..NewSession::default()
    }
}

pub(crate) fn said(text: &str) -> Prompt {
    Prompt {
        content: raw(&json!([{"type": "text", "text": text}])),
        meta: None,
        deadline_ms: None,
    }
}

pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

impl Rig {
    /// A session of its own with this id.
    pub(crate) async fn session(&mut self, id: &str) -> Opened {
        let (bridge, creating) = (self.bridge.clone(), thread());
        let creating = tokio::spawn(async move { bridge.create(&nobody(), creating).await });
        let request = self.child.heard("session/new").await;
        self.child.answer(&request, &json!({"sessionId": id})).await;
        creating.await.unwrap().unwrap()
    }

    /// All events of a session from the first one on, and what follows.
    pub(crate) fn stream(&self, id: &str) -> Stream {
        self.stream_from(id, Some(0), false)
    }

    pub(crate) fn stream_from(&self, id: &str, after: Option<u64>, snapshot: bool) -> Stream {
        stream_of(&self.bridge, id, after, snapshot)
    }

    /// Closes a session, the child agreeing.
    pub(crate) async fn close(&mut self, id: &str) {
        let (bridge, closed) = (self.bridge.clone(), id.to_owned());
        let closing = tokio::spawn(async move { bridge.close(&nobody(), &closed).await });
        let request = self.child.heard("qwen/control/session/close").await;
        self.child
            .answer(&request, &json!({"sessionId": id, "closed": true}))
            .await;
        closing.await.unwrap().unwrap();
    }
}

pub(crate) fn stream_of(bridge: &Bridge, id: &str, after: Option<u64>, snapshot: bool) -> Stream {
    let subscribe = Subscribe {
        after,
        epoch: None,
        queue_frames: 2_048,
        with_snapshot: snapshot,
    };
    let (_, subscription) = bridge.subscribe(id, subscribe).unwrap();
    Stream::new(subscription)
}

/// A stream that is read to where it is.
pub(crate) struct Stream {
    subscription: Subscription,
    decoder: sse::Decoder,
    frames: std::collections::VecDeque<Frame>,
}

impl Stream {
    fn take(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
        while let Some(event) = self.decoder.next_event().unwrap() {
            self.frames
                .push_back(serde_json::from_slice(event.data).unwrap());
        }
    }

    fn new(subscription: Subscription) -> Self {
        Self {
            subscription,
            decoder: sse::Decoder::default(),
            frames: std::collections::VecDeque::new(),
        }
    }

    /// The next frame; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            let wait = Duration::from_secs(60);
            let bytes = tokio::time::timeout(wait, self.subscription.next());
            let bytes = bytes.await.unwrap()?;
            self.take(&bytes);
        }
    }

    /// Frames up to the first of this type, it included.
    pub(crate) async fn until(&mut self, kind: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            let frame = self.next().await;
            let frame = frame.unwrap_or_else(|| panic!("no {kind} in {frames:#?}"));
            let is_it = frame.kind == kind;
            frames.push(frame);
            if is_it {
                return frames;
            }
        }
    }

    /// Frames to the end.
    pub(crate) async fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }
}

/// Frames in short: types, and kinds of updates.
pub(crate) fn kinds(frames: &[Frame]) -> Vec<String> {
    frames
        .iter()
        .map(
            |frame| match data(frame)["update"]["sessionUpdate"].as_str() {
                Some(update) => update.to_owned(),
                None => frame.kind.clone(),
            },
        )
        .collect()
}

pub(crate) fn data(frame: &Frame) -> Value {
    serde_json::from_str(frame.data.get()).unwrap()
}

/// Lets all other tasks run until they wait for this one.
pub(crate) async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}
