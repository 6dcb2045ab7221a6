//! Who is asked about a tool call: the host on standard input and output, and the program on the
//! second output. The first answer counts.

use std::{sync::Arc, time::Duration};

use agent::{
    approval::{Approver, Decision, Question},
    feed::Feed,
    tool::Preview,
};
use futures_util::{FutureExt, future::BoxFuture};
use wire::stream_json::{
    Message,
    control::{
        Answer, Behavior, ControlCancelRequest, ControlRequest, ControlResponse, OurRequest,
        Permission, Response, Suggestion,
    },
};

use crate::{
    host::Host,
    output::line,
    questions::{Asked, Questions, Reply},
};

/// Asks.
#[derive(Debug)]
pub(crate) struct Permissions {
    pub(crate) questions: Questions,
    pub(crate) host: Option<Arc<Host>>,
    /// The second output.
    pub(crate) beside: Option<Feed>,
    /// Its program has a way to answer.
    pub(crate) beside_answers: bool,
    /// How long an answer may take where there is no host that says it.
    pub(crate) wait: Duration,
}

impl Approver for Permissions {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Decision> {
        self.decide(question).boxed()
    }
}

impl Permissions {
    async fn decide(&self, question: Question<'_>) -> Decision {
        let host = self.host.as_ref().filter(|host| host.asks());
        // Who cannot see the question any more does not answer it.
        let is_seen = self.beside.as_ref().is_some_and(Feed::is_open);
        let beside_answers = self.beside_answers && is_seen;
        if host.is_none() && !beside_answers {
            return Decision::Nobody;
        }
        let Some(asked) = self.questions.ask(beside_answers) else {
            return Decision::Unanswered("Error: too many requests wait for an answer".to_owned());
        };
        let request = line(&Message::ControlRequest(ControlRequest {
            request_id: asked.id.clone(),
            request: OurRequest::CanUseTool {
                tool_name: question.call.name.clone(),
                tool_use_id: question.call.id.clone(),
                input: question.call.args.clone(),
                permission_suggestions: suggestions(question.preview),
                blocked_path: (),
            },
        }));
        let mut open = Open {
            asked,
            host: host.map(|host| host.feed.clone()),
            beside: self.beside.clone(),
            host_answered: false,
        };
        if let Some(beside) = &self.beside {
            beside.offer_line(request.clone());
        }
        let mut wait = self.wait;
        if let Some(host) = host {
            wait = host.permission_wait();
            host.feed.send_line(request).await;
            if !host.input_is_open() {
                // Between the look and the question the input may have ended.
                self.questions.close_input(beside_answers);
            }
        }
        let reply = tokio::time::timeout(wait, open.asked.reply()).await;
        if matches!(reply, Ok(Some(Reply::Beside(_)))) {
            open.beside = None;
        }
        open.host_answered = matches!(reply, Ok(Some(Reply::Host(_) | Reply::InputClosed)));
        let decision = match reply {
            Ok(Some(Reply::Host(Ok(permission)))) => of_host(permission.get()),
            Ok(Some(Reply::Host(Err(words)))) => Decision::Unanswered(format!("Error: {words}")),
            Ok(Some(Reply::Beside(true))) => Decision::Allow,
            Ok(Some(Reply::Beside(false))) => Decision::Deny {
                reason: "Denied by the program on the second output".to_owned(),
                interrupt: false,
            },
            Ok(Some(Reply::InputClosed) | None) => {
                Decision::Unanswered("Error: Input closed".to_owned())
            }
            Err(_) => Decision::Unanswered("Error: Control request timeout".to_owned()),
        };
        open.decided(matches!(
            decision,
            Decision::Allow | Decision::AllowChanged(_)
        ));
        decision
    }
}

/// A question that is out. However it ends, nobody is left with it.
#[derive(Debug)]
struct Open {
    asked: Asked,
    host: Option<Feed>,
    beside: Option<Feed>,
    host_answered: bool,
}

impl Open {
    /// Tells the program on the second output what others decided; its own answer was answered.
    fn decided(&mut self, allowed: bool) {
        if let Some(beside) = self.beside.take() {
            beside.offer_line(line(&Message::ControlResponse(ControlResponse {
                response: Response::Success {
                    request_id: self.asked.id.clone(),
                    response: Answer::Decided { allowed },
                },
            })));
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Without a decision the turn has ended: the call does not run.
        if !self.asked.is_answered_beside() {
            self.decided(false);
        }
        if let Some(host) = self.host.as_ref().filter(|_| !self.host_answered) {
            let request_id = self.asked.id.clone();
            host.offer_line(line(&Message::ControlCancelRequest(ControlCancelRequest {
                request_id,
            })));
        }
    }
}

fn of_host(answer: &str) -> Decision {
    let permission: Permission = match serde_json::from_str(answer) {
        Ok(permission) => permission,
        Err(error) => {
            return Decision::Unanswered(format!("Error: the answer is not understood: {error}"));
        }
    };
    match (permission.behavior, permission.updated_input) {
        (Behavior::Deny, _) => Decision::Deny {
            reason: permission
                .message
                .unwrap_or_else(|| "Denied by the host".to_owned()),
            interrupt: permission.interrupt.unwrap_or(false),
        },
        (Behavior::Allow, None) => Decision::Allow,
        (Behavior::Allow, Some(input)) if input.get().starts_with('{') => {
            Decision::AllowChanged(input)
        }
        // What the host wanted to run is not known, so nothing runs.
        (Behavior::Allow, Some(_)) => {
            Decision::Unanswered("Error: updatedInput is no object".to_owned())
        }
    }
}

fn suggestions(preview: &Preview) -> Vec<Suggestion> {
    let (allow, what, deny) = match preview {
        Preview::Edit { path, .. } => {
            let name = path.file_name().unwrap_or(path.as_os_str());
            let what = format!("Edit file: {}", name.to_string_lossy());
            ("Allow Edit", what, "Block this file edit")
        }
        Preview::Command { command, .. } => (
            "Allow Command",
            format!("Execute: {command}"),
            "Block this command execution",
        ),
        Preview::Read(what) | Preview::Call(what) => {
            ("Allow Tool", what.clone(), "Block this tool call")
        }
    };
    let mut suggestions = vec![
        suggestion("allow", allow, what),
        suggestion("deny", "Deny", deny.to_owned()),
    ];
    if matches!(preview, Preview::Edit { .. }) {
        let what = "Review the proposed changes before applying".to_owned();
        suggestions.push(suggestion("modify", "Review Changes", what));
    }
    suggestions
}

fn suggestion(kind: &'static str, label: &'static str, description: String) -> Suggestion {
    Suggestion {
        r#type: kind,
        label,
        description,
    }
}
