//! `onrecord remote watch`: what happens in a session, as it is settled.

use std::collections::HashSet;

use sdk::{
    follow::{Change, Options},
    normalize::{Notice, Status, view},
};
use serde_json::{Value, json};
use wire::{
    event::Role,
    state::{Item, Permission, Session},
};

use super::{Remote, print, print_json, told};
use crate::{exit::Exit, resolve::Refusal, stdio};

pub(super) async fn run(remote: &Remote, id: &str) -> Result<Exit, Refusal> {
    let mut follow = remote.client.follow(id, Options::default());
    let mut watched = Watched {
        json: remote.json,
        ..Watched::default()
    };
    loop {
        let changed = tokio::select! {
            changed = follow.next() => changed.map_err(|error| told(&error))?,
            () = remote.end.cancelled() => break,
        };
        match &changed {
            Some(Change::Invalid(invalid)) => {
                stdio::say(&format!(
                    "onrecord: a frame of the daemon is not understood: {invalid}"
                ));
            }
            Some(Change::Disconnected) => {
                stdio::say("onrecord: the daemon is gone; it is tried again");
            }
            Some(Change::Connected | Change::Session) | None => {}
        }
        watched.tell(follow.session())?;
        if changed.is_none() {
            return leave(remote, id, follow.client_id(), Exit::Success).await;
        }
    }
    leave(remote, id, follow.client_id(), remote.ended()).await
}

async fn leave(
    remote: &Remote,
    id: &str,
    client: Option<&str>,
    exit: Exit,
) -> Result<Exit, Refusal> {
    if client.is_some() {
        // Dropped: a session or daemon that is gone was left as well.
        _ = remote.client.detach(id, client).await;
    }
    Ok(exit)
}

/// What was told of a session.
#[derive(Debug, Default)]
struct Watched {
    json: bool,
    head: Value,
    /// Each part of the conversation, as it was told.
    items: Vec<Item>,
    questions: HashSet<String>,
    notices: HashSet<String>,
}

impl Watched {
    /// Tells what is new. A message is told when it is whole, a tool call whenever its status changes.
    fn tell(&mut self, session: &Session) -> Result<(), Refusal> {
        let view = view(session);
        if session.is_resync_pending {
            return Ok(());
        }
        for notice in &view.notices {
            if self.notices.insert(notice.id.clone()) {
                self.tell_notice(notice)?;
            }
        }
        let is_settled = !matches!(view.status, Status::Running | Status::Waiting);
        let n_items = view.items.len();
        for (at, item) in view
            .items
            .iter()
            .enumerate()
            .skip(self.unchanged(view.items))
        {
            let is_whole = is_settled || at + 1 < n_items;
            self.tell_item(at, item, is_whole)?;
        }
        self.items.truncate(n_items);
        self.questions
            .retain(|id| view.permissions.iter().any(|open| open.request_id == *id));
        for question in view.permissions {
            if self.questions.insert(question.request_id.clone()) {
                self.tell_question(question)?;
            }
        }
        let mut head =
            json!({"type": "session", "sessionId": view.session_id, "status": view.status});
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                head[name] = value;
            }
        };
        put("title", json!(view.title));
        put("model", json!(view.model));
        put("approvalMode", json!(view.approval_mode));
        put("queued", json!(view.queue.len()));
        put("recording", json!(view.recording));
        if head != self.head {
            if self.json {
                print_json(&head)?;
            }
            self.head = head;
        }
        Ok(())
    }

    /// How many parts at the beginning were told and cannot have changed: all but the tool calls that are open,
    /// which are seldom far from the end.
    fn unchanged(&self, items: &[Item]) -> usize {
        let n_told = self.items.len().min(items.len());
        let is_open = |item: &Item| match item {
            Item::Tool(call) => !matches!(call.status.as_str(), "completed" | "failed"),
            Item::Message(_) => false,
        };
        self.items
            .iter()
            .take(n_told)
            .position(is_open)
            .unwrap_or(n_told)
    }

    fn tell_item(&mut self, at: usize, item: &Item, is_whole: bool) -> Result<(), Refusal> {
        let is_new = match (self.items.get(at), item) {
            (None, Item::Message(_)) => is_whole,
            (None, Item::Tool(_)) => true,
            (Some(Item::Tool(before)), Item::Tool(now)) => before.status != now.status,
            (Some(before), now) => before != now,
        };
        // What is told stands in order: nothing is told before what comes before it.
        if !is_new || at > self.items.len() {
            return Ok(());
        }
        if self.json {
            print_json(&json!({"type": "item", "index": at, "item": item}))?;
        } else {
            print(&text_of(item))?;
        }
        match self.items.get_mut(at) {
            Some(known) => *known = item.clone(),
            None => self.items.push(item.clone()),
        }
        Ok(())
    }

    fn tell_question(&self, question: &Permission) -> Result<(), Refusal> {
        if self.json {
            return print_json(&json!({"type": "permission", "permission": question}));
        }
        print(&format!("? {}\n", question.tool_call.title))
    }

    fn tell_notice(&self, notice: &Notice) -> Result<(), Refusal> {
        if self.json {
            return print_json(&json!({"type": "notice", "notice": notice}));
        }
        stdio::say(&format!("{}: {}", notice.severity, notice.message));
        Ok(())
    }
}

/// A part of the conversation for a terminal.
fn text_of(item: &Item) -> String {
    match item {
        Item::Message(message) => match message.role {
            Role::User => format!("> {}\n", message.text),
            Role::Agent => format!("{}\n", message.text),
            Role::Thought => format!("~ {}\n", message.text),
        },
        Item::Tool(call) => format!("* {} ({})\n", call.title, call.status),
    }
}
