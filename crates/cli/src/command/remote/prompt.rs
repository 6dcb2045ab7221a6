//! `onrecord remote prompt`: one turn in a daemon, from its prompt to its end.

use std::future::pending;

use sdk::follow::{Change, Follow, Options};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use wire::{
    event::Role,
    http::Accepted,
    limits::REMOTE_GONE_MAX,
    recording::RecordingState,
    state::{EndedTurn, Item, Permission, Session, SessionState},
    words,
};

use super::{Remote, print, print_json, say_degraded, told};
use crate::{args::RemotePromptArgs, exit::Exit, resolve::Refusal, stdio};

pub(super) async fn run(remote: &Remote, args: &RemotePromptArgs) -> Result<Exit, Refusal> {
    let opening = async {
        match &args.session {
            Some(id) => Ok((id.clone(), None)),
            None => {
                let mode = args.approval_mode.map(|mode| mode.mode().as_str());
                let opened = remote.client.create(mode).await?;
                Ok((opened.session_id, Some(opened.client_id)))
            }
        }
    };
    let (id, creator) = tokio::select! {
        opened = opening => opened.map_err(|error| told(&error))?,
        () = remote.end.cancelled() => return Ok(remote.ended()),
    };
    let mut turn = Turn {
        remote,
        follow: remote.client.follow(&id, Options::default()),
        waits_for_votes: args.wait_for_votes,
        accepted: None,
        told: Told::default(),
        gone_at: None,
    };
    let ended = turn.run(&args.text).await;
    let told = match ended {
        Ok(exit) => turn.tell_end(exit, args.require_recording).await,
        Err(refusal) => Err(refusal),
    };
    turn.leave(&id, creator.as_deref()).await;
    told
}

/// A turn that is followed to its end.
struct Turn<'a> {
    remote: &'a Remote,
    follow: Follow,
    waits_for_votes: bool,
    /// Present once the prompt is taken.
    accepted: Option<Accepted>,
    told: Told,
    /// When the daemon went away; absent while it is there.
    gone_at: Option<Instant>,
}

/// What the person knows already.
#[derive(Debug, Default)]
struct Told {
    /// The item whose text is being printed, and how much of it is.
    item: usize,
    bytes: usize,
    /// Whether anything was printed, and whether it ended a line.
    has_begun: bool,
    ends_line: bool,
    is_degraded: bool,
    /// Questions that were refused, or left to others.
    questions: Vec<String>,
}

impl Turn<'_> {
    async fn run(&mut self, text: &str) -> Result<Exit, Refusal> {
        loop {
            let gone_at = self.gone_at;
            let given_up = async {
                match gone_at {
                    Some(at) => sleep_until(at + REMOTE_GONE_MAX).await,
                    None => pending().await,
                }
            };
            let changed = tokio::select! {
                changed = self.follow.next() => changed.map_err(|error| told(&error))?,
                () = self.remote.end.cancelled() => return self.cancelled().await,
                () = given_up => return Err(told_gone()),
            };
            match &changed {
                Some(Change::Disconnected) => self.gone_at = Some(Instant::now()),
                Some(Change::Connected | Change::Session) => self.gone_at = None,
                Some(Change::Invalid(invalid)) => {
                    stdio::say(&format!(
                        "onrecord: a frame of the daemon is not understood: {invalid}"
                    ));
                }
                None => {}
            }
            self.tell_record();
            // The first look at a session comes with its stream.
            let is_ready = matches!(changed, Some(Change::Connected | Change::Session));
            let is_ready = is_ready && self.accepted.is_none();
            if is_ready {
                self.told.item = self.follow.session().items.len();
                let session = &self.follow.session().session_id;
                let accepted = self
                    .remote
                    .client
                    .prompt(session, self.follow.client_id(), text);
                self.accepted = Some(accepted.await.map_err(|error| told(&error))?);
            }
            self.answer_questions().await;
            if !self.remote.json {
                self.print_more()?;
            }
            if let Some(exit) = self.ended(changed.is_none())? {
                return Ok(exit);
            }
        }
    }

    /// What is printed while the turn goes on: the words of the model, as they come.
    fn print_more(&mut self) -> Result<(), Refusal> {
        let Some(accepted) = &self.accepted else {
            return Ok(());
        };
        let session = self.follow.session();
        while let Some(item) = session.items.get(self.told.item) {
            if let Item::Message(message) = item
                && message.role == Role::Agent
                && is_of(message.prompt_id.as_ref(), accepted)
            {
                let more = message.text.get(self.told.bytes..).unwrap_or_default();
                if !more.is_empty() {
                    if self.told.bytes == 0 && self.told.has_begun {
                        print(if self.told.ends_line { "\n" } else { "\n\n" })?;
                    }
                    print(more)?;
                    self.told.has_begun = true;
                    self.told.ends_line = more.ends_with('\n');
                    self.told.bytes = message.text.len();
                }
            }
            if self.told.item + 1 >= session.items.len() {
                break;
            }
            self.told.item += 1;
            self.told.bytes = 0;
        }
        Ok(())
    }

    /// Says once that the record failed.
    fn tell_record(&mut self) {
        let is_degraded = self.follow.session().current.recording_degraded;
        if is_degraded && !self.told.is_degraded {
            self.told.is_degraded = true;
            say_degraded();
        }
    }

    /// Nobody sits here who could be asked: what would ask is refused, as in a headless run.
    async fn answer_questions(&mut self) {
        if self.accepted.is_none() {
            return;
        }
        let session = self.follow.session();
        let is_new = |question: &&Permission| !self.told.questions.contains(&question.request_id);
        let open: Vec<(String, String, Option<String>)> = session
            .permissions
            .iter()
            .filter(is_new)
            .map(|question| {
                let refusing = question
                    .options
                    .iter()
                    .find(|option| option.kind == "reject_once");
                let option = refusing.map(|option| option.option_id.clone());
                (
                    question.request_id.clone(),
                    question.tool_call.title.clone(),
                    option,
                )
            })
            .collect();
        let id = session.session_id.clone();
        for (request, title, option) in open {
            if self.waits_for_votes {
                stdio::say(&format!(
                    "onrecord: waits for another client to allow: {title}"
                ));
            } else {
                stdio::say(&format!(
                    "onrecord: refused, as nobody can be asked here: {title} (--wait-for-votes leaves it to others)"
                ));
                let vote = self.remote.client.vote(
                    &id,
                    self.follow.client_id(),
                    &request,
                    option.as_deref(),
                );
                // Dropped: somebody else was faster, or the stream will tell what became of it.
                _ = vote.await;
            }
            self.told.questions.push(request);
        }
    }

    /// How the turn ended; `None` while it goes on.
    fn ended(&self, is_over: bool) -> Result<Option<Exit>, Refusal> {
        let Some(accepted) = &self.accepted else {
            return match is_over {
                true => Err(Refusal::usage("the session ended before it was prompted")),
                false => Ok(None),
            };
        };
        let session = self.follow.session();
        let ended = session.last_turn.as_ref();
        if let Some(turn) = ended.filter(|turn| turn.prompt_id == accepted.prompt_id) {
            return self.finish(turn).map(Some);
        }
        if let Some(ending) = &session.ending {
            return Err(Refusal::usage(format!(
                "the session ended before its answer was whole: {}",
                ending.reason
            )));
        }
        // A daemon that started anew does not know the turn any more.
        let is_another = session
            .epoch
            .as_ref()
            .is_some_and(|epoch| *epoch != accepted.event_epoch);
        if is_another && !session.is_resync_pending && session.running.is_none() {
            return Err(Refusal::usage(format!(
                "the daemon started anew before the answer was whole; `onrecord remote watch {}` shows what is saved",
                session.session_id
            )));
        }
        Ok(None)
    }

    /// Says how it ended, with the record as it stands then: its level is no event.
    async fn tell_end(&mut self, exit: Exit, requires_record: bool) -> Result<Exit, Refusal> {
        let session = self.follow.session();
        let mut current = session.current.clone();
        if let Ok(status) = self.remote.client.status(&session.session_id).await {
            current.recording_degraded |= status["recordingDegraded"] == true;
            let state = RecordingState::deserialize(&status["recordingState"]).ok();
            current.recording_state = state.or(current.recording_state);
        }
        if self.remote.json
            && let Some(turn) = &session.last_turn
            && self.accepted.is_some()
        {
            print_json(&result(session, turn, &current))?;
        }
        let never_started = current.recording_state == Some(RecordingState::NeverStarted);
        if never_started {
            stdio::say(words::NEVER_STARTED_LINE);
        }
        let is_lost = current.recording_degraded || never_started;
        Ok(if requires_record && is_lost {
            exit.with_lost_record()
        } else {
            exit
        })
    }

    fn finish(&self, turn: &EndedTurn) -> Result<Exit, Refusal> {
        if !self.remote.json && self.told.has_begun && !self.told.ends_line {
            print("\n")?;
        }
        if let Some(failure) = &turn.failure {
            stdio::say(&format!("onrecord: the turn failed: {}", failure.message));
            return Ok(Exit::Failure);
        }
        Ok(match turn.stop_reason.as_deref() {
            Some("cancelled") => Exit::Cancelled,
            Some("max_turn_requests") => Exit::TurnLimit,
            _ => Exit::Success,
        })
    }

    /// The person wants it to end: so does the turn.
    async fn cancelled(&self) -> Result<Exit, Refusal> {
        if self.accepted.is_some() {
            let id = &self.follow.session().session_id;
            // Dropped: it may be over, or the daemon gone; either way we leave.
            _ = self.remote.client.cancel(id, self.follow.client_id()).await;
        }
        Ok(self.remote.ended())
    }

    /// Leaves the session; one that nobody else is in is closed, and its record whole.
    async fn leave(&self, id: &str, creator: Option<&str>) {
        for client in [self.follow.client_id(), creator].into_iter().flatten() {
            // Dropped: a daemon that is gone, or forgot us, was left as well.
            _ = self.remote.client.detach(id, Some(client)).await;
        }
    }
}

fn told_gone() -> Refusal {
    Refusal::usage(format!(
        "the daemon cannot be reached any more, for {} s; the turn may go on there",
        REMOTE_GONE_MAX.as_secs()
    ))
}

/// Whether a message belongs to a prompt. Agents that name no prompt are believed.
fn is_of(prompt: Option<&String>, accepted: &Accepted) -> bool {
    prompt.is_none_or(|prompt| *prompt == accepted.prompt_id)
}

/// The outcome of a turn as an object.
fn result(session: &Session, turn: &EndedTurn, current: &SessionState) -> Value {
    let is_ours = |prompt: &Option<String>| prompt.as_deref() == Some(&turn.prompt_id);
    let text: Vec<&str> = session
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Message(message)
                if message.role == Role::Agent && is_ours(&message.prompt_id) =>
            {
                Some(message.text.as_str())
            }
            Item::Message(_) | Item::Tool(_) => None,
        })
        .collect();
    let mut recording = json!({"degraded": current.recording_degraded});
    if let Some(state) = current.recording_state {
        recording["state"] = json!(state);
    }
    let mut result = json!({
        "type": "result",
        "sessionId": session.session_id,
        "promptId": turn.prompt_id,
        "isError": turn.failure.is_some(),
        "text": text.join("\n\n"),
        "recording": recording,
    });
    if let Some(reason) = &turn.stop_reason {
        result["stopReason"] = json!(reason);
    }
    if let Some(failure) = &turn.failure {
        result["error"] = json!(failure);
    }
    result
}
