//! What every request passes before it reaches a route, in this order: a log entry, the host it names, the
//! origin it comes from, `/health`, the page, the token, the rate.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Json,
    extract::{ConnectInfo, MatchedPath, Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{
            ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
            ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
            AUTHORIZATION, HOST, IF_NONE_MATCH, ORIGIN, RETRY_AFTER, VARY,
        },
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use bridge::Caller;
use serde_json::json;
use subtle::ConstantTimeEq;
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    app::{App, Asker},
    error::ApiError,
    etag, page,
    rate::{Allowance, Tier},
};

/// Who a client says it is.
const CLIENT_ID: &str = "x-qwen-client-id";
const CLIENT_ID_LENGTH_MAX: usize = 128;

/// Names of this machine, besides the address that is listened on.
const LOCAL_NAMES: [&str; 4] = ["localhost", "127.0.0.1", "[::1]", "host.docker.internal"];

/// Where the daemon listens; absent in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listening(pub(crate) SocketAddr);

/// Lets a request through, or answers it.
pub(crate) async fn pass(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let id = Uuid::new_v4();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("", MatchedPath::as_str)
        .to_owned();
    let session = session_of(request.uri().path()).map(str::to_owned);
    let span = tracing::info_span!("request", %id, session = session.as_deref());
    let is_stream = route.ends_with("/events");
    let began_ms = (app.options.now_ms)();
    let response = async {
        match admit(&app, &mut request) {
            Ok(Admitted { cors, allowance }) => {
                let known = known_tags(&request);
                let response = next.run(request).await;
                let mut response = match known {
                    Some(known) => etag::tagged(response, &known).await,
                    None => response,
                };
                if let Some(allowance) = allowance {
                    tell_rate(response.headers_mut(), allowance);
                }
                with_cors(response, cors)
            }
            Err(answer) => *answer,
        }
    }
    .instrument(span.clone())
    .await;
    let status = response.status().as_u16();
    let took_ms = (app.options.now_ms)().saturating_sub(began_ms);
    let _entered = span.enter();
    if is_stream || status >= 500 {
        tracing::info!(%method, route, status, took_ms, "answered");
    } else {
        tracing::debug!(%method, route, status, took_ms, "answered");
    }
    app.metrics.count_request(&method, &route, status);
    response
}

/// What a read says that it has already; `None` for what is no read.
fn known_tags(request: &Request) -> Option<Vec<HeaderValue>> {
    let known = request.headers().get_all(IF_NONE_MATCH).iter().cloned();
    (*request.method() == Method::GET).then(|| known.collect())
}

fn session_of(path: &str) -> Option<&str> {
    path.strip_prefix("/session/")?.split('/').next()
}

struct Admitted {
    cors: Option<HeaderValue>,
    allowance: Option<Allowance>,
}

/// What a request may do, or its answer.
fn admit(app: &Arc<App>, request: &mut Request) -> Result<Admitted, Box<Response>> {
    let refused = |error: ApiError| Box::new(error.into_response());
    let listening = request.extensions().get::<Listening>().map(|at| at.0);
    let peer = request
        .extensions()
        .get::<ConnectInfo<SocketAddr>>()
        .map(|peer| peer.0);
    let is_loopback = listening.is_none_or(|at| at.ip().is_loopback());
    if is_loopback && !is_known_host(request.headers(), listening) {
        return Err(refused(ApiError::new(
            StatusCode::FORBIDDEN,
            "Invalid Host header",
        )));
    }
    let cors = match origin(app, request.headers(), listening) {
        Origin::Own => None,
        Origin::Allowed(origin) => Some(origin),
        Origin::Foreign => {
            let answer = ApiError::new(StatusCode::FORBIDDEN, "Request denied by CORS policy");
            let mut answer = answer.into_response();
            answer
                .headers_mut()
                .insert(VARY, HeaderValue::from_static("Origin"));
            return Err(Box::new(answer));
        }
    };
    if request.method() == Method::OPTIONS
        && let Some(origin) = &cors
    {
        let answer = StatusCode::NO_CONTENT.into_response();
        return Err(Box::new(with_cors(answer, Some(origin.clone()))));
    }
    let and_cors = |answer: Response| Box::new(with_cors(answer, cors.clone()));
    let path = request.uri().path();
    let is_open = (path == "/health" && is_loopback && !app.options.require_auth)
        || (page::is_page(app, path) && matches!(*request.method(), Method::GET | Method::HEAD));
    if !is_open && !has_token(app, request.headers()) {
        let answer = (
            StatusCode::UNAUTHORIZED,
            Json(json!({"error": "Unauthorized"})),
        );
        return Err(and_cors(answer.into_response()));
    }
    let mut allowance = None;
    if app.options.rate_limit
        && let (Some(peer), Some(tier)) = (peer, Tier::of(request.method(), path))
    {
        let counted = app.rates.count(peer.ip(), tier, (app.options.now_ms)());
        if counted.is_over {
            return Err(and_cors(too_many(app, tier, counted)));
        }
        allowance = Some(counted);
    }
    let client_id =
        client_id(request.headers()).map_err(|error| and_cors(error.into_response()))?;
    let is_local = peer.is_none_or(|peer| peer.ip().is_loopback());
    request.extensions_mut().insert(Asker(Caller {
        client_id,
        is_local,
    }));
    Ok(Admitted { cors, allowance })
}

fn has_token(app: &App, headers: &HeaderMap) -> bool {
    let Some(token) = &app.options.token else {
        return true;
    };
    let Some(said) = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
    else {
        return false;
    };
    let Some((scheme, said)) = said.split_once(' ') else {
        return false;
    };
    let is_same = bool::from(said.trim().as_bytes().ct_eq(token.as_bytes()));
    scheme.eq_ignore_ascii_case("bearer") && is_same
}

/// A host header names us, so that a page whose name was made to lead here has no answer.
fn is_known_host(headers: &HeaderMap, listening: Option<SocketAddr>) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        // In memory, as in tests, nobody names a host.
        return listening.is_none();
    };
    let Ok(host) = host.to_str() else {
        return false;
    };
    let Some(listening) = listening else {
        return true;
    };
    let host = host.to_ascii_lowercase();
    let port = listening.port();
    let own = listening.ip().to_string();
    LOCAL_NAMES
        .into_iter()
        .chain([own.as_str()])
        .any(|name| host == format!("{name}:{port}") || (host == name && matches!(port, 80 | 443)))
}

enum Origin {
    /// No page of another origin asks.
    Own,
    /// One that may.
    Allowed(HeaderValue),
    /// One that may not.
    Foreign,
}

fn origin(app: &App, headers: &HeaderMap, listening: Option<SocketAddr>) -> Origin {
    let mut origins = headers.get_all(ORIGIN).iter();
    let Some(origin) = origins.next() else {
        return Origin::Own;
    };
    if origins.next().is_some() {
        return Origin::Foreign;
    }
    let Ok(text) = origin.to_str() else {
        return Origin::Foreign;
    };
    let is_own = listening.is_some_and(|listening| {
        let port = listening.port();
        let is_at = |host: &str| text.eq_ignore_ascii_case(&format!("http://{host}"));
        is_at(&listening.to_string())
            || LOCAL_NAMES
                .into_iter()
                .any(|name| is_at(&format!("{name}:{port}")))
    });
    let allowed = &app.options.allow_origins;
    if is_own {
        Origin::Own
    } else if allowed.iter().any(|known| known == "*" || known == text) {
        Origin::Allowed(origin.clone())
    } else {
        Origin::Foreign
    }
}

fn with_cors(mut response: Response, origin: Option<HeaderValue>) -> Response {
    let Some(origin) = origin else {
        return response;
    };
    let headers = response.headers_mut();
    let words = [
        (
            ACCESS_CONTROL_ALLOW_METHODS,
            "GET, POST, PATCH, DELETE, OPTIONS",
        ),
        (
            ACCESS_CONTROL_ALLOW_HEADERS,
            "Authorization, Content-Type, X-Qwen-Client-Id, Last-Event-ID, X-Qwen-Event-Epoch",
        ),
        (ACCESS_CONTROL_MAX_AGE, "86400"),
        (
            ACCESS_CONTROL_EXPOSE_HEADERS,
            "Retry-After, X-Qwen-Event-Epoch, X-Qwen-SSE-Stream-Id",
        ),
        (VARY, "Origin"),
    ];
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    for (name, value) in words {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The client's id, where it says one; an empty one is none.
fn client_id(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(CLIENT_ID).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let is_id = |text: &&str| {
        text.len() <= CLIENT_ID_LENGTH_MAX
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte))
    };
    match value.to_str().ok().filter(is_id) {
        Some(id) => Ok(Some(id.to_owned())),
        None => Err(ApiError::invalid(
            "invalid_client_id",
            "X-Qwen-Client-Id takes 1 to 128 letters, digits and ._:-",
        )),
    }
}

fn too_many(app: &App, tier: Tier, counted: Allowance) -> Response {
    let wait_ms = counted.reset_ms.saturating_sub((app.options.now_ms)());
    let answer = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "Too many requests")
        .code("rate_limit_exceeded")
        .with("tier", tier.as_str())
        .with("retryAfterMs", wait_ms);
    let mut answer = answer.into_response();
    answer.headers_mut().insert(
        RETRY_AFTER,
        HeaderValue::from(wait_ms.div_ceil(1_000).max(1)),
    );
    tell_rate(answer.headers_mut(), counted);
    answer
}

fn tell_rate(headers: &mut HeaderMap, allowance: Allowance) {
    let values = [
        ("x-ratelimit-limit", u64::from(allowance.limit)),
        ("x-ratelimit-remaining", u64::from(allowance.remaining)),
        ("x-ratelimit-reset", allowance.reset_ms.div_ceil(1_000)),
    ];
    for (name, value) in values {
        headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
    }
}
