//! Permission requests of a session: who may decide, what was decided, and what a late vote hears.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use jsonrpc::{Id, Request, Responder, RpcError};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use wire::{
    http::{Choice, Interaction, InteractionAction, Vote},
    limits::{PERMISSIONS_DECIDED_MAX, PERMISSIONS_OPEN_MAX},
};

use crate::{
    Caller, Error, PermissionPolicy,
    entry::{About, Entry, Held},
    times::iso,
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Permissions {
    open: VecDeque<Open>,
    decided: VecDeque<Decided>,
}

#[derive(Debug)]
struct Open {
    request_id: String,
    responder: Responder,
    asked: Asked,
    about: About,
    created_at_ms: u64,
}

#[derive(Debug)]
struct Decided {
    request_id: String,
    outcome: Value,
    prompt_id: Option<Arc<str>>,
}

/// Params of `session/request_permission`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    session_id: String,
    tool_call: Map<String, Value>,
    #[serde(default)]
    options: Vec<Value>,
}

/// The option that nobody may choose: it stands for no choice.
const CANCELLED_OPTION: &str = "__cancelled__";

/// The tool whose requests are questions.
const QUESTION_TOOL: &str = "ask_user_question";

impl Permissions {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether this request is open or was decided here.
    pub(crate) fn knows(&self, request_id: &str) -> bool {
        self.open.iter().any(|open| open.request_id == request_id)
            || self.decided(request_id).is_some()
    }

    fn decided(&self, request_id: &str) -> Option<&Decided> {
        let mut decided = self.decided.iter();
        decided.find(|decided| decided.request_id == request_id)
    }

    fn take(&mut self, request_id: &str) -> Option<Open> {
        let at = self
            .open
            .iter()
            .position(|open| open.request_id == request_id)?;
        self.open.remove(at)
    }

    /// The open request that the child names by this id.
    pub(crate) fn asked_as(&self, id: &Id) -> Option<String> {
        let open = self.open.iter().find(|open| open.responder.id() == id)?;
        Some(open.request_id.clone())
    }

    pub(crate) fn interactions(&self) -> Vec<Interaction> {
        self.open.iter().map(Open::interaction).collect()
    }

    fn remember(&mut self, decided: Decided) {
        if self.decided.len() >= PERMISSIONS_DECIDED_MAX {
            self.decided.pop_front();
        }
        self.decided.push_back(decided);
    }
}

impl Open {
    fn offers(&self, option_id: &str) -> bool {
        let mut options = self.asked.options.iter();
        option_id != CANCELLED_OPTION && options.any(|option| option["optionId"] == option_id)
    }

    fn interaction(&self) -> Interaction {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let call = &self.asked.tool_call;
        let list = |key: &str| call.get(key).cloned().unwrap_or_else(|| json!([]));
        let tool = call.get("_meta").and_then(|meta| meta.get("toolName"));
        let kind = if tool.is_some_and(|tool| tool == QUESTION_TOOL) {
            "user_question"
        } else {
            "permission"
        };
        Interaction {
            request_id: self.request_id.clone(),
            kind: kind.to_owned(),
            created_at: iso(self.created_at_ms),
            action: InteractionAction {
                kind: text(call.get("kind")).unwrap_or_else(|| "other".to_owned()),
                title: text(call.get("title")).unwrap_or_default(),
                content: list("content"),
                locations: list("locations"),
                input: call.get("rawInput").cloned().unwrap_or_default(),
            },
            options: self
                .asked
                .options
                .iter()
                .map(|option| Choice {
                    option_id: text(option.get("optionId")).unwrap_or_default(),
                    label: text(option.get("name")).unwrap_or_default(),
                    kind: text(option.get("kind")).unwrap_or_default(),
                })
                .collect(),
        }
    }
}

/// Takes in a request of the child for this session.
pub(crate) fn ask(entry: &Arc<Entry>, request: Request, wait: Option<Duration>) {
    let asked: Asked = match request.parse_params() {
        Ok(asked) => asked,
        Err(error) => {
            // It has its place; a child that is gone needs no answer.
            drop(request.responder.refuse(error));
            return;
        }
    };
    let mut held = entry.hold();
    let is_full = held.permissions.len() >= PERMISSIONS_OPEN_MAX;
    if is_full || held.phase != crate::entry::Phase::Open {
        let reason = if is_full {
            "too_many_pending"
        } else {
            "session_closed"
        };
        return answer_cancelled(request.responder, reason);
    }
    let request_id = Uuid::new_v4().to_string();
    let about = held.about_running();
    let data = json!({
        "requestId": request_id,
        "sessionId": asked.session_id,
        "toolCall": asked.tool_call,
        "options": asked.options,
    });
    let created_at_ms = (entry.now_ms)();
    held.permissions.open.push_back(Open {
        request_id: request_id.clone(),
        responder: request.responder,
        asked,
        about: about.clone(),
        created_at_ms,
    });
    held.publish("permission_request", &data, &about);
    if let Some(wait) = wait {
        let entry = Arc::clone(entry);
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            entry.hold().drop_permission(&request_id, "timeout");
        });
    }
}

/// Answers that nobody decided.
pub(crate) fn answer_cancelled(responder: Responder, reason: &str) {
    let answer = json!({
        "outcome": {"outcome": "cancelled"},
        "_meta": {"qwen.daemon.permissionCancelReason": reason},
    });
    // The answer has its place; a child that is gone needs none.
    drop(responder.respond(Ok::<_, RpcError>(answer)));
}

impl Held<'_> {
    /// Takes in a vote.
    pub(crate) fn vote(
        &mut self,
        caller: &Caller,
        request_id: &str,
        vote: Vote,
        policy: PermissionPolicy,
    ) -> Result<(), Error> {
        let Some(open) = (self.permissions.open.iter()).find(|open| open.request_id == request_id)
        else {
            self.tell_late_vote(caller, request_id);
            return Err(Error::RequestNotFound {
                session_id: Some(self.entry.id.clone()),
            });
        };
        if let Some(reason) = refusal(policy, caller, open) {
            return Err(Error::PermissionForbidden { reason });
        }
        let (outcome, extra) = match vote {
            Vote::Selected { option_id, extra } => {
                if !open.offers(&option_id) {
                    return Err(Error::InvalidOption { option_id });
                }
                let outcome = json!({"outcome": "selected", "optionId": option_id});
                (outcome, extra)
            }
            Vote::Cancelled => (json!({"outcome": "cancelled"}), None),
        };
        let mut answer: Map<String, Value> = extra
            .and_then(|extra| serde_json::from_str(extra.get()).ok())
            .unwrap_or_default();
        answer.insert("outcome".to_owned(), outcome.clone());
        if let Some(open) = self.permissions.take(request_id) {
            self.tell_resolved(&open, outcome, Some(caller));
            // The answer has its place; a child that is gone needs none.
            drop(open.responder.respond(Ok::<_, RpcError>(answer)));
        }
        Ok(())
    }

    fn tell_resolved(&mut self, open: &Open, outcome: Value, voter: Option<&Caller>) {
        let mut data = json!({"requestId": open.request_id, "outcome": outcome});
        let voter = voter.cloned().unwrap_or_default();
        if let Some(id) = &voter.client_id {
            data["voterClientId"] = json!(id);
        }
        let about = About::caller(&voter).of(open.about.prompt_id.clone());
        self.publish("permission_resolved", &data, &about);
        self.permissions.remember(Decided {
            request_id: open.request_id.clone(),
            outcome,
            prompt_id: open.about.prompt_id.clone(),
        });
    }

    fn tell_late_vote(&mut self, caller: &Caller, request_id: &str) {
        let Some(decided) = self.permissions.decided(request_id) else {
            return;
        };
        let about = About::caller(caller).of(decided.prompt_id.clone());
        let data = json!({
            "requestId": request_id,
            "sessionId": self.entry.id,
            "outcome": decided.outcome,
        });
        self.publish("permission_already_resolved", &data, &about);
    }

    /// Nobody decides about this request any more.
    pub(crate) fn drop_permission(&mut self, request_id: &str, reason: &str) {
        if let Some(open) = self.permissions.take(request_id) {
            self.tell_resolved(&open, json!({"outcome": "cancelled"}), None);
            answer_cancelled(open.responder, reason);
        }
    }

    /// Nobody decides about any request any more.
    pub(crate) fn drop_permissions(&mut self, reason: &str) {
        while let Some(open) = self.permissions.open.pop_front() {
            self.tell_resolved(&open, json!({"outcome": "cancelled"}), None);
            answer_cancelled(open.responder, reason);
        }
    }
}

/// Why this caller may not decide.
fn refusal(policy: PermissionPolicy, caller: &Caller, open: &Open) -> Option<&'static str> {
    match policy {
        PermissionPolicy::FirstResponder => None,
        PermissionPolicy::Designated => {
            let designated = open.about.originator.as_deref()?;
            (caller.client_id.as_deref() != Some(designated)).then_some("designated_mismatch")
        }
        PermissionPolicy::LocalOnly => (!caller.is_local).then_some("remote_not_allowed"),
    }
}
