//! Reads that tell a client that it has the answer already.

use axum::{
    body::Body,
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG},
    },
    response::Response,
};
use http_body::Body as _;
use http_body_util::BodyExt;
use wire::limits::DAEMON_TAGGED_BYTES_MAX;

use crate::app::hash_of;

/// The answer with its tag; without its body where `known` has the tag. What is no good answer of JSON, is
/// large, or has no length, stays as it is.
pub(crate) async fn tagged(response: Response, known: &[HeaderValue]) -> Response {
    let is_json = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let length = response.body().size_hint().exact();
    let is_small = length.is_some_and(|length| length < DAEMON_TAGGED_BYTES_MAX);
    if response.status() != StatusCode::OK || !is_json || !is_small {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // A body in memory is whole, and does not fail.
    let Ok(body) = body.collect().await else {
        return Response::from_parts(parts, Body::empty());
    };
    let bytes = body.to_bytes();
    let tag = format!("W/\"{:x}-{:016x}\"", bytes.len(), hash_of(&bytes));
    let is_known = known.iter().any(|list| names(list.as_bytes(), &tag));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        parts.headers.insert(ETAG, tag);
    }
    if !is_known {
        return Response::from_parts(parts, Body::from(bytes));
    }
    parts.status = StatusCode::NOT_MODIFIED;
    parts.headers.remove(CONTENT_TYPE);
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::empty())
}

/// Whether a list of tags names this one; a strong tag of the same words does, too.
fn names(list: &[u8], tag: &str) -> bool {
    let opaque = |tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
    let wanted = opaque(tag.as_bytes());
    list.split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .any(|named| named == b"*" || opaque(named) == wanted)
}
