//! JSON bodies, taken as leniently as the protocol does: what is missing, an array, or of another type counts
//! as an empty object. What is too large, or no JSON, is refused.

use axum::{
    extract::{FromRequest, Request},
    http::{
        StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE},
    },
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value, value::RawValue};
use tokio::time::timeout;
use wire::{
    halves,
    limits::{DAEMON_BODY_BYTES_MAX, DAEMON_BODY_WAIT_MAX},
};

use crate::error::ApiError;

/// Names that mean something to the objects of other languages; they are dropped, as Qwen Code does.
const FOREIGN: [&str; 3] = ["__proto__", "constructor", "prototype"];

/// The object that a client sent.
#[derive(Debug, Default)]
pub(crate) struct Body(pub(crate) Map<String, Value>);

impl<S: Sync> FromRequest<S> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let is_json = request
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| {
                let kind = kind.split(';').next().unwrap_or_default().trim();
                kind.eq_ignore_ascii_case("application/json")
            });
        let too_large = || {
            let text = "Request body too large (max 10 MB)";
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
        };
        let length = request.headers().get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > DAEMON_BODY_BYTES_MAX as u64) {
            return Err(too_large());
        }
        let limited = Limited::new(request.into_body(), DAEMON_BODY_BYTES_MAX);
        let bytes = match timeout(DAEMON_BODY_WAIT_MAX, limited.collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large()),
            Ok(Err(_)) => return Err(ApiError::bad("the body ended early")),
            Err(_late) => {
                let text = "the body took too long";
                return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, text));
            }
        };
        if !is_json || bytes.is_empty() {
            return Ok(Self::default());
        }
        let Ok(value) = serde_json::from_slice::<Value>(&halves::replaced(&bytes)) else {
            return Err(ApiError::bad("Invalid JSON in request body"));
        };
        let Value::Object(mut fields) = value else {
            return Ok(Self::default());
        };
        for name in FOREIGN {
            fields.remove(name);
        }
        Ok(Self(fields))
    }
}

impl Body {
    /// A field that is not `null`.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// A field as it was sent.
    pub(crate) fn raw(&self, name: &str) -> Option<Box<RawValue>> {
        serde_json::value::to_raw_value(self.get(name)?).ok()
    }
}
