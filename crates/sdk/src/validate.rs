//! Frames are checked before they count (R22): the envelope first, then the data by its type.
//!
//! A known type whose data does not fit is an error that names the field. An unknown type is kept and changes
//! nothing. A frame of another session is refused.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use wire::{
    event::{Ended, Frame, Payload, Role, TextChunk, ToolCallFields, Update, Usage},
    limits::SDK_FRAME_BYTES_MAX,
    state::Event,
};

/// Why a frame does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is larger than [`SDK_FRAME_BYTES_MAX`].
    #[error("the frame is larger than {SDK_FRAME_BYTES_MAX} bytes")]
    TooLarge,
    /// It is no frame.
    #[error("the frame is no JSON object of a frame")]
    NotAFrame,
    /// It is of a schema that is not spoken.
    #[error("the frame is of version {0}")]
    Version(u64),
    /// Its data is not what its type says.
    #[error("{kind}: {field} is not what it must be")]
    Field {
        /// The type of the frame.
        kind: String,
        /// The field, as a path such as `toolCall.toolCallId`.
        field: String,
    },
    /// It belongs to another session.
    #[error("the frame belongs to another session")]
    OtherSession,
}

/// Checks one frame of the stream of `session_id`, the text of its `data` line.
///
/// # Errors
/// It does not count.
pub fn frame(data: &str, session_id: &str) -> Result<Event, Invalid> {
    if data.len() > SDK_FRAME_BYTES_MAX {
        return Err(Invalid::TooLarge);
    }
    let frame: Frame = serde_json::from_str(data).map_err(|_| Invalid::NotAFrame)?;
    checked(frame, session_id)
}

/// As [`frame`], for one that is part of an answer.
///
/// # Errors
/// It does not count.
pub fn checked(frame: Frame, session_id: &str) -> Result<Event, Invalid> {
    if frame.v != wire::event::EVENT_SCHEMA_VERSION {
        return Err(Invalid::Version(frame.v.into()));
    }
    let payload = payload(&frame.kind, &frame.data, session_id)?;
    Ok(Event {
        id: frame.id,
        prompt_id: frame.prompt_id,
        payload,
    })
}

fn payload(kind: &str, data: &RawValue, session_id: &str) -> Result<Payload, Invalid> {
    if !data.get().starts_with('{') {
        return Err(wrong(kind, "data"));
    }
    let payload = match kind {
        "session_update" => Payload::Update(update(data)?),
        "permission_request" => Payload::PermissionRequest(read(kind, data)?),
        "permission_resolved" | "permission_already_resolved" => {
            Payload::PermissionResolved(read(kind, data)?)
        }
        "pending_prompt_added" => Payload::PromptQueued(read(kind, data)?),
        "pending_prompt_started" => Payload::PromptStarted(read(kind, data)?),
        "pending_prompt_completed" => Payload::PromptDone(read(kind, data)?),
        "turn_complete" => Payload::TurnComplete(read(kind, data)?),
        "turn_error" => Payload::TurnError(read(kind, data)?),
        "model_switched" => Payload::ModelSwitched(read(kind, data)?),
        "approval_mode_changed" => Payload::ApprovalModeChanged(read(kind, data)?),
        "session_metadata_updated" => Payload::MetadataUpdated(read(kind, data)?),
        "session_recording_degraded" => Payload::RecordingDegraded(read(kind, data)?),
        "session_snapshot" => Payload::Snapshot(read(kind, data)?),
        "session_closed" | "session_died" => Payload::Ended(Ended {
            died: kind == "session_died",
            ..read(kind, data)?
        }),
        "state_resync_required" => Payload::ResyncRequired(read(kind, data)?),
        _ => return Ok(Payload::Other),
    };
    let Named { session_id: named } = read(kind, data)?;
    match named {
        Some(named) if named != session_id => Err(Invalid::OtherSession),
        Some(_) | None => Ok(payload),
    }
}

/// The session that a frame names; not all of them name one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named<'a> {
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
}

fn update(data: &RawValue) -> Result<Update, Invalid> {
    const KIND: &str = "session_update";
    let Updated { update: raw } = read(KIND, data)?;
    let named: UpdateKind<'_> = read(KIND, raw).map_err(within_update)?;
    Ok(match &*named.session_update {
        "user_message_chunk" => text(raw, Role::User)?,
        "agent_message_chunk" => text(raw, Role::Agent)?,
        "agent_thought_chunk" => text(raw, Role::Thought)?,
        "tool_call" => Update::ToolCall(read::<ToolCallFields>(KIND, raw).map_err(within_update)?),
        "tool_call_update" => Update::ToolCallUpdate(read(KIND, raw).map_err(within_update)?),
        "plan" => {
            #[derive(Deserialize)]
            struct Plan {
                entries: Vec<wire::event::PlanEntry>,
            }
            Update::Plan(read::<Plan>(KIND, raw).map_err(within_update)?.entries)
        }
        "available_commands_update" => {
            #[derive(Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct Commands {
                available_commands: Vec<wire::event::Command>,
            }
            let commands: Commands = read(KIND, raw).map_err(within_update)?;
            Update::Commands(commands.available_commands)
        }
        "current_mode_update" => {
            #[derive(Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct Mode {
                current_mode_id: String,
            }
            Update::Mode(
                read::<Mode>(KIND, raw)
                    .map_err(within_update)?
                    .current_mode_id,
            )
        }
        "session_info_update" => {
            #[derive(Deserialize)]
            struct Info {
                title: Option<String>,
            }
            match read::<Info>(KIND, raw).map_err(within_update)?.title {
                Some(title) => Update::Title(title),
                None => Update::Other,
            }
        }
        _ => Update::Other,
    })
}

#[derive(Deserialize)]
struct Updated<'a> {
    #[serde(borrow)]
    update: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateKind<'a> {
    #[serde(borrow)]
    session_update: Cow<'a, str>,
}

fn text(raw: &RawValue, role: Role) -> Result<Update, Invalid> {
    #[derive(Deserialize)]
    struct Chunk<'a> {
        #[serde(borrow)]
        content: Content<'a>,
        #[serde(rename = "_meta")]
        meta: Option<Meta>,
    }
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        text: Option<String>,
    }
    #[derive(Deserialize)]
    struct Meta {
        usage: Option<Value>,
    }
    let chunk: Chunk<'_> = read("session_update", raw).map_err(within_update)?;
    if chunk.content.kind != "text" {
        return Ok(Update::Other);
    }
    let Some(text) = chunk.content.text else {
        return Err(wrong("session_update", "update.content.text"));
    };
    // Tokens are a help: what is not understood of them is not told.
    let usage = chunk.meta.and_then(|meta| meta.usage);
    let usage = usage.and_then(|usage| Usage::deserialize(usage).ok());
    Ok(Update::Text(TextChunk { role, text, usage }))
}

fn read<'a, T: Deserialize<'a>>(kind: &str, data: &'a RawValue) -> Result<T, Invalid> {
    // What is good needs no path.
    if let Ok(good) = serde_json::from_str(data.get()) {
        return Ok(good);
    }
    let mut json = serde_json::Deserializer::from_str(data.get());
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let missing = missing_field(error.inner());
        let field = match (path.as_str(), missing) {
            (".", Some(name)) => name,
            (path, Some(name)) => format!("{path}.{name}"),
            (".", None) => "data".to_owned(),
            (path, None) => path.to_owned(),
        };
        wrong(kind, &field)
    })
}

/// The name in serde's words for a field that is missing.
fn missing_field(error: &serde_json::Error) -> Option<String> {
    let text = error.to_string();
    let rest = text.strip_prefix("missing field `")?;
    Some(rest.split('`').next()?.to_owned())
}

fn wrong(kind: &str, field: &str) -> Invalid {
    Invalid::Field {
        kind: kind.to_owned(),
        field: field.to_owned(),
    }
}

fn within_update(invalid: Invalid) -> Invalid {
    let Invalid::Field { kind, field } = invalid else {
        return invalid;
    };
    let field = if field == "data" {
        "update".to_owned()
    } else {
        format!("update.{field}")
    };
    Invalid::Field { kind, field }
}
