//! The official crate `agent-client-protocol`, as a client in this process: the same scenarios and lines
//! as those of the other SDKs (`testkit/peers/acp.mjs`).

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

use agent_client_protocol::{
    Agent, ByteStreams, Client, Error, Result, UntypedMessage, on_receive_notification,
    on_receive_request,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo,
        schema::{
            CancelNotification, ContentBlock, InitializeRequest, ListSessionsRequest,
            LoadSessionRequest, NewSessionRequest, PromptRequest, RequestPermissionOutcome,
            RequestPermissionRequest, RequestPermissionResponse, ResumeSessionRequest,
            SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate,
            SetSessionConfigOptionRequest, SetSessionModeRequest, TextContent,
        },
    },
};
use serde::Serialize;
use serde_json::{Value, json};
use testkit::{driven::WAIT_MAX, run::Outcome};
use tokio::{io::AsyncReadExt, sync::Notify};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

/// Plays a scenario with the agent that `command` starts; its lines are the standard output.
pub(super) fn drive(command: Command, scenario: &str, args: &Value) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let scenario = Scenario {
        name: scenario.to_owned(),
        args: args.clone(),
        said: Said::default(),
    };
    let playing = async {
        let played = tokio::time::timeout(WAIT_MAX, play(command, &scenario));
        played.await.expect("the scenario ends in time")
    };
    runtime.block_on(playing)
}

/// What a client's user sees. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<String>>);

impl Said {
    fn say(&self, name: &str, what: &impl Serialize) {
        let line = json!({name: what});
        *self.0.lock().unwrap() += &format!("{line}\n");
    }
}

struct Scenario {
    name: String,
    args: Value,
    said: Said,
}

async fn play(command: Command, scenario: &Scenario) -> Outcome {
    let mut child = tokio::process::Command::from(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap().compat_write();
    let output = child.stdout.take().unwrap().compat();
    let mut stderr = child.stderr.take().unwrap();
    let stderr = tokio::spawn(async move {
        let mut text = String::new();
        // Dropped: what came before a broken pipe is what there is.
        _ = stderr.read_to_string(&mut text).await;
        text
    });

    let ended = scenario.converse(ByteStreams::new(input, output)).await;
    let status = child.wait().await.unwrap();
    let error = match ended {
        Ok(()) if status.success() => None,
        Ok(()) => Some(format!("the agent ended with {status}")),
        Err(error) => Some(format!("{error}")),
    };
    let end = json!({"done": true, "error": error});
    let said = scenario.said.0.lock().unwrap().clone();
    Outcome {
        code: 0,
        stdout: format!("{said}{end}\n"),
        stderr: stderr.await.unwrap(),
    }
}

type Transport = ByteStreams<
    tokio_util::compat::Compat<tokio::process::ChildStdin>,
    tokio_util::compat::Compat<tokio::process::ChildStdout>,
>;

impl Scenario {
    async fn converse(&self, transport: Transport) -> Result<()> {
        // The first part of an answer is where the user loses patience.
        let part = Arc::new(Notify::new());
        let (asked, heard, curious) = (self.said.clone(), self.said.clone(), self.said.clone());
        let (on_question, on_part) = (Arc::clone(&part), Arc::clone(&part));
        let answer = self.args["answer"].clone();
        // To drop what answers a request is to answer it.
        let mut unanswered = Vec::new();
        let client = Client
            .v1()
            .on_receive_request(
                async move |request: RequestPermissionRequest, responder, _agent| {
                    asked.say("asked", &request);
                    if answer == "never" {
                        unanswered.push(responder);
                        on_question.notify_one();
                        return Ok(());
                    }
                    responder.respond(decide(&request, &answer))
                },
                on_receive_request!(),
            )
            .on_receive_notification(
                async move |update: SessionNotification, _agent| {
                    heard.say("update", &update);
                    if matches!(update.update, SessionUpdate::AgentMessageChunk(_)) {
                        on_part.notify_one();
                    }
                    Ok(())
                },
                on_receive_notification!(),
            );
        let main = async |agent: ConnectionTo<Agent>| self.main(&agent, &part).await;
        if self.args["plain"] == true {
            return client.connect_with(transport, main).await;
        }
        client
            .on_receive_notification(
                async move |notified: UntypedMessage, _agent| {
                    curious.say("notified", &notified);
                    Ok(())
                },
                on_receive_notification!(),
            )
            .connect_with(transport, main)
            .await
    }

    async fn main(&self, agent: &ConnectionTo<Agent>, part: &Notify) -> Result<()> {
        let hello = InitializeRequest::new(ProtocolVersion::V1);
        let initialized = agent.send_request(hello).block_task().await?;
        self.said.say("initialized", &initialized);
        let session = self.open(agent).await?;
        if self.name == "settings" {
            self.change_settings(agent, &session).await?;
        }
        let mut cancels = self.name == "cancel" || self.name == "withdraw";
        for text in self.args["prompts"].as_array().unwrap() {
            let text = TextContent::new(text.as_str().unwrap());
            let prompt = PromptRequest::new(session.clone(), vec![ContentBlock::Text(text)]);
            let answered = agent.send_request(prompt);
            if std::mem::take(&mut cancels) {
                if self.args["hasty"] != true {
                    part.notified().await;
                }
                if self.name == "cancel" {
                    agent.send_notification(CancelNotification::new(session.clone()))?;
                } else {
                    answered.cancellation_handle().cancel()?;
                }
                self.said.say("cancelled", &true);
            }
            self.said.say("answer", &answered.block_task().await?);
        }
        if self.name == "settings" {
            let list = ListSessionsRequest::new().cwd(self.cwd());
            let listed = agent.send_request(list).block_task().await?;
            self.said.say("listed", &listed);
        }
        Ok(())
    }

    fn cwd(&self) -> PathBuf {
        self.args["cwd"].as_str().unwrap().into()
    }

    async fn open(&self, agent: &ConnectionTo<Agent>) -> Result<SessionId> {
        let stored = || SessionId::new(self.args["sessionId"].as_str().unwrap());
        match self.name.as_str() {
            "load" => {
                let load = LoadSessionRequest::new(stored(), self.cwd());
                let opened = agent.send_request(load).block_task().await?;
                self.said.say("opened", &opened);
                Ok(stored())
            }
            "resume" => {
                let resume = ResumeSessionRequest::new(stored(), self.cwd());
                let opened = agent.send_request(resume).block_task().await?;
                self.said.say("opened", &opened);
                Ok(stored())
            }
            _ => {
                let new = NewSessionRequest::new(self.cwd());
                let opened = agent.send_request(new).block_task().await?;
                self.said.say("opened", &opened);
                Ok(opened.session_id)
            }
        }
    }

    async fn change_settings(
        &self,
        agent: &ConnectionTo<Agent>,
        session: &SessionId,
    ) -> Result<()> {
        let mode = self.args["mode"].as_str().unwrap().to_owned();
        let change = SetSessionModeRequest::new(session.clone(), mode);
        let set = agent.send_request(change).block_task().await?;
        self.said.say("set", &set);
        for (id, value) in self.args["options"].as_object().unwrap() {
            let value = value.as_str().ok_or_else(Error::invalid_params)?;
            let change = SetSessionConfigOptionRequest::new(session.clone(), id.clone(), value);
            let set = agent.send_request(change).block_task().await?;
            self.said.say("set", &set);
        }
        Ok(())
    }
}

/// The option of the wished kind.
fn decide(request: &RequestPermissionRequest, kind: &Value) -> RequestPermissionResponse {
    let is_wished = |known: &Value| known == kind;
    let mut options = request.options.iter();
    let option = options.find(|option| is_wished(&json!(option.kind)));
    RequestPermissionResponse::new(match option {
        Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
            option.option_id.clone(),
        )),
        None => RequestPermissionOutcome::Cancelled,
    })
}
