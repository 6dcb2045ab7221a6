//! A daemon in memory, over a bridge with a played child and a data root of its own.

use std::{cell::Cell, fs, net::SocketAddr, path::PathBuf, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::ConnectInfo,
    http::{HeaderMap, Request, StatusCode, header::CONTENT_TYPE},
};
use bridge::Bridge;
use bytes::Bytes;
use daemon::Daemon;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{
    fake_child::{FakeChild, Launches, launcher},
    transcripts::{self, CWD, conversation, with},
};
use tower::ServiceExt;
use transcript::layout::{DataRoot, ProjectDir};

/// What every daemon here has.
pub(crate) const NOW_MS: u64 = 1_796_078_400_123;

/// A session that nobody has.
pub(crate) const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

thread_local! {
    static CLOCK_MS: Cell<u64> = const { Cell::new(NOW_MS) };
}

/// The clock of the test that runs on this thread.
pub(crate) fn now_ms() -> u64 {
    CLOCK_MS.get()
}

pub(crate) fn advance_clock(by: Duration) {
    CLOCK_MS.set(CLOCK_MS.get() + u64::try_from(by.as_millis()).unwrap());
}

/// How a daemon and its bridge are run.
pub(crate) struct Setup {
    pub(crate) daemon: daemon::Options,
    pub(crate) bridge: bridge::Options,
    folder: TempDir,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = DataRoot::new(folder.path().join("data"));
        let project = root.project(CWD.as_ref());
        fs::create_dir_all(project.archive_dir()).unwrap();
        let daemon = daemon::Options {
            workspace: CWD.into(),
            data_root: Some(root),
            project: Some(project),
            token: None,
            require_auth: false,
            allow_origins: Vec::new(),
            rate_limit: false,
            web_dir: None,
            metrics: true,
            writer_idle_max: None,
            permission_policy: "first-responder",
            prompts_max: 5,
            sessions_max: None,
            restore_wait: Duration::from_secs(60),
            version: "0.0.0",
            now_ms,
        };
        let bridge = bridge::Options {
            workspace: CWD.into(),
            permission_policy: bridge::PermissionPolicy::default(),
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
            now_ms,
        };
        Self {
            daemon,
            bridge,
            folder,
        }
    }

    pub(crate) fn with(change: impl FnOnce(&mut daemon::Options)) -> Self {
        let mut setup = Self::new();
        change(&mut setup.daemon);
        setup
    }

    /// A daemon whose child a test plays by hand.
    pub(crate) fn played(self) -> (Rig, Launches) {
        let (launch, launches) = launcher();
        let bridge = Bridge::new(self.bridge, launch);
        let rig = Rig {
            daemon: Daemon::new(self.daemon.clone(), bridge.clone()),
            bridge,
            project: self.daemon.project.unwrap(),
            _folder: self.folder,
        };
        (rig, launches)
    }

    /// A daemon with a child that runs, played by hand.
    pub(crate) async fn started(self) -> (Rig, FakeChild) {
        let (rig, mut launches) = self.played();
        let starting = rig.bridge.clone();
        let preheat = tokio::spawn(async move { starting.preheat().await });
        let child = launches.plain().await;
        preheat.await.unwrap();
        (rig, child)
    }

    /// A daemon whose child does well by itself.
    pub(crate) fn healthy(self) -> Rig {
        let (rig, mut launches) = self.played();
        tokio::spawn(async move {
            loop {
                let child = launches.next().await;
                tokio::spawn(child.serve());
            }
        });
        rig
    }
}

pub(crate) struct Rig {
    pub(crate) daemon: Daemon,
    pub(crate) bridge: Bridge,
    pub(crate) project: ProjectDir,
    /// Gone with the test.
    _folder: TempDir,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// A body that is JSON, and says so.
    pub(crate) fn json(&self) -> Value {
        let kind = self.header("content-type");
        assert!(kind.starts_with("application/json"), "{self:?}");
        serde_json::from_slice(&self.body).unwrap()
    }

    /// A header; empty where it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    /// The error it is, with these fields besides its text. No error names a place (R28).
    #[track_caller]
    pub(crate) fn is_error(&self, status: u16, fields: &Value) -> &Self {
        let mut body = self.json();
        let text = body.as_object_mut().unwrap().remove("error");
        assert!(text.is_some_and(|text| text.is_string()), "{self:?}");
        assert_eq!((self.status, &body), (status, fields));
        self
    }

    #[track_caller]
    pub(crate) fn is_good(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }
}

pub(crate) fn get(path: &str) -> Request<Body> {
    ask("GET", path, &[])
}

pub(crate) fn post(path: &str, body: &Value) -> Request<Body> {
    with_json("POST", path, body)
}

pub(crate) fn with_json(method: &str, path: &str, body: &Value) -> Request<Body> {
    raw(method, path, "application/json", body.to_string())
}

pub(crate) fn raw(method: &str, path: &str, kind: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    request
        .header(CONTENT_TYPE, kind)
        .body(body.into())
        .unwrap()
}

pub(crate) fn ask(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).unwrap()
}

/// The same request, from this address.
pub(crate) fn from(address: &str, mut request: Request<Body>) -> Request<Body> {
    let address: SocketAddr = format!("{address}:50000").parse().unwrap();
    request.extensions_mut().insert(ConnectInfo(address));
    request
}

/// The same request, with this header.
pub(crate) fn also(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().append(name, value.parse().unwrap());
    request
}

/// What a router answers, to its end.
pub(crate) async fn answer(router: Router, request: Request<Body>) -> Answer {
    let response = router.oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: body.collect().await.unwrap().to_bytes(),
    }
}

impl Rig {
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        answer(self.daemon.router(), request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(get(path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(post(path, body)).await
    }

    /// A request that goes on while the test plays the child.
    pub(crate) fn spawn(&self, request: Request<Body>) -> tokio::task::JoinHandle<Answer> {
        tokio::spawn(answer(self.daemon.router(), request))
    }

    /// The id of a session of its own, of a child that does well by itself.
    pub(crate) async fn session(&self) -> String {
        let opened = self
            .post("/session", &json!({"sessionScope": "thread"}))
            .await;
        opened.is_good()["sessionId"].as_str().unwrap().to_owned()
    }

    /// The same, of a child that is played.
    pub(crate) async fn played_session(&self, child: &mut FakeChild, id: &str) {
        let creating = self.spawn(post("/session", &json!({"sessionScope": "thread"})));
        let request = child.heard("session/new").await;
        child.answer(&request, &json!({"sessionId": id})).await;
        creating.await.unwrap().is_good();
    }

    pub(crate) async fn prompt(&self, id: &str, text: &str) -> Answer {
        let body = json!({"prompt": [{"type": "text", "text": text}]});
        self.post(&format!("/session/{id}/prompt"), &body).await
    }

    /// The head of a stream, and its body.
    pub(crate) async fn events(
        &self,
        id: &str,
        query: &str,
        headers: &[(&str, &str)],
    ) -> (StatusCode, HeaderMap, Body) {
        let request = ask("GET", &format!("/session/{id}/events{query}"), headers);
        let response = self.daemon.router().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        (parts.status, parts.headers, body)
    }

    /// Writes a stored session of one turn, with this id.
    pub(crate) fn store(&self, id: &str, text: &str) -> PathBuf {
        let records = conversation(2).into_iter().map(|record| {
            let record = with(record, "sessionId", json!(id));
            let is_user = record["type"] == "user";
            if is_user {
                let message = json!({"role": "user", "parts": [{"text": text}]});
                with(record, "message", message)
            } else {
                record
            }
        });
        let records: Vec<Value> = records.collect();
        let path = self.project.transcript(id);
        fs::write(&path, transcripts::file(&records)).unwrap();
        path
    }
}
