//! Requests to a daemon, with typed errors.

use std::time::Duration;

use reqwest::{Method, StatusCode, header};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use wire::{
    http::{Accepted, Opened, TitleSet},
    limits::{SDK_ANSWER_BYTES_MAX, SDK_ANSWER_WAIT_MAX, SDK_CONNECT_WAIT_MAX},
};

use crate::{
    follow::{Follow, Options},
    tls,
};

/// Why the daemon did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It answered, and says why.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// It did not answer.
    #[error("the daemon cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    /// It did not answer in time.
    #[error("the daemon does not answer")]
    Late,
    /// What it answered is not of the protocol.
    #[error("the daemon's answer is not understood")]
    Protocol,
    /// The address is none.
    #[error("the address of the daemon is no http URL")]
    Url,
    /// The certificates of this machine cannot be used.
    #[error("the certificates of this machine cannot be used")]
    Certificates,
}

/// An answer that says why there is none.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// For programs; absent where there is none.
    pub code: Option<String>,
    /// For people.
    pub message: String,
    /// The whole body.
    pub body: Map<String, Value>,
    /// When it may be tried again.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Whether trying again is no use.
    #[must_use]
    pub fn is_final(&self) -> bool {
        (400..500).contains(&self.status) && !matches!(self.status, 408 | 429)
    }
}

/// A daemon. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

impl Client {
    /// The daemon at `url`, such as `http://127.0.0.1:4170`.
    ///
    /// # Errors
    /// The address is none.
    pub fn new(url: &str, token: Option<&str>) -> Result<Self, Error> {
        let base = url.trim_end_matches('/').to_owned();
        let is_http = base.starts_with("http://") || base.starts_with("https://");
        if !is_http || reqwest::Url::parse(&base).is_err() {
            return Err(Error::Url);
        }
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls::config(base.starts_with("https://"))?)
            .connect_timeout(SDK_CONNECT_WAIT_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(Error::Unreachable)?;
        Ok(Self {
            http,
            base,
            token: token.map(str::to_owned),
        })
    }

    /// What the daemon can do.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn capabilities(&self) -> Result<Value, Error> {
        self.request(Method::GET, "/capabilities", None::<&()>, None)
            .await
    }

    /// Begins a session of its own.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create(&self, approval_mode: Option<&str>) -> Result<Opened, Error> {
        let mut wish = json!({"sessionScope": "thread"});
        if let Some(mode) = approval_mode {
            wish["approvalMode"] = json!(mode);
        }
        self.request(Method::POST, "/session", Some(&wish), None)
            .await
    }

    /// A page of the sessions of a workspace, named by its id or folder, behind `cursor`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list(&self, workspace: &str, cursor: Option<&str>) -> Result<Value, Error> {
        let workspace = segment(workspace);
        let cursor =
            cursor.map_or_else(String::new, |cursor| format!("&cursor={}", segment(cursor)));
        let path = format!("/workspace/{workspace}/sessions?size=100{cursor}");
        self.request(Method::GET, &path, None::<&()>, None).await
    }

    /// Says something; its outcome comes as events.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn prompt(
        &self,
        id: &str,
        client: Option<&str>,
        text: &str,
    ) -> Result<Accepted, Error> {
        let body = json!({"prompt": [{"type": "text", "text": text}]});
        self.of_session(Method::POST, id, "/prompt", Some(&body), client)
            .await
    }

    /// Cancels the running turn.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn cancel(&self, id: &str, client: Option<&str>) -> Result<(), Error> {
        self.done(Method::POST, id, "/cancel", Some(&json!({})), client)
            .await
    }

    /// Votes about a question; without an option it is cancelled.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn vote(
        &self,
        id: &str,
        client: Option<&str>,
        request: &str,
        option: Option<&str>,
    ) -> Result<(), Error> {
        let outcome = match option {
            Some(option) => json!({"outcome": "selected", "optionId": option}),
            None => json!({"outcome": "cancelled"}),
        };
        let path = format!("/permission/{}", segment(request));
        let body = json!({"outcome": outcome});
        self.done(Method::POST, id, &path, Some(&body), client)
            .await
    }

    /// Switches the model.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn set_model(
        &self,
        id: &str,
        client: Option<&str>,
        model: &str,
    ) -> Result<(), Error> {
        let body = json!({"modelId": model});
        self.done(Method::POST, id, "/model", Some(&body), client)
            .await
    }

    /// Sets the approval mode.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn set_approval_mode(
        &self,
        id: &str,
        client: Option<&str>,
        mode: &str,
    ) -> Result<(), Error> {
        let body = json!({"mode": mode});
        self.done(Method::POST, id, "/approval-mode", Some(&body), client)
            .await
    }

    /// Names a session; `persisted` says whether the name is in its record (R27).
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn rename(
        &self,
        id: &str,
        client: Option<&str>,
        name: &str,
    ) -> Result<TitleSet, Error> {
        let body = json!({"displayName": name});
        self.of_session(Method::PATCH, id, "/metadata", Some(&body), client)
            .await
    }

    /// How a live session stands now.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn status(&self, id: &str) -> Result<Value, Error> {
        self.of_session(Method::GET, id, "/status", None, None)
            .await
    }

    /// Leaves a session; the last one out closes it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn detach(&self, id: &str, client: Option<&str>) -> Result<(), Error> {
        self.done(Method::POST, id, "/detach", Some(&json!({})), client)
            .await
    }

    /// Closes a session for everybody.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn close(&self, id: &str, client: Option<&str>) -> Result<(), Error> {
        self.done(Method::DELETE, id, "", None, client).await
    }

    /// Follows a session: see [`Follow`].
    #[must_use]
    pub fn follow(&self, session_id: &str, options: Options) -> Follow {
        Follow::new(self.clone(), session_id, options)
    }

    async fn done(
        &self,
        method: Method,
        id: &str,
        path: &str,
        body: Option<&Value>,
        client: Option<&str>,
    ) -> Result<(), Error> {
        let path = format!("/session/{}{path}", segment(id));
        self.send(method, &path, body, client).await.map(drop)
    }

    /// A request of one session.
    pub(crate) async fn of_session<T: DeserializeOwned>(
        &self,
        method: Method,
        id: &str,
        path: &str,
        body: Option<&Value>,
        client: Option<&str>,
    ) -> Result<T, Error> {
        let path = format!("/session/{}{path}", segment(id));
        self.request(method, &path, body, client).await
    }

    /// A request; the body of its answer as a type.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
        client: Option<&str>,
    ) -> Result<T, Error> {
        let bytes = self.send(method, path, body, client).await?;
        serde_json::from_slice(&bytes).map_err(|_| Error::Protocol)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
        client: Option<&str>,
    ) -> Result<Vec<u8>, Error> {
        let mut request = self.builder(method, path);
        if let Some(client) = client {
            request = request.header("x-qwen-client-id", client);
        }
        if let Some(body) = body {
            let text = serde_json::to_vec(body).map_err(|_| Error::Protocol)?;
            request = request
                .header(header::CONTENT_TYPE, "application/json")
                .body(text);
        }
        let answered = async {
            let response = request.send().await.map_err(Error::Unreachable)?;
            let head = (response.status(), retry_after(&response));
            Ok::<_, Error>((head, whole(response).await?))
        };
        let answered = timeout(SDK_ANSWER_WAIT_MAX, answered).await;
        let ((status, retry_after), bytes) = answered.map_err(|_late| Error::Late)??;
        if status.is_success() {
            return Ok(bytes);
        }
        Err(Error::Refused(refusal(status, retry_after, &bytes)))
    }

    /// Opens a stream of events.
    pub(crate) async fn open(
        &self,
        id: &str,
        after: u64,
        epoch: Option<&str>,
    ) -> Result<reqwest::Response, Error> {
        let path = format!(
            "/session/{}/events?snapshot=1&maxQueued={}",
            segment(id),
            wire::limits::BUS_QUEUE_FRAMES_MAX
        );
        let mut request = self
            .builder(Method::GET, &path)
            .header(header::ACCEPT, "text/event-stream")
            .header("last-event-id", after);
        if let Some(epoch) = epoch {
            request = request.header("x-qwen-event-epoch", epoch);
        }
        let answered = timeout(SDK_ANSWER_WAIT_MAX, request.send()).await;
        let response = answered
            .map_err(|_late| Error::Late)?
            .map_err(Error::Unreachable)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = retry_after(&response);
        let bytes = timeout(SDK_ANSWER_WAIT_MAX, whole(response)).await;
        let bytes = bytes.map_err(|_late| Error::Late)??;
        Err(Error::Refused(refusal(status, retry_after, &bytes)))
    }

    fn builder(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }
}

/// The body of an answer, unless it is larger than any that a daemon gives.
async fn whole(mut response: reqwest::Response) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while let Some(more) = response.chunk().await.map_err(Error::Unreachable)? {
        if bytes.len() + more.len() > SDK_ANSWER_BYTES_MAX {
            return Err(Error::Protocol);
        }
        bytes.extend_from_slice(&more);
    }
    Ok(bytes)
}

fn retry_after(response: &reqwest::Response) -> Option<Duration> {
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

fn refusal(status: StatusCode, retry_after: Option<Duration>, bytes: &[u8]) -> Box<Refusal> {
    let body: Map<String, Value> = serde_json::from_slice(bytes).unwrap_or_default();
    let word = |code: &Value| {
        code.as_str()
            .map_or_else(|| code.to_string(), str::to_owned)
    };
    let code = body.get("code").map(word);
    let message = body.get("error").and_then(Value::as_str);
    Box::new(Refusal {
        status: status.as_u16(),
        code,
        message: message.map_or_else(|| format!("HTTP {}", status.as_u16()), str::to_owned),
        body,
        retry_after,
    })
}

/// A text as one part of a path.
fn segment(text: &str) -> String {
    let mut part = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            part.push(char::from(byte));
        } else {
            part.push_str(&format!("%{byte:02X}"));
        }
    }
    part
}
