//! What becomes of each message of a child.

use std::{collections::VecDeque, sync::Arc};

use jsonrpc::{Id, Message, Notification, Request, RpcError};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    channel::Channel,
    entry::{About, Entry, Title},
    permissions, record,
    update::{self, Addressed, Params},
    work,
    workspace::Workspace,
};

const UPDATE: &str = "session/update";

/// Takes messages in their order. Nothing here waits.
pub(crate) fn take(
    workspace: &Arc<Workspace>,
    channel: &Arc<Channel>,
    queue: &mut VecDeque<Message>,
) {
    let router = Router { workspace, channel };
    while let Some(message) = queue.front() {
        if update_of(message).is_some() {
            router.updates(queue);
            continue;
        }
        match queue.pop_front() {
            Some(Message::Request(request)) => router.request(request),
            Some(Message::Notification(notification)) => router.notification(&notification),
            None => return,
        }
    }
}

/// The params, where it is an update.
fn update_of(message: &Message) -> Option<&RawValue> {
    match message {
        Message::Notification(notification) if notification.method == UPDATE => {
            notification.params.as_deref()
        }
        Message::Notification(_) | Message::Request(_) => None,
    }
}

struct Router<'a> {
    workspace: &'a Arc<Workspace>,
    channel: &'a Arc<Channel>,
}

/// Params that name a session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    session_id: String,
}

impl Router<'_> {
    /// An open session of this child.
    fn entry(&self, id: &str) -> Option<Arc<Entry>> {
        let entry = self.workspace.sessions().live(id)?;
        Arc::ptr_eq(&entry.channel, self.channel).then_some(entry)
    }

    /// Takes a run of updates of one session: it is held once, and its subscribers are woken once.
    fn updates(&self, queue: &mut VecDeque<Message>) {
        let Some(raw) = queue.front().and_then(update_of) else {
            return;
        };
        let addressed = update::read::<Addressed<'_>>(raw);
        let Some(id) = addressed.map(|addressed| addressed.session_id.into_owned()) else {
            tracing::debug!("an update without a session is dropped");
            queue.pop_front();
            return;
        };
        let Some(entry) = self.entry(&id) else {
            if !self.keep_update(&id, raw) {
                tracing::debug!(session_id = %id, "an update of no open session is dropped");
            }
            queue.pop_front();
            return;
        };
        let mut held = entry.hold();
        while let Some(raw) = queue.front().and_then(update_of) {
            match update::read::<Params<'_>>(raw) {
                Some(params) if *params.session_id == *entry.id => {
                    held.publish_update(raw, &params);
                }
                Some(_) => return,
                None => {
                    let is_same = update::read::<Addressed<'_>>(raw)
                        .is_some_and(|other| *other.session_id == *entry.id);
                    if !is_same {
                        return;
                    }
                    tracing::debug!(session_id = %id, "a malformed update is dropped");
                }
            }
            queue.pop_front();
        }
    }

    /// Keeps an update of a session that is being restored.
    fn keep_update(&self, id: &str, raw: &RawValue) -> bool {
        #[derive(Deserialize)]
        struct Bare<'a> {
            #[serde(borrow)]
            update: &'a RawValue,
        }
        update::read::<Bare<'_>>(raw)
            .is_some_and(|bare| self.channel.early().keep_update(id, bare.update))
    }

    fn notification(&self, notification: &Notification) {
        match notification.method.as_str() {
            record::DEGRADED | record::STATE => self.record_event(notification),
            work::NOTIFICATION => {
                if let Ok(snapshot) = notification.parse_params() {
                    self.channel.work().take(snapshot);
                }
            }
            "$/cancel_request" => self.withdraw(notification),
            "qwen/notify/session/prompt-suggestion" => self.suggestion(notification),
            "qwen/notify/session/title-update" => self.title(notification),
            "qwen/notify/session/mode-update" => self.mode(notification),
            "qwen/notify/session/model-update" => self.model(notification),
            // Others are for other clients.
            _ => {}
        }
    }

    /// R16, R17: a session's record failed, or its level changed.
    fn record_event(&self, notification: &Notification) {
        let Some((id, event)) = record::read(notification) else {
            tracing::debug!(method = %notification.method, reason = "malformed", "dropped");
            return;
        };
        if let Some(entry) = self.entry(&id) {
            return entry.hold().take_record_event(event);
        }
        if self.workspace.sessions().live(&id).is_some() {
            tracing::debug!(session_id = %id, reason = "session_not_owned", "dropped");
            return;
        }
        let kept = self.channel.early().keep(&id, event);
        self.workspace.count_early(kept.is_ok());
        if let Err(reason) = kept {
            tracing::debug!(session_id = %id, ?reason, "an early event is dropped");
        }
    }

    fn withdraw(&self, notification: &Notification) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Withdrawn {
            request_id: Box<RawValue>,
        }
        let withdrawn = notification.parse_params::<Withdrawn>().ok();
        let Some(id) = withdrawn.and_then(|withdrawn| Id::read(&withdrawn.request_id)) else {
            return;
        };
        for entry in self.workspace.entries_of(self.channel) {
            let mut held = entry.hold();
            if let Some(request_id) = held.permissions.asked_as(&id) {
                return held.drop_permission(&request_id, "agent_cancelled");
            }
        }
        self.channel.peer.cancel(&id);
    }

    /// Reads what names an open session.
    fn about<T: serde::de::DeserializeOwned>(
        &self,
        notification: &Notification,
    ) -> Option<(Arc<Entry>, T)> {
        let named: Named = notification.parse_params().ok()?;
        Some((
            self.entry(&named.session_id)?,
            notification.parse_params().ok()?,
        ))
    }

    fn suggestion(&self, notification: &Notification) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Suggested {
            suggestion: String,
            prompt_id: Option<String>,
        }
        if let Some((entry, suggested)) = self.about::<Suggested>(notification) {
            let mut data = json!({"sessionId": entry.id, "suggestion": suggested.suggestion});
            if let Some(prompt_id) = suggested.prompt_id {
                data["promptId"] = json!(prompt_id);
            }
            entry
                .hold()
                .publish("followup_suggestion", &data, &About::default());
        }
    }

    fn title(&self, notification: &Notification) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Titled {
            title: String,
            title_source: Option<String>,
        }
        if let Some((entry, titled)) = self.about::<Titled>(notification) {
            let source = titled.title_source.unwrap_or_else(|| "auto".to_owned());
            let title = Title {
                text: titled.title,
                source: Some(source),
            };
            let mut held = entry.hold();
            if held.title.as_ref() != Some(&title) {
                held.set_title(title, None, &About::default());
            }
        }
    }

    fn mode(&self, notification: &Notification) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Changed {
            current_mode_id: String,
        }
        if let Some((entry, changed)) = self.about::<Changed>(notification) {
            let previous = entry.view().current_approval_mode;
            if previous.as_deref() != Some(&changed.current_mode_id) {
                let mut held = entry.hold();
                let about = held.about_running().of(None);
                held.tell_mode(previous.as_deref(), &changed.current_mode_id, &about);
            }
        }
    }

    fn model(&self, notification: &Notification) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Changed {
            current_model_id: String,
        }
        if let Some((entry, changed)) = self.about::<Changed>(notification)
            && entry.view().current_model_id.as_deref() != Some(&changed.current_model_id)
        {
            let data = json!({"sessionId": entry.id, "modelId": changed.current_model_id});
            entry
                .hold()
                .publish("model_switched", &data, &About::default());
        }
    }

    fn request(&self, request: Request) {
        match request.method.as_str() {
            "session/request_permission" => self.permission(request),
            "craft/drainMidTurnQueue" => {
                let named = request.parse_params::<Named>().ok();
                let entry = named.and_then(|named| self.entry(&named.session_id));
                let has_waiting = entry.is_some_and(|entry| entry.hold().prompts.has_waiting());
                answer(
                    request,
                    Ok(json!({"messages": [], "items": [], "hasQueuedPrompt": has_waiting})),
                );
            }
            // Files too: an agent works on the disk itself, as it was told at the start.
            _ => {
                let error = RpcError::method_not_found(&request.method);
                answer(request, Err(error));
            }
        }
    }

    fn permission(&self, request: Request) {
        let named = request.parse_params::<Named>().ok();
        let entry = named.and_then(|named| self.entry(&named.session_id));
        match entry {
            Some(entry) => {
                permissions::ask(&entry, request, self.workspace.options.permission_wait);
            }
            None => permissions::answer_cancelled(request.responder, "session_not_found"),
        }
    }
}

fn answer(request: Request, result: Result<Value, RpcError>) {
    // The answer has its place; a child that is gone needs none.
    drop(request.responder.respond(result));
}
