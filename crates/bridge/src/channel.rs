//! One life of a child: its pipes, its start, its messages in their order, and its end.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jsonrpc::{Connection, Garbage, Incoming, Options, Peer, RequestError};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use wire::limits::{
    CHILD_BAD_LINES_MAX, CHILD_END_WAIT_MAX, CHILD_LINGER_WAIT_MAX, CHILD_PING_INTERVAL,
    CHILD_PING_WAIT_MAX, CHILD_PINGS_LOST_MAX, CHILD_RUN_MESSAGES_MAX, CHILD_WORK_INTERVAL,
};

use crate::{
    Error,
    early::Early,
    launch::{Child, Ended, Handle},
    router,
    work::Work,
    workspace::Workspace,
};

/// A running child, spoken to. What it says is taken by a task of its own.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) peer: Peer,
    early: Mutex<Early>,
    work: Mutex<Work>,
    kill: CancellationToken,
    terminate: CancellationToken,
    ended: watch::Sender<Option<Ended>>,
}

/// What a child may take part in.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Initialized {
    #[serde(rename = "_meta")]
    meta: Value,
}

/// Categories of work that are known.
const WORK_CATEGORIES: [&str; 5] = ["agent", "notification", "shell", "session", "workflow"];

const WORK_OFFER: &str = "qwen.daemon.activeWorkHeartbeat";
const LIVENESS_OFFER: &str = "qwen.daemon.channelLiveness";

/// Bounds of the interval that a child may choose, in ms.
const WORK_INTERVAL_MS: (u64, u64) = (5_000, 60_000);

impl Channel {
    /// Starts a child and shakes hands with it. Where this is dropped before, the child is killed.
    pub(crate) async fn start(workspace: &Arc<Workspace>) -> Result<Arc<Self>, Error> {
        let child = workspace.launch.launch().map_err(|error| {
            tracing::warn!(%error, "the agent could not be started");
            Error::AgentGone
        })?;
        let Child {
            output,
            input,
            handle,
        } = child;
        let options = Options {
            garbage: Garbage::Skipped,
            ..Options::default()
        };
        let (peer, incoming, connection) = Connection::start(output, input, options);
        let channel = Arc::new(Self {
            peer,
            early: Mutex::default(),
            work: Mutex::default(),
            kill: workspace.end.child_token(),
            terminate: CancellationToken::new(),
            ended: watch::Sender::new(None),
        });
        let abandoned = channel.kill.clone().drop_guard();
        let life = Life {
            workspace: Arc::clone(workspace),
            channel: Arc::clone(&channel),
            incoming,
            connection,
            handle,
        };
        tokio::spawn(life.run());
        channel
            .initialize(workspace.options.initialize_wait)
            .await?;
        abandoned.disarm();
        Ok(channel)
    }

    async fn initialize(self: &Arc<Self>, wait: Duration) -> Result<(), Error> {
        let interval_ms = u64::try_from(CHILD_WORK_INTERVAL.as_millis()).unwrap_or(u64::MAX);
        let answer = self
            .peer
            .request(
                "initialize",
                &json!({
                    "protocolVersion": 1,
                    "clientInfo": {"name": "onrecord-serve", "version": wire::QWEN_CODE_VERSION},
                    "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}},
                    "_meta": {
                        WORK_OFFER: {"v": 1, "intervalMs": interval_ms, "categories": WORK_CATEGORIES},
                        LIVENESS_OFFER: {"v": 1},
                    },
                }),
            )
            .within(wait)
            .await;
        let answer = answer.map_err(|error| {
            if matches!(error, RequestError::TimedOut) {
                return Error::InitTimeout {
                    timeout_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                    phase: "initialize",
                };
            }
            error.into()
        })?;
        let initialized: Initialized = serde_json::from_str(answer.get()).unwrap_or_default();
        let taken = |offer: &str| {
            let echo = initialized.meta.get(offer)?;
            (echo.get("v") == Some(&json!(1))).then_some(echo)
        };
        if let Some(echo) = taken(WORK_OFFER) {
            let chosen = echo.get("intervalMs").and_then(Value::as_u64);
            let (min, max) = WORK_INTERVAL_MS;
            let interval_ms = chosen.unwrap_or(interval_ms).clamp(min, max);
            self.work().expect(Duration::from_millis(interval_ms));
        }
        if taken(LIVENESS_OFFER).is_some() {
            tokio::spawn(Arc::clone(self).ping());
        }
        Ok(())
    }

    /// Asks again and again whether it still answers; ends it where it does not.
    async fn ping(self: Arc<Self>) {
        let mut n_lost = 0;
        for nonce in 0u64.. {
            tokio::select! {
                () = sleep(CHILD_PING_INTERVAL) => {}
                _reason = self.peer.closed() => return,
            }
            let ping = json!({"v": 1, "nonce": nonce});
            let answer = self
                .peer
                .request("qwen/status/channel/ping", &ping)
                .within(CHILD_PING_WAIT_MAX)
                .await;
            n_lost = match answer {
                Ok(answer) if is_pong(&answer, nonce) => 0,
                Err(RequestError::TimedOut) if n_lost + 1 < CHILD_PINGS_LOST_MAX => n_lost + 1,
                Err(RequestError::Closed(_)) => return,
                Ok(_) | Err(_) => {
                    tracing::warn!("the agent does not answer pings and is ended");
                    self.kill.cancel();
                    return;
                }
            };
        }
    }

    pub(crate) fn early(&self) -> MutexGuard<'_, Early> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it can be asked anything.
    pub(crate) fn is_alive(&self) -> bool {
        !self.kill.is_cancelled() && !self.peer.is_closed() && self.ended.borrow().is_none()
    }

    /// Ends it at once.
    pub(crate) fn kill(&self) {
        self.kill.cancel();
    }

    /// Asks it to end, and ends it where it does not in time.
    pub(crate) fn terminate(&self) {
        self.terminate.cancel();
    }

    /// Its end: all that it said is taken, and its sessions are told.
    pub(crate) fn ended(&self) -> watch::Receiver<Option<Ended>> {
        self.ended.subscribe()
    }

    /// Asks it something within a time.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: &Value,
        wait: Duration,
    ) -> Result<Box<RawValue>, Error> {
        let answer = self.peer.request(method, params).within(wait).await;
        answer.map_err(Error::from)
    }
}

fn is_pong(answer: &RawValue, nonce: u64) -> bool {
    #[derive(Deserialize)]
    struct Pong {
        v: u32,
        nonce: u64,
    }
    serde_json::from_str::<Pong>(answer.get()).is_ok_and(|pong| pong.v == 1 && pong.nonce == nonce)
}

/// What runs while a child lives.
struct Life {
    workspace: Arc<Workspace>,
    channel: Arc<Channel>,
    incoming: Incoming,
    connection: Connection,
    handle: Box<dyn Handle>,
}

/// Why its messages are taken no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    /// It ended its output.
    OutputEnded,
    /// It ended, and what it said is taken.
    Ended,
    /// It is to be ended at once.
    Kill,
}

impl Life {
    async fn run(mut self) {
        let mut ended = None;
        let over = self.listen(&mut ended).await;
        if ended.is_none() && over == Over::OutputEnded {
            ended = timeout(CHILD_LINGER_WAIT_MAX, self.handle.ended())
                .await
                .ok();
        }
        if ended.is_none() {
            self.handle.kill();
            ended = timeout(CHILD_END_WAIT_MAX, self.handle.ended()).await.ok();
        }
        let ended = ended.unwrap_or_default();
        // What was read before is still taken; whoever waits for an answer hears that there is none.
        self.channel.peer.close();
        let mut queue = VecDeque::new();
        while let Some(message) = self.incoming.next().await {
            queue.push_back(message);
            router::take(&self.workspace, &self.channel, &mut queue);
        }
        self.workspace.child_ended(&self.channel, &ended);
        self.channel.ended.send_replace(Some(ended));
        drop(self.connection);
    }

    /// Takes its messages until there are no more or it is to be ended.
    async fn listen(&mut self, ended: &mut Option<Ended>) -> Over {
        let channel = Arc::clone(&self.channel);
        let mut bad_lines = channel.peer.bad_lines();
        let mut queue = VecDeque::new();
        // Far away until they are set.
        let (mut kill_at, mut linger_until) = (far(), far());
        let mut is_terminated = false;
        loop {
            let message = tokio::select! {
                biased;
                () = channel.kill.cancelled() => return Over::Kill,
                () = sleep_until(kill_at), if is_terminated => {
                    tracing::warn!("the agent did not end when it was asked to, and is killed");
                    return Over::Kill;
                }
                Ok(_) = bad_lines.wait_for(|bad| bad.n_consecutive_max >= CHILD_BAD_LINES_MAX) => {
                    tracing::warn!("the agent says nothing that is understood, and is ended");
                    return Over::Kill;
                }
                () = channel.terminate.cancelled(), if !is_terminated => {
                    is_terminated = true;
                    kill_at = Instant::now() + CHILD_END_WAIT_MAX;
                    self.handle.terminate();
                    continue;
                }
                message = self.incoming.next() => message,
                end = self.handle.ended(), if ended.is_none() => {
                    *ended = Some(end);
                    linger_until = Instant::now() + CHILD_LINGER_WAIT_MAX;
                    continue;
                }
                () = sleep_until(linger_until), if ended.is_some() => return Over::Ended,
            };
            let Some(message) = message else {
                return Over::OutputEnded;
            };
            queue.push_back(message);
            self.incoming.take_ready(&mut queue, CHILD_RUN_MESSAGES_MAX);
            router::take(&self.workspace, &channel, &mut queue);
            // Streams get their turn, however fast it speaks.
            tokio::task::yield_now().await;
        }
    }
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(86_400 * 365)
}

/// The names of methods that everyone means the same by.
pub(crate) fn is_unknown_method(error: &Error) -> bool {
    matches!(error, Error::Agent(error) if error.code == jsonrpc::METHOD_NOT_FOUND)
}

/// A remote error that says so.
pub(crate) fn is_unknown(outcome: &Result<Box<RawValue>, RequestError>) -> bool {
    matches!(outcome, Err(RequestError::Remote(error)) if error.code == jsonrpc::METHOD_NOT_FOUND)
}
