//! The page: static files, and what a browser gets where there is nothing.

use std::{path::PathBuf, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use wire::limits::DAEMON_PAGE_FILE_BYTES_MAX;

use crate::{app::App, error::ApiError};

const NOT_FOUND: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Not found</title>\n<p>Not found\n</html>\n";

/// No such route, as JSON for handlers that share a pattern.
pub(crate) fn not_found() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "Not found").code("not_found")
}

/// Whether a path is one of the page's, which a browser asks for without a token.
pub(crate) fn is_page(app: &App, path: &str) -> bool {
    let named = matches!(
        path,
        "/" | "/index.html" | "/manifest.webmanifest" | "/sw.js" | "/favicon.ico"
    );
    app.options.web_dir.is_some() && (named || path.starts_with("/assets/"))
}

/// What no route answers: a file of the page, the page itself for a browser that goes somewhere in it, or
/// nothing.
pub(crate) async fn anything_else(State(app): State<Arc<App>>, request: Request) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if let Some(folder) = app.options.web_dir.clone().filter(|_| is_read) {
        let path = request.uri().path();
        let is_html = wants_html(request.headers());
        let name = if is_page(&app, path) && !matches!(path, "/" | "/index.html") {
            Some(path.trim_start_matches('/').to_owned())
        } else if path == "/" || path == "/index.html" || is_html {
            Some("index.html".to_owned())
        } else {
            None
        };
        if let Some(name) = name {
            let kind = kind_of(&name);
            let is_asset = name.starts_with("assets/");
            let read = tokio::task::spawn_blocking(move || read(folder, &name)).await;
            if let Ok(Some(bytes)) = read {
                return file(bytes, kind, is_asset);
            }
        }
    }
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (StatusCode::NOT_FOUND, kind, NOT_FOUND).into_response()
}

fn wants_html(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}

/// A file below the folder, wherever links lead; nothing outside it.
fn read(folder: PathBuf, name: &str) -> Option<Vec<u8>> {
    let folder = folder.canonicalize().ok()?;
    let path = folder.join(name).canonicalize().ok()?;
    let metadata = path.metadata().ok()?;
    let is_served = path.starts_with(&folder)
        && metadata.is_file()
        && metadata.len() <= DAEMON_PAGE_FILE_BYTES_MAX;
    is_served.then(|| std::fs::read(&path).ok()).flatten()
}

fn file(bytes: Vec<u8>, kind: &'static str, is_asset: bool) -> Response {
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    // Assets are named by what they hold.
    let cache = if is_asset {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, cache),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json; charset=utf-8",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "woff" => "font/woff",
        "ttf" => "font/ttf",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    }
}
