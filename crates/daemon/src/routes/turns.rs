//! Prompts, their queue, their ends, and the questions about tool calls.

use axum::{
    Json,
    extract::{Extension, State},
    http::StatusCode,
    response::IntoResponse,
};
use bridge::TurnQuery;
use serde_json::{Map, Value, json, value::RawValue};
use wire::http::{Prompt, Vote};

use super::{Answer, Id, Named, Shared, Who, good, told};
use crate::{app::Asker, body::Body, error::ApiError, routes::Fields};

/// `POST /session/{id}/prompt`.
pub(crate) async fn prompt(
    State(app): Shared,
    Extension(who): Who,
    Named(id): Id,
    body: Body,
) -> Answer {
    let is_prompt = |value: &&Value| {
        value
            .as_array()
            .is_some_and(|blocks| !blocks.is_empty() && blocks.iter().all(Value::is_object))
    };
    if body.get("prompt").filter(is_prompt).is_none() {
        return Err(ApiError::bad(
            "`prompt` is a non-empty array of content blocks, each an object",
        ));
    }
    if let Some(mode) = body.get("eventDetailMode")
        && !matches!(mode.as_str(), Some("full" | "summary"))
    {
        return Err(ApiError::invalid(
            "invalid_event_detail_mode",
            "`eventDetailMode` is \"full\" or \"summary\"",
        ));
    }
    let deadline_ms = match body.get("deadlineMs") {
        None => None,
        Some(value) => Some(value.as_u64().filter(|&ms| ms > 0).ok_or_else(|| {
            ApiError::invalid(
                "invalid_deadline_ms",
                "`deadlineMs` is a whole number above zero",
            )
        })?),
    };
    let Some(content) = body.raw("prompt") else {
        return Err(ApiError::bad("`prompt` cannot be read"));
    };
    let meta = body.get("_meta").filter(|meta| meta.is_object());
    let prompt = Prompt {
        content,
        meta: meta.and_then(|_| body.raw("_meta")),
        deadline_ms,
    };
    let accepted = told(app.bridge.prompt(&who.0, &id, prompt), &id, &who)?;
    app.metrics.count_prompt();
    Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
}

/// `POST /session/{id}/cancel`.
pub(crate) async fn cancel(
    State(app): Shared,
    Extension(who): Who,
    Named(id): Id,
    _: Body,
) -> Answer {
    told(app.bridge.cancel(&who.0, &id).await, &id, &who)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /session/{id}/pending-prompts`.
pub(crate) async fn pending(State(app): Shared, Extension(who): Who, Named(id): Id) -> Answer {
    good(told(app.bridge.pending_prompts(&id), &id, &who)?)
}

/// `DELETE /session/{id}/pending-prompts/{prompt}`.
pub(crate) async fn remove(
    State(app): Shared,
    Extension(who): Who,
    Named((id, prompt)): Named<(String, String)>,
) -> Answer {
    let removed = told(
        app.bridge.remove_prompt(&who.0, &id, &prompt).await,
        &id,
        &who,
    )?;
    good(json!({"removed": removed}))
}

/// `GET /session/{id}/turns/{prompt}`; `current` is the running one, else the last.
pub(crate) async fn turn(
    State(app): Shared,
    Extension(who): Who,
    Named((id, prompt)): Named<(String, String)>,
) -> Answer {
    let query = match prompt.as_str() {
        "current" => TurnQuery::Current,
        prompt => TurnQuery::Prompt(prompt),
    };
    let turn = told(app.bridge.turn(&id, query), &id, &who);
    good(turn.map_err(|error| error.with("promptId", prompt.as_str()))?)
}

/// `POST /session/{id}/permission/{request}`.
pub(crate) async fn vote(
    State(app): Shared,
    Extension(who): Who,
    Named((id, request)): Named<(String, String)>,
    body: Body,
) -> Answer {
    let vote = vote_of(body)?;
    let voted = app.bridge.vote(&who.0, Some(&id), &request, vote);
    voted.map_err(|error| refused(error, Some(&id), &request, &who))?;
    good(json!({}))
}

/// `POST /permission/{request}`.
pub(crate) async fn vote_anywhere(
    State(app): Shared,
    Extension(who): Who,
    Named(request): Id,
    body: Body,
) -> Answer {
    let vote = vote_of(body)?;
    let voted = app.bridge.vote(&who.0, None, &request, vote);
    voted.map_err(|error| refused(error, None, &request, &who))?;
    good(json!({}))
}

fn refused(error: bridge::Error, id: Option<&str>, request: &str, who: &Asker) -> ApiError {
    let is_about_session = matches!(
        error,
        bridge::Error::SessionNotFound(_) | bridge::Error::UnknownClient
    );
    let answer = ApiError::of(error, id, who.0.client_id.as_deref());
    if is_about_session {
        answer
    } else {
        answer.with("requestId", request)
    }
}

fn vote_of(Body(mut fields): Body) -> Result<Vote, ApiError> {
    const SHAPE: &str =
        "`outcome` is {\"outcome\":\"selected\",\"optionId\":…} or {\"outcome\":\"cancelled\"}";
    let outcome = fields.remove("outcome");
    let outcome = outcome.as_ref().and_then(Value::as_object);
    let outcome = outcome.ok_or_else(|| ApiError::bad(SHAPE))?;
    match outcome.get("outcome").and_then(Value::as_str) {
        Some("cancelled") => Ok(Vote::Cancelled),
        Some("selected") => {
            let option = outcome.get("optionId").and_then(Value::as_str);
            let option_id = option.filter(|option| !option.is_empty());
            Ok(Vote::Selected {
                option_id: option_id.ok_or_else(|| ApiError::bad(SHAPE))?.to_owned(),
                extra: rest(fields),
            })
        }
        Some(_) | None => Err(ApiError::bad(SHAPE)),
    }
}

fn rest(fields: Map<String, Value>) -> Option<Box<RawValue>> {
    if fields.is_empty() {
        return None;
    }
    serde_json::value::to_raw_value(&fields).ok()
}

/// `GET /session/{id}/events`.
pub(crate) async fn events(
    State(app): Shared,
    Extension(who): Who,
    Named(id): Id,
    axum::extract::Query(query): Fields,
    headers: axum::http::HeaderMap,
) -> Answer {
    use wire::limits::{BUS_QUEUE_FRAMES_DEFAULT, BUS_QUEUE_FRAMES_MAX, BUS_QUEUE_FRAMES_MIN};
    let queue_frames = match query.get("maxQueued") {
        None => BUS_QUEUE_FRAMES_DEFAULT,
        Some(text) => text
            .parse()
            .ok()
            .filter(|n| (BUS_QUEUE_FRAMES_MIN..=BUS_QUEUE_FRAMES_MAX).contains(n))
            .ok_or_else(|| {
                ApiError::invalid(
                    "invalid_max_queued",
                    "`maxQueued` is a whole number from 16 to 2048",
                )
            })?,
    };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // Anything but digits is no cursor; what is beyond every number is one of another life.
    let after = header("last-event-id")
        .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .map(|text| text.parse().unwrap_or(u64::MAX));
    let subscribe = bridge::Subscribe {
        after,
        epoch: header("x-qwen-event-epoch").map(str::to_owned),
        queue_frames,
        with_snapshot: query.get("snapshot").is_some_and(|text| text == "1"),
    };
    let (epoch, subscription) = told(app.bridge.subscribe(&id, subscribe), &id, &who)?;
    Ok(crate::sse::answer(&app, &epoch, subscription))
}
