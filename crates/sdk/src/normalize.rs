//! What a session means to a person (R24): pure, and the same in both languages.

use serde::Serialize;
use wire::{
    event::{Command, PlanEntry, Usage},
    recording::RecordingState,
    state::{Item, Permission, Queued, Session},
    words,
};

/// What is shown of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View<'a> {
    /// Its id.
    pub session_id: &'a str,
    /// Its name; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    /// What goes on.
    pub status: Status,
    /// Who answers; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// What runs unasked; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_mode: Option<&'a str>,
    /// The conversation, oldest first.
    pub items: &'a [Item],
    /// The plan of now.
    pub plan: &'a [PlanEntry],
    /// Open questions.
    pub permissions: &'a [Permission],
    /// Prompts that wait.
    pub queue: &'a [Queued],
    /// Tokens of the last model call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Slash commands.
    pub commands: &'a [Command],
    /// What a person is told beside the conversation.
    pub notices: Vec<Notice>,
    /// The record, as a lasting mark.
    pub recording: Recording,
}

/// What goes on in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing.
    Idle,
    /// A turn.
    Running,
    /// A turn waits for a person.
    Waiting,
    /// What is shown is not whole; it is being loaded.
    Resyncing,
    /// It is over.
    Ended,
}

/// Something that a person is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The same for the same thing, however it became known (R24, R25).
    pub id: String,
    /// `recording_degraded`, `turn_failed` or `session_ended`.
    pub kind: &'static str,
    /// `error`, `warning` or `info`.
    pub severity: &'static str,
    /// Whether work can go on.
    pub recoverable: bool,
    /// In words.
    pub message: String,
    /// What the person can do; absent where there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<&'static str>,
}

/// The record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Recording {
    /// Whether it failed.
    pub degraded: bool,
    /// Its level; absent where nobody told it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<RecordingState>,
}

/// The id of the notice about a session's record (R25).
#[must_use]
pub fn recording_notice_id(session_id: &str) -> String {
    format!("daemon.session_recording_degraded:{session_id}")
}

/// What is shown of a session.
#[must_use]
pub fn view(session: &Session) -> View<'_> {
    let current = &session.current;
    View {
        session_id: &session.session_id,
        title: session.title.as_deref(),
        status: status(session),
        model: current.current_model_id.as_deref(),
        approval_mode: current.current_approval_mode.as_deref(),
        items: &session.items,
        plan: &session.plan,
        permissions: &session.permissions,
        queue: &session.queue,
        usage: session.usage,
        commands: &session.commands,
        notices: notices(session),
        recording: Recording {
            degraded: current.recording_degraded,
            state: current.recording_state,
        },
    }
}

fn status(session: &Session) -> Status {
    if session.ending.is_some() {
        Status::Ended
    } else if session.is_resync_pending {
        Status::Resyncing
    } else if !session.permissions.is_empty() {
        Status::Waiting
    } else if session.running.is_some() {
        Status::Running
    } else {
        Status::Idle
    }
}

fn notices(session: &Session) -> Vec<Notice> {
    let mut notices = Vec::new();
    if session.current.recording_degraded && !session.is_notice_dismissed {
        notices.push(Notice {
            id: recording_notice_id(&session.session_id),
            kind: "recording_degraded",
            severity: "error",
            recoverable: true,
            message: words::DEGRADED_MESSAGE.to_owned(),
            action: Some("new_session"),
        });
    }
    let failure = session
        .last_turn
        .as_ref()
        .filter(|_| session.running.is_none());
    if let Some(turn) = failure
        && let Some(failure) = &turn.failure
    {
        notices.push(Notice {
            id: format!("daemon.turn_failed:{}", turn.prompt_id),
            kind: "turn_failed",
            severity: "error",
            recoverable: true,
            message: failure.message.clone(),
            action: None,
        });
    }
    if let Some(ending) = &session.ending {
        notices.push(Notice {
            id: format!("daemon.session_ended:{}", session.session_id),
            kind: "session_ended",
            severity: if ending.died { "error" } else { "info" },
            recoverable: false,
            message: ending.reason.clone(),
            action: None,
        });
    }
    notices
}
