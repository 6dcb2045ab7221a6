//! What becomes of each message of the client.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use agent::{approval::Mode, replay::last_plan, tool::Editor};
use jsonrpc::{
    AtEndOfInput, Closed, Connection, INTERNAL_ERROR, INVALID_PARAMS, Id, Incoming, Message,
    Notification, Options, Peer, Request, Responder, RpcError,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Semaphore, oneshot},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use transcript::record::TitleSource;
use uuid::Uuid;
use wire::{
    limits::{
        ACP_CLOSE_DRAIN_DEFAULT, ACP_READS_MAX, ACP_REPLAY_BYTES_MAX, ACP_REPLAY_UPDATES_MAX,
        EXIT_WAIT_MAX, OUTPUT_STUCK_WAIT_MAX, SETTLE_WAIT_MAX, SIDE_OUTPUT_END_WAIT_MAX,
    },
    recording::RecordingReport,
    words,
};

use crate::{
    ask::{ClientAsked, ParentAsked},
    backend::{Backend, History, OpenError, Opened, Voices, recording_meta},
    editor::ClientFiles,
    live::{Asked, COMMANDS, Live, NotClosed, Parts, Sessions, command, shortened},
    protocol::{
        initialize::{FileSystem, Initialize, Initialized, Offers},
        session::{
            ApprovalMode, Choices, Close, List, Named, Open, Page, Prompt, SetConfigOption,
            SetMode, SetModel, SetTitle, Withdrawn, Workspace,
        },
        update::{Command, Update},
    },
    record::{States, tell_failures},
    replay::{bulk, update},
    status,
    to_acp::Teller,
    work::Heartbeat,
};

/// What is known of the program that started us.
#[derive(Debug, Clone, Default)]
pub struct Parent {
    /// What it has to say at `initialize` to be taken for our parent; `None` where nothing is asked.
    pub capability: Option<String>,
    /// It wants to be asked about every tool call.
    pub guards: bool,
}

/// Speaks ACP until the input ends or `end` fires. Then running prompts are cancelled and answered,
/// and every record is finalized, all in bounded time.
pub async fn serve<R, W>(
    reader: R,
    writer: W,
    backend: Arc<dyn Backend>,
    parent: Parent,
    end: CancellationToken,
) where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let options = Options {
        // What is found by the last flush of a record is news, too.
        at_end_of_input: AtEndOfInput::StaysOpen,
        ..Options::default()
    };
    let (peer, incoming, mut connection) = Connection::start(reader, writer, options);
    let server = Server {
        heartbeat: Heartbeat::new(peer.clone()),
        peer: peer.clone(),
        backend,
        parent,
        sessions: Sessions::default(),
        client: Arc::default(),
        end: end.clone(),
        reads: Arc::new(Semaphore::new(ACP_READS_MAX)),
        serving: TaskTracker::new(),
    };
    server.run(incoming, &end).await;
    let closing = server.close_all();
    tokio::pin!(closing);
    tokio::select! {
        () = &mut closing => {}
        () = stuck(&peer) => {
            // Turns wait for room that will not come; without it they end, and their records are whole.
            peer.abandon();
            return closing.await;
        }
    }
    peer.close();
    // Dropped: a client that does not read is not waited for.
    _ = tokio::time::timeout(SIDE_OUTPUT_END_WAIT_MAX, connection.ended()).await;
}

/// Waits until the client takes nothing any more.
async fn stuck(peer: &Peer) {
    let mut before = peer.backlog();
    loop {
        tokio::time::sleep(OUTPUT_STUCK_WAIT_MAX).await;
        let now = peer.backlog();
        if now == before && !now.is_empty {
            return;
        }
        before = now;
    }
}

/// What the client said of itself.
#[derive(Debug, Default, Clone)]
struct Client {
    takes_notices: bool,
    fs: FileSystem,
    offers: Offers,
}

/// Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
struct Server {
    peer: Peer,
    backend: Arc<dyn Backend>,
    parent: Parent,
    sessions: Sessions,
    heartbeat: Heartbeat,
    client: Arc<Mutex<Client>>,
    end: CancellationToken,
    /// Sessions that are read whole at a time: each may be large.
    reads: Arc<Semaphore>,
    /// Requests that are being served, but for prompts.
    serving: TaskTracker,
}

impl Server {
    async fn run(&self, mut incoming: Incoming, end: &CancellationToken) {
        let mut has_ended = false;
        loop {
            let message = tokio::select! {
                biased;
                () = end.cancelled() => return,
                reason = self.peer.closed(), if !has_ended => {
                    // What was said before the end of input is heard; nobody hears us behind a broken pipe.
                    if let Closed::WriteFailed(_) = reason {
                        return;
                    }
                    has_ended = true;
                    continue;
                }
                message = incoming.next() => message,
            };
            match message {
                Some(Message::Request(request)) => self.request(request),
                Some(Message::Notification(notification)) => self.notification(&notification),
                None => break,
            }
        }
        // What was asked before is served, as far as it takes no longer than an end may.
        self.serving.close();
        // Dropped: what takes longer is not answered, and the connection's end says so.
        _ = tokio::time::timeout(EXIT_WAIT_MAX, self.serving.wait()).await;
    }

    /// Serves a request. Nothing here waits: what takes time goes to a task, and what has an order
    /// takes its place now.
    fn request(&self, request: Request) {
        let Request {
            method,
            params,
            responder,
        } = request;
        let params = params.as_deref();
        match method.as_str() {
            "initialize" => answer(responder, read(params).and_then(|p| self.initialize(&p))),
            "authenticate" => answer(responder, Ok(json!({}))),
            "session/new" => self.spawn(params, responder, Self::new_session),
            "session/load" => self.spawn_read(params, responder, |server, open| {
                server.load_session(open, true)
            }),
            "session/resume" => self.spawn_read(params, responder, |server, open| {
                server.load_session(open, false)
            }),
            "session/list" => self.spawn_read(params, responder, Self::list),
            "session/close" => self.spawn(params, responder, Self::close_plainly),
            "session/prompt" => self.prompt(params, responder),
            "session/set_mode" => answer(responder, read(params).and_then(|p| self.set_mode(&p))),
            "session/set_model" => answer(responder, read(params).and_then(|p| self.set_model(&p))),
            "session/set_config_option" => {
                answer(
                    responder,
                    read(params).and_then(|p| self.set_config_option(&p)),
                );
            }
            "craft/cancelPendingPrompt" => {
                answer(responder, read(params).and_then(|p| self.cancel(&p)))
            }
            "qwen/control/session/approval_mode" => {
                answer(responder, read(params).and_then(|p| self.approval_mode(&p)));
            }
            "qwen/control/session/title" => self.spawn(params, responder, Self::set_title),
            "qwen/control/session/close" => self.spawn(params, responder, Self::close),
            "qwen/control/workspace/mcp/initialize" => {
                answer(responder, Ok(json!({"accepted": true})))
            }
            "qwen/status/channel/ping" => answer(responder, ping(params)),
            "qwen/status/session/transcript" => {
                self.spawn_read(params, responder, |server, page: Page| async move {
                    let history = server.history(&page.session_id).await?;
                    status::transcript(&page, &history.steps)
                });
            }
            "qwen/status/session/turn_index" => {
                self.spawn_read(params, responder, |server, named: Named| async move {
                    let history = server.history(&named.session_id).await?;
                    Ok(status::turn_index(&named, &history.steps))
                });
            }
            method if method.starts_with("qwen/status/session/") => {
                answer(responder, self.session_status(method, params));
            }
            method if method.starts_with("qwen/status/workspace/") => {
                answer(responder, self.workspace_status(method, params));
            }
            _ => answer(responder, Err(RpcError::method_not_found(&method))),
        }
    }

    fn notification(&self, notification: &Notification) {
        match notification.method.as_str() {
            "session/cancel" => {
                if let Ok(named) = notification.parse_params::<Named>()
                    && let Some(live) = self.sessions.get(&named.session_id)
                {
                    live.cancel();
                }
            }
            "$/cancel_request" => {
                if let Ok(withdrawn) = notification.parse_params::<Withdrawn>()
                    && let Some(id) = Id::read(&withdrawn.request_id)
                {
                    // What is answered already, or was never asked, needs no end.
                    self.peer.cancel(&id);
                }
            }
            _ => {}
        }
    }

    /// Runs what takes time in a task of its own.
    fn spawn<P, F, Fut>(&self, params: Option<&RawValue>, responder: Responder, serve: F)
    where
        P: DeserializeOwned,
        F: FnOnce(Self, P) -> Fut,
        Fut: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        match read(params) {
            Ok(params) => {
                let serving = serve(self.clone(), params);
                self.serving
                    .spawn(async move { answer(responder, serving.await) });
            }
            Err(error) => answer(responder, Err(error)),
        }
    }

    /// As [`Server::spawn`], for what reads sessions whole: each may be large, so that a few are read at a time,
    /// and the next one when the answer has left.
    fn spawn_read<P, F, Fut>(&self, params: Option<&RawValue>, responder: Responder, serve: F)
    where
        P: DeserializeOwned,
        F: FnOnce(Self, P) -> Fut,
        Fut: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        let reading = match read(params) {
            Ok(params) => serve(self.clone(), params),
            Err(error) => return answer(responder, Err(error)),
        };
        let turns = Arc::clone(&self.reads);
        self.serving.spawn(async move {
            let Ok(_turn) = turns.acquire_owned().await else {
                return answer(responder, Err(stopping()));
            };
            // Dropped: a client that is gone needs no answer.
            _ = responder.respond(reading.await).await;
        });
    }

    fn client(&self) -> Client {
        self.client
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn initialize(&self, initialize: &Initialize) -> Result<Value, RpcError> {
        let proof = initialize.parent_capability();
        let is_child = match &self.parent.capability {
            Some(capability) if proof != Some(capability) => {
                return Err(RpcError::new(
                    INVALID_PARAMS,
                    "Invalid private ACP parent capability",
                ));
            }
            Some(_) => self.parent.guards,
            None => false,
        };
        let offers = initialize.offers();
        let initialized = Initialized::new(&offers, is_child, self.backend.version());
        let is_first = {
            let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
            let is_first = client.offers.active_work.is_none();
            *client = Client {
                takes_notices: initialize.client_capabilities.takes_notices(),
                fs: initialize.client_capabilities.fs,
                offers: offers.clone(),
            };
            is_first
        };
        if let (Some(work), true) = (&offers.active_work, is_first) {
            self.beat();
            let (server, interval) = (self.clone(), Duration::from_millis(work.interval_ms));
            tokio::spawn(async move { server.beat_every(interval).await });
        }
        value(&initialized)
    }

    async fn beat_every(self, interval: Duration) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(interval) => self.beat(),
                () = self.end.cancelled() => return,
                _reason = self.peer.closed() => return,
            }
        }
    }

    /// Says what is at work, where the client wants to know.
    fn beat(&self) {
        if self.client().offers.active_work.is_some() {
            self.heartbeat.beat(&self.sessions.ids());
        }
    }

    async fn new_session(self, open: Open) -> Result<Value, RpcError> {
        let id = match open.wished_id() {
            Some(wished) => {
                let is_uuid = Uuid::try_parse(wished).is_ok() && wished.len() == 36;
                if !is_uuid {
                    return Err(RpcError::invalid_params("the wished session id is no UUID"));
                }
                wished.to_ascii_lowercase()
            }
            None => Uuid::new_v4().to_string(),
        };
        let (live, _) = self.open(id, open.cwd, How::Begin).await?;
        let mut answer = value(&self.choices(&live))?;
        answer["sessionId"] = json!(live.id);
        answer["_meta"] = recording_meta(&live.config.recording());
        self.announce_commands(&live, &open.mcp_servers);
        Ok(answer)
    }

    /// What is open when it is asked for is what it finds, whatever is asked for later.
    fn load_session(
        self,
        open: Open,
        replays: bool,
    ) -> impl Future<Output = Result<Value, RpcError>> + Send + 'static {
        let id = open.session_id.as_deref().unwrap_or_default();
        let found = self.sessions.get(id);
        let closing = found.as_ref().is_some_and(|live| live.is_closing());
        async move {
            let found = match found {
                Some(live) if closing => self.still_open(live).await?,
                found => found,
            };
            self.load(open, replays, found).await
        }
    }

    /// Waits for the end of a close; what was closed is not there any more.
    async fn still_open(&self, live: Arc<Live>) -> Result<Option<Arc<Live>>, RpcError> {
        match tokio::time::timeout(ACP_CLOSE_DRAIN_DEFAULT, live.is_closed()).await {
            Ok(true) => Ok(None),
            Ok(false) => Ok(Some(live)),
            Err(_) => Err(RpcError::internal(
                "the session is being closed; try again later",
            )),
        }
    }

    async fn load(
        self,
        open: Open,
        replays: bool,
        found: Option<Arc<Live>>,
    ) -> Result<Value, RpcError> {
        let Some(id) = open.session_id.clone() else {
            return Err(RpcError::invalid_params("missing field `sessionId`"));
        };
        let in_bulk = open.wants_bulk_replay();
        let (live, history) = match found {
            // It goes on as it is; what was said is read again.
            Some(live) => {
                let history = if replays {
                    // Dropped: a file that is not in its place any more is a level, which is in the answer.
                    _ = live.config.flush(SETTLE_WAIT_MAX).await;
                    self.history(&id).await?
                } else {
                    History::default()
                };
                (live, history)
            }
            None => self.open(id, open.cwd, How::TakeUp).await?,
        };
        let History { steps, damage } = history;
        let mut meta = recording_meta(&live.config.recording());
        if replays && in_bulk {
            // On a thread, as it takes its time.
            meta["qwen.session.loadReplay"] =
                on_thread(move || bulk(&steps, ACP_REPLAY_UPDATES_MAX, ACP_REPLAY_BYTES_MAX))
                    .await?;
        } else if replays {
            let teller = self.teller(&live, false);
            for step in &steps {
                teller.tell(&update(step)).await;
            }
            if let Some(todos) = last_plan(&steps) {
                teller.tell(&Update::plan(&todos)).await;
            }
        }
        if let Some(damage) = &damage {
            let replay = &mut meta["qwen.session.loadReplay"];
            replay["v"] = json!(1);
            replay["partial"] = json!(true);
            replay["replayError"] = json!(damage);
            self.announce(&live, damage);
        }
        let mut answer = value(&self.choices(&live))?;
        // Read again: what became of the record meanwhile is in the answer.
        meta["onrecord/recording"] = json!(live.config.recording());
        answer["_meta"] = meta;
        self.announce_commands(&live, &open.mcp_servers);
        Ok(answer)
    }

    /// Opens a session on a thread, and starts its task.
    async fn open(
        &self,
        id: String,
        cwd: PathBuf,
        how: How,
    ) -> Result<(Arc<Live>, History), RpcError> {
        if !cwd.is_absolute() {
            return Err(RpcError::invalid_params("`cwd` must be an absolute path"));
        }
        let Some(_reserved) = self.sessions.reserve(&id) else {
            return Err(match how {
                _ if self.sessions.is_over() => stopping(),
                How::Begin => RpcError::invalid_params("the wished session id is taken"),
                How::TakeUp => RpcError::internal("the session is being opened; try again later"),
            });
        };
        let takes_notices = self.client().takes_notices;
        let prompt_id = Arc::default();
        let shown_cwd = cwd.to_string_lossy().into_owned();
        let guards = self.parent.guards && self.parent.capability.is_some();
        let guard = guards.then(|| -> Arc<dyn agent::approval::Guard> {
            Arc::new(ParentAsked::new(
                self.peer.clone(),
                &id,
                shown_cwd.clone(),
                Arc::clone(&prompt_id),
            ))
        });
        let fs = self.client().fs;
        let editor = (fs.read_text_file || fs.write_text_file)
            .then(|| -> Arc<dyn Editor> { Arc::new(ClientFiles::new(self.peer.clone(), &id, fs)) });
        let peer = self.peer.clone();
        let voices = Voices {
            approver: Arc::new(ClientAsked::new(self.peer.clone(), &id, cwd.clone())),
            guard,
            editor,
            listen: Box::new(move |config| tell_failures(config, &peer, takes_notices)),
        };
        let backend = Arc::clone(&self.backend);
        let session_id = id.clone();
        let opened = on_thread(move || match how {
            How::Begin => backend.begin(&session_id, &cwd, voices),
            How::TakeUp => backend.take_up(&session_id, &cwd, voices),
        })
        .await?;
        let Opened {
            mut session,
            config,
            controls,
            history,
            title,
            ends_torn,
        } = opened.map_err(|error| refused(&error, &id))?;
        let teller = Teller::new(self.peer.clone(), &id, Path::new(&shown_cwd), takes_notices);
        session.subscribe(teller.clone());
        if ends_torn {
            config.mend(SETTLE_WAIT_MAX).await;
        }
        let watch = config.watch_recording();
        let states = States::new(self.peer.clone(), &id, watch.current().state);
        let live = Live::start(Parts {
            id: id.clone(),
            cwd: shown_cwd,
            session,
            config,
            controls,
            title,
            teller,
            prompt_id,
            states,
        });
        let follower = Arc::clone(&live);
        tokio::spawn(async move {
            tokio::select! {
                () = follower.states.follow(watch) => {}
                () = follower.gone.cancelled() => {}
            }
        });
        self.sessions.add(Arc::clone(&live));
        self.beat();
        Ok((live, history))
    }

    /// Right behind the answer that opened the session.
    fn announce_commands(&self, live: &Live, mcp_servers: &[Value]) {
        let teller = self.teller(live, false);
        tokio::spawn(async move {
            let available_commands = COMMANDS
                .iter()
                .map(|&(name, description)| Command { name, description })
                .collect();
            teller.tell(&Update::Commands { available_commands }).await;
        });
        if !mcp_servers.is_empty() {
            self.announce(
                live,
                "MCP servers of the client are not started: they are not supported so far.",
            );
        }
    }

    /// Warns the person, where the client can show that.
    fn announce(&self, live: &Live, text: &str) {
        if !self.client().takes_notices {
            return;
        }
        let (teller, text) = (self.teller(live, true), text.to_owned());
        tokio::spawn(async move {
            let content = crate::protocol::update::Text::new(&text);
            let severity = "warning";
            teller.tell(&Update::Notice { severity, content }).await;
        });
    }

    async fn list(self, list: List) -> Result<Value, RpcError> {
        if list.cursor.is_some_and(|cursor| !cursor.is_empty()) {
            return Err(RpcError::invalid_params(
                "`cursor` is none of ours: the list is given whole",
            ));
        }
        let backend = Arc::clone(&self.backend);
        let rows = on_thread(move || backend.list(list.cwd.as_deref())).await?;
        let rows = rows.map_err(|error| refused(&error, ""))?;
        let sessions: Vec<Value> = rows
            .into_iter()
            .map(|row| {
                json!({
                    "sessionId": row.session_id,
                    "cwd": row.cwd,
                    "title": row.title,
                    "updatedAt": row.updated_at,
                    "_meta": {
                        "createdAt": row.created_at,
                        "startTime": row.created_at,
                        "preview": row.preview,
                    },
                })
            })
            .collect();
        Ok(json!({"sessions": sessions}))
    }

    fn prompt(&self, params: Option<&RawValue>, responder: Responder) {
        let prompt: Prompt = match read(params) {
            Ok(prompt) => prompt,
            Err(error) => return answer(responder, Err(error)),
        };
        let live = match self.live(&prompt.session_id) {
            Ok(live) => live,
            Err(error) => return answer(responder, Err(error)),
        };
        let said = match (!prompt.continues()).then(|| prompt.said()).transpose() {
            Ok(said) => said,
            Err(why) => return answer(responder, Err(RpcError::invalid_params(&why))),
        };
        if said
            .as_ref()
            .is_some_and(|said| said.text.trim().is_empty())
        {
            let error = RpcError::invalid_params("the prompt is empty");
            return answer(responder, Err(error));
        }
        live.prompt(Asked {
            command: prompt.line().and_then(command),
            prompt: said,
            prompt_id: prompt.prompt_id(),
            responder,
        });
    }

    fn cancel(&self, named: &Named) -> Result<Value, RpcError> {
        let live = self.live(&named.session_id)?;
        Ok(json!({"cancelled": live.cancel()}))
    }

    fn set_mode(&self, wish: &SetMode) -> Result<Value, RpcError> {
        let live = self.live(&wish.session_id)?;
        self.change_mode_and_tell(&live, &wish.mode_id)?;
        Ok(json!({}))
    }

    fn approval_mode(&self, wish: &ApprovalMode) -> Result<Value, RpcError> {
        let live = self.live(&wish.session_id)?;
        let previous = live.controls.mode();
        Self::change_mode(&live, &wish.mode)?;
        Ok(json!({"previous": previous.as_str(), "current": wish.mode}))
    }

    fn change_mode(live: &Live, word: &str) -> Result<(), RpcError> {
        let mode = Mode::of_word(word).ok_or_else(|| {
            RpcError::new(
                INVALID_PARAMS,
                format!("Invalid params: Unknown approval mode: {word}"),
            )
        })?;
        live.controls.set_mode(mode);
        Ok(())
    }

    /// A daemon sets the mode in its own way and tells of it itself.
    fn change_mode_and_tell(&self, live: &Live, word: &str) -> Result<(), RpcError> {
        Self::change_mode(live, word)?;
        // It has its place before the answer. The room of notices is kept for what the record has to say.
        let told = self.peer.notify(
            "qwen/notify/session/mode-update",
            &json!({"v": 1, "sessionId": live.id, "currentModeId": word}),
        );
        tokio::spawn(told);
        Ok(())
    }

    fn set_model(&self, wish: &SetModel) -> Result<Value, RpcError> {
        let live = self.live(&wish.session_id)?;
        self.change_model(&live, &wish.model_id)?;
        Ok(json!({}))
    }

    fn change_model(&self, live: &Live, name: &str) -> Result<(), RpcError> {
        let provider = self
            .backend
            .model(name)
            .map_err(|details| RpcError::internal(&details))?;
        live.controls.set_provider(provider);
        Ok(())
    }

    fn set_config_option(&self, wish: &SetConfigOption) -> Result<Value, RpcError> {
        let live = self.live(&wish.session_id)?;
        match wish.config_id.as_str() {
            "mode" => self.change_mode_and_tell(&live, &wish.value)?,
            "model" => self.change_model(&live, &wish.value)?,
            other => {
                return Err(RpcError::invalid_params(&format!(
                    "there is no option `{other}`; there are `mode` and `model`"
                )));
            }
        }
        Ok(json!({"configOptions": self.choices(&live).config_options}))
    }

    async fn set_title(self, wish: SetTitle) -> Result<Value, RpcError> {
        let live = self.live(&wish.session_id)?;
        let source = match wish.title_source.as_deref() {
            Some("auto") => TitleSource::Auto,
            Some("manual") | None => TitleSource::Manual,
            Some(_) => {
                return Err(RpcError::invalid_params(
                    "`titleSource` is \"manual\" or \"auto\"",
                ));
            }
        };
        let name = shortened(&wish.display_name);
        if name.is_empty() {
            return Err(RpcError::invalid_params("`displayName` is empty"));
        }
        let persisted = live.rename(&name, source).await;
        Ok(json!({
            "sessionId": wish.session_id,
            "displayName": name,
            "titleSource": source,
            "persisted": persisted,
        }))
    }

    /// An ordinary close, as ACP has it.
    fn close_plainly(
        self,
        named: Named,
    ) -> impl Future<Output = Result<Value, RpcError>> + Send + 'static {
        let closed = self.close(Close::plain(named.session_id));
        async move {
            let closed = closed.await?;
            // An answer of ACP has no other field, and `_meta` only where there is something to say.
            let meta = closed.get("_meta").map(|meta| json!({"_meta": meta}));
            Ok(meta.unwrap_or_else(|| json!({})))
        }
    }

    /// Closes what is open when it is asked for; from then on whoever loads it waits.
    fn close(self, wish: Close) -> impl Future<Output = Result<Value, RpcError>> + Send + 'static {
        let live = self.sessions.get(&wish.session_id);
        let closing = live.as_ref().map(Live::closing);
        async move {
            let answer = self.close_live(wish, live).await;
            drop(closing);
            answer
        }
    }

    async fn close_live(&self, wish: Close, live: Option<Arc<Live>>) -> Result<Value, RpcError> {
        if wish.session_id.is_empty() {
            return Err(RpcError::invalid_params("Invalid or missing sessionId"));
        }
        let drain = match wish.drain_timeout_ms {
            Some(millis) if (1..=2_147_483_647).contains(&millis) => Duration::from_millis(millis),
            Some(_) => {
                return Err(RpcError::invalid_params(
                    "`drainTimeoutMs` must be from 1 to 2147483647",
                ));
            }
            None => ACP_CLOSE_DRAIN_DEFAULT,
        };
        let closed = json!({"sessionId": wish.session_id, "closed": true});
        let Some(live) = live else {
            return Ok(closed);
        };
        if wish.only_if_unheld && live.is_busy() {
            let holds = [json!({"id": wish.session_id, "category": "session"})];
            return Ok(json!({"sessionId": wish.session_id, "closed": false, "holds": holds}));
        }
        match live.close(wish.require_flush, drain).await {
            Ok(()) => {
                self.sessions.remove(&live);
                self.beat();
                let mut closed = closed;
                closed["_meta"] = recording_meta(&live.config.recording());
                Ok(closed)
            }
            Err(NotClosed::NotSaved(report)) => Err(not_saved(&report)),
            Err(NotClosed::TimedOut) => Err(RpcError::internal(&format!(
                "Session close timed out after {}ms",
                drain.as_millis()
            ))),
        }
    }

    fn session_status(&self, method: &str, params: Option<&RawValue>) -> Result<Value, RpcError> {
        let what = method.trim_start_matches("qwen/status/session/");
        let serve: fn(&Self, &Live) -> Value = match what {
            "context" => |server, live| status::context(live, &server.choices(live)),
            "supported_commands" => |_, live| status::supported_commands(live),
            "stats" => |_, live| status::stats(live),
            "tasks" => |_, live| status::tasks(live),
            _ => return Err(RpcError::method_not_found(method)),
        };
        let named: Named = read(params)?;
        let live = self.live(&named.session_id)?;
        Ok(serve(self, &live))
    }

    fn workspace_status(&self, method: &str, params: Option<&RawValue>) -> Result<Value, RpcError> {
        let workspace: Workspace = read(params)?;
        let cwd = workspace.cwd.unwrap_or_default();
        match method.trim_start_matches("qwen/status/workspace/") {
            "mcp" => Ok(status::mcp(&cwd)),
            "skills" => Ok(status::skills(&cwd)),
            "tools" => Ok(status::tools(&cwd)),
            "preflight" => Ok(status::preflight(&self.backend.models())),
            _ => Err(RpcError::method_not_found(method)),
        }
    }

    async fn history(&self, id: &str) -> Result<History, RpcError> {
        let (backend, session_id) = (Arc::clone(&self.backend), id.to_owned());
        match on_thread(move || backend.replay(&session_id)).await? {
            Ok(history) => Ok(history),
            // Nothing of it is recorded yet.
            Err(OpenError::NotFound) if self.sessions.get(id).is_some() => Ok(History::default()),
            Err(error) => Err(refused(&error, id)),
        }
    }

    fn live(&self, id: &str) -> Result<Arc<Live>, RpcError> {
        self.sessions.get(id).ok_or_else(|| {
            if self.sessions.is_over() {
                return stopping();
            }
            RpcError::invalid_params(&format!("Session not found: {id}"))
        })
    }

    fn teller(&self, live: &Live, takes_notices: bool) -> Teller {
        Teller::new(
            self.peer.clone(),
            &live.id,
            Path::new(&live.cwd),
            takes_notices,
        )
    }

    fn choices(&self, live: &Live) -> Choices {
        Choices::new(
            live.controls.mode(),
            live.controls.provider().model(),
            &self.backend.models(),
        )
    }

    /// Ends every session, all at once.
    async fn close_all(&self) {
        // What waits for its turn to read waits no more.
        self.reads.close();
        let closing: Vec<_> = self
            .sessions
            .take_all()
            .into_iter()
            .map(|live| tokio::spawn(async move { live.close(false, EXIT_WAIT_MAX).await }))
            .collect();
        self.beat();
        // Dropped: what could not be saved in time was told where it failed.
        _ = tokio::time::timeout(SETTLE_WAIT_MAX + EXIT_WAIT_MAX, async {
            for closed in closing {
                // Dropped: as above.
                _ = closed.await;
            }
        })
        .await;
    }
}

/// How a session is opened.
#[derive(Debug, Clone, Copy)]
enum How {
    Begin,
    TakeUp,
}

fn read<'a, P: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<P, RpcError> {
    let json = match params.map_or("null", RawValue::get) {
        "null" => "{}",
        json => json,
    };
    serde_json::from_str(json).map_err(|error| RpcError::invalid_params(&error.to_string()))
}

fn value(value: &impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(value).map_err(|error| RpcError::internal(&error.to_string()))
}

fn answer(responder: Responder, result: Result<Value, RpcError>) {
    // Dropped: the answer has its place in the order; a client that is gone needs none.
    drop(responder.respond(result));
}

fn stopping() -> RpcError {
    RpcError::internal("the agent is stopping")
}

fn ping(params: Option<&RawValue>) -> Result<Value, RpcError> {
    #[derive(Deserialize)]
    struct Ping {
        v: Value,
        nonce: Value,
    }
    let Ping { v, nonce } = read(params)?;
    if v != 1 {
        return Err(RpcError::invalid_params("Invalid channel liveness ping"));
    }
    Ok(json!({"v": 1, "nonce": nonce}))
}

fn refused(error: &OpenError, id: &str) -> RpcError {
    /// ACP's code for a resource that is not there.
    const NOT_FOUND: i64 = -32_002;
    match error {
        OpenError::NotFound => {
            RpcError::new(NOT_FOUND, format!("Resource not found: session:{id}"))
                .with_data(&json!({"uri": format!("session:{id}")}))
        }
        OpenError::Archived => {
            RpcError::new(NOT_FOUND, format!("Resource not found: session:{id}"))
                .with_data(&json!({"uri": format!("session:{id}"), "details": error.to_string()}))
        }
        OpenError::Invalid(details) => RpcError::invalid_params(details),
        OpenError::Busy(details) | OpenError::Other(details) => RpcError::internal(details),
    }
}

/// A strict close whose flush failed: class and remedy, no path (R21, R28).
fn not_saved(report: &RecordingReport) -> RpcError {
    let details = match report.class {
        Some(class) => format!(
            "Part of this session is not saved ({}): {}. It is still open; close it without requireFlush to give that part up.",
            class.as_str(),
            words::remedy(class)
        ),
        None => "Part of this session is not yet on disk. It is still open; try again.".to_owned(),
    };
    RpcError::new(INTERNAL_ERROR, "Internal error").with_data(&json!({
        "details": details,
        "errorKind": "recording_not_flushed",
        "onrecord/recording": report,
    }))
}

/// Runs blocking work on a thread of its own.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RpcError> {
    let (answer, done) = oneshot::channel();
    thread::Builder::new()
        .name("sessions".to_owned())
        .spawn(move || {
            // Dropped: whoever asked has gone.
            _ = answer.send(work());
        })
        .map_err(|_error| RpcError::internal("no thread can be started; try again later"))?;
    done.await
        .map_err(|_broken| RpcError::internal("this is a fault of the program, please report it"))
}
