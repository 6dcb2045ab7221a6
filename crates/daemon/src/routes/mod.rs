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
    extract::{Extension, FromRequestParts, Path, Query, State},
    http::request::Parts,
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    app::{App, Asker},
    error::ApiError,
    page,
};

pub(crate) type Shared = State<Arc<App>>;
pub(crate) type Who = Extension<Asker>;
pub(crate) type Id = Named<String>;
pub(crate) type Fields = Query<HashMap<String, String>>;
pub(crate) type Answer = Result<Response, ApiError>;

/// What a path names, decoded; what is no text there is refused as every error is.
#[derive(Debug)]
pub(crate) struct Named<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        if parts.uri.path().contains("//") {
            return Err(page::not_found());
        }
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(names)| Self(names))
            .map_err(|_no_text| ApiError::bad("the path is not valid UTF-8"))
    }
}

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
