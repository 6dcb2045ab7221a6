//! The handlers, by what they are about.

pub(crate) mod listing;
pub(crate) mod moving;
pub(crate) mod opening;
pub(crate) mod reads;
pub(crate) mod session;
pub(crate) mod turns;
pub(crate) mod workspace;

use std::{collections::HashMap, sync::Arc};

use axum::{
    Json,
    extract::{Extension, Path, Query, State},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::{
    app::{App, Asker},
    error::ApiError,
};

pub(crate) type Shared = State<Arc<App>>;
pub(crate) type Who = Extension<Asker>;
pub(crate) type Id = Path<String>;
pub(crate) type Fields = Query<HashMap<String, String>>;
pub(crate) type Answer = Result<Response, ApiError>;

/// 200 with a body.
pub(crate) fn good(body: impl Serialize) -> Answer {
    Ok(Json(body).into_response())
}

/// What the bridge says of a session, as an answer.
pub(crate) fn told<T>(
    result: Result<T, bridge::Error>,
    id: &str,
    who: &Asker,
) -> Result<T, ApiError> {
    result.map_err(|error| ApiError::of(error, Some(id), who.0.client_id.as_deref()))
}
