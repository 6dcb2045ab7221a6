//! The body of an event stream: what the bus gives, a comment where it gives nothing for a while, and the end.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use bus::{Subscription, own_frame};
use bytes::Bytes;
use http_body::Frame;
use serde_json::json;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;
use uuid::Uuid;
use wire::limits::DAEMON_STREAM_HEARTBEAT;

use crate::app::{App, OpenStream};

/// How soon a client may come back, in ms.
const RETRY: &[u8] = b"retry: 3000\n\n";
const HEARTBEAT: &[u8] = b": heartbeat\n\n";

/// The answer whose body is a stream.
pub(crate) fn answer(app: &Arc<App>, epoch: &str, subscription: Subscription) -> Response {
    let stream = Stream::new(app, subscription);
    let mut response = Response::new(Body::new(stream));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    let words = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache, no-transform"),
        (header::CONNECTION, "keep-alive"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    for (name, value) in words {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let ids = [
        ("x-qwen-event-epoch", epoch.to_owned()),
        ("x-qwen-sse-stream-id", Uuid::new_v4().to_string()),
    ];
    for (name, value) in ids {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(header::HeaderName::from_static(name), value);
        }
    }
    response
}

struct Stream {
    subscription: Option<Subscription>,
    has_begun: bool,
    heartbeat: Pin<Box<Sleep>>,
    /// When the last byte was given, and how long a stream may be silent.
    idle: Option<(Instant, Duration)>,
    idle_over: Option<Pin<Box<Sleep>>>,
    /// The daemon stops, and every session has said its last.
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    now_ms: fn() -> u64,
    _counted: OpenStream,
}

impl Stream {
    fn new(app: &Arc<App>, subscription: Subscription) -> Self {
        let idle_max = app.options.writer_idle_max;
        Self {
            subscription: Some(subscription),
            has_begun: false,
            heartbeat: Box::pin(sleep(DAEMON_STREAM_HEARTBEAT)),
            idle: idle_max.map(|max| (Instant::now(), max)),
            idle_over: idle_max.map(|max| Box::pin(sleep(max))),
            end: Box::pin(app.end.clone().cancelled_owned()),
            now_ms: app.options.now_ms,
            _counted: app.count_stream(),
        }
    }

    /// Something is given: the silence begins anew.
    fn give(&mut self, bytes: Bytes) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let now = Instant::now();
        self.heartbeat.as_mut().reset(now + DAEMON_STREAM_HEARTBEAT);
        if let (Some((last, max)), Some(over)) = (&mut self.idle, &mut self.idle_over) {
            *last = now;
            over.as_mut().reset(now + *max);
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    /// The last frame of a stream that was silent for too long.
    fn give_up(&mut self, last: Instant, max: Duration) -> Bytes {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.subscription = None;
        let data = json!({
            "reason": "writer_idle_timeout",
            "errorKind": "writer_idle_timeout",
            "idleForMs": millis(last.elapsed()),
            "timeoutMs": millis(max),
        });
        own_frame("client_evicted", &data, (self.now_ms)())
    }
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if !this.has_begun {
            this.has_begun = true;
            return this.give(Bytes::from_static(RETRY));
        }
        let Some(subscription) = &mut this.subscription else {
            return Poll::Ready(None);
        };
        match subscription.poll_next(context) {
            Poll::Ready(Some(bytes)) => return this.give(bytes),
            Poll::Ready(None) => {
                this.subscription = None;
                return Poll::Ready(None);
            }
            Poll::Pending => {}
        }
        if this.end.as_mut().poll(context).is_ready() {
            this.subscription = None;
            return Poll::Ready(None);
        }
        if let (Some((last, max)), Some(over)) = (this.idle, &mut this.idle_over)
            && over.as_mut().poll(context).is_ready()
        {
            let bytes = this.give_up(last, max);
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if this.heartbeat.as_mut().poll(context).is_ready() {
            return this.give(Bytes::from_static(HEARTBEAT));
        }
        Poll::Pending
    }
}
