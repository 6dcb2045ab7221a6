//! How a client is asked about a tool call.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use agent::{
    approval::{Approver, Decision, Guard, Question},
    message::ToolCall,
};
use futures_util::{FutureExt, future::BoxFuture};
use jsonrpc::{Peer, RequestError};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use wire::limits::{GUARD_REASON_BYTES_MAX, HOST_ANSWER_WAIT_MAX};

use crate::to_acp::asked_about;

/// Asks the client in one session.
#[derive(Debug)]
pub(crate) struct ClientAsked {
    peer: Peer,
    session_id: Arc<str>,
    root: PathBuf,
    /// Tools that the person allowed for the rest of the session.
    always: Mutex<BTreeSet<String>>,
}

#[derive(Deserialize)]
struct Answer {
    outcome: Outcome,
}

#[derive(Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
enum Outcome {
    #[serde(rename_all = "camelCase")]
    Selected {
        option_id: String,
    },
    Cancelled,
}

const ONCE: &str = "proceed_once";
const ALWAYS: &str = "proceed_always";
const NO: &str = "cancel";

impl ClientAsked {
    pub(crate) fn new(peer: Peer, session_id: &str, root: PathBuf) -> Self {
        Self {
            peer,
            session_id: session_id.into(),
            root,
            always: Mutex::default(),
        }
    }

    fn always(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.always.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn decide(&self, question: Question<'_>) -> Decision {
        if self.always().contains(&question.call.name) {
            return Decision::Allow;
        }
        let answer = self
            .peer
            .request(
                "session/request_permission",
                &json!({
                    "sessionId": self.session_id,
                    "toolCall": asked_about(question.call, question.preview, &self.root),
                    "options": [
                        {"optionId": ONCE, "name": "Allow", "kind": "allow_once"},
                        {
                            "optionId": ALWAYS,
                            "name": format!("Always allow {} in this session", question.call.name),
                            "kind": "allow_always",
                        },
                        {"optionId": NO, "name": "Reject", "kind": "reject_once"},
                    ],
                }),
            )
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error @ RequestError::Closed(_)) => {
                gone().await;
                return Decision::Unanswered(format!("Error: {error}"));
            }
            Err(error) => return Decision::Unanswered(format!("Error: {error}")),
        };
        match serde_json::from_str::<Answer>(answer.get()) {
            Ok(Answer {
                outcome: Outcome::Selected { option_id },
            }) => match option_id.as_str() {
                ONCE => Decision::Allow,
                ALWAYS => {
                    self.always().insert(question.call.name.clone());
                    Decision::Allow
                }
                _ => Decision::Deny {
                    reason: "The person rejected the call.".to_owned(),
                    interrupt: false,
                },
            },
            Ok(Answer {
                outcome: Outcome::Cancelled,
            }) => Decision::Unanswered("The request was cancelled.".to_owned()),
            Err(error) => {
                Decision::Unanswered(format!("Error: the answer is not understood: {error}"))
            }
        }
    }
}

impl Approver for ClientAsked {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Decision> {
        self.decide(question).boxed()
    }
}

/// A client that is gone answers as one that is silent: the turn is about to be cancelled, and should
/// not go on to the model meanwhile.
async fn gone() {
    tokio::time::sleep(HOST_ANSWER_WAIT_MAX).await;
}

/// Asks the parent about every call, as it demands at the start.
#[derive(Debug)]
pub(crate) struct ParentAsked {
    peer: Peer,
    session_id: Arc<str>,
    cwd: String,
    /// The daemon's id of the prompt that runs.
    prompt_id: Arc<Mutex<Option<String>>>,
}

#[derive(Deserialize)]
struct Prepared {
    allowed: bool,
    reason: Option<String>,
}

impl ParentAsked {
    pub(crate) fn new(
        peer: Peer,
        session_id: &str,
        cwd: String,
        prompt_id: Arc<Mutex<Option<String>>>,
    ) -> Self {
        Self {
            peer,
            session_id: session_id.into(),
            cwd,
            prompt_id,
        }
    }
}

impl Guard for ParentAsked {
    fn prepare<'a>(
        &'a self,
        call: &'a ToolCall,
        args: &'a RawValue,
    ) -> BoxFuture<'a, Result<(), String>> {
        const FAILED: &str =
            "The call was not run: the program around this agent did not allow it.";
        async move {
            let mut params = json!({
                "sessionId": self.session_id,
                "toolCallId": call.id,
                "toolName": call.name,
                "arguments": serde_json::from_str::<Value>(args.get()).unwrap_or_default(),
                "invocationCwd": self.cwd,
            });
            let prompt_id = self
                .prompt_id
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            if let Some(prompt_id) = prompt_id {
                params["promptId"] = json!(prompt_id);
            }
            let answer = self
                .peer
                .request("qwen/control/external_tool_guard/prepare", &params)
                .within(HOST_ANSWER_WAIT_MAX)
                .await;
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    if matches!(error, RequestError::Closed(_)) {
                        gone().await;
                    }
                    return Err(FAILED.to_owned());
                }
            };
            match serde_json::from_str::<Prepared>(answer.get()) {
                Ok(Prepared { allowed: true, .. }) => Ok(()),
                Ok(Prepared { reason, .. }) => {
                    let reason = reason.unwrap_or_else(|| FAILED.to_owned());
                    Err(agent::tool::cut::middle(&reason, GUARD_REASON_BYTES_MAX).into_owned())
                }
                Err(_) => Err(FAILED.to_owned()),
            }
        }
        .boxed()
    }
}
