//! What went wrong with a model call, said so that a person can mend it.
//!
//! The provider's own words are kept, bounded, on one line and without the key.

use serde_json::{Value, value::RawValue};
use wire::limits::MODEL_ERROR_TEXT_BYTES_MAX;

use super::{ApiKey, chunk};
use crate::model::{ModelError, ModelErrorKind, retry::Again};

/// A failed try.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: ModelError,
    /// Whether another try may help, as long as nothing of an answer came.
    pub(super) again: Again,
}

/// What an error message may name.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// The endpoint, without credentials.
    pub(super) endpoint: String,
    pub(super) model: String,
    /// The key, to take it out of what the provider says.
    pub(super) key: Option<ApiKey>,
    /// The request holds images.
    pub(super) has_images: bool,
}

/// An error as the provider tells it.
#[derive(Debug, Default)]
struct Told {
    message: String,
    code: Option<String>,
}

impl Failure {
    /// The stream ended in the middle.
    pub(super) fn cut(why: &str) -> Self {
        Self::new(
            ModelErrorKind::Cut,
            format!("the answer was cut off: {why}; try again"),
        )
        .again(Again::AfterBackOff)
    }

    /// The answer was none of the protocol, or over a limit.
    pub(super) fn protocol(what: impl Into<String>) -> Self {
        Self::new(ModelErrorKind::Protocol, what)
    }

    pub(super) fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        let error = ModelError {
            kind,
            status: None,
            message: message.into(),
        };
        Self {
            error,
            again: Again::Never,
        }
    }

    pub(super) fn again(self, again: Again) -> Self {
        Self { again, ..self }
    }

    /// A web page came where a model stream was asked for.
    pub(super) fn web_page(names: &Names) -> Self {
        Self::protocol(format!(
            "{} answered with a web page instead of a model's answer; check OPENAI_BASE_URL",
            names.endpoint
        ))
    }

    /// An answer with a status that is no success.
    pub(super) fn of_status(status: u16, body: &str, asked: Again, names: &Names) -> Self {
        let told = Told::read(body, names);
        let kind = told.kind().unwrap_or_else(|| kind_of_status(status));
        if told.is_of_images(kind, names) || (names.has_images && status == 413) {
            return Self::told(ModelErrorKind::ImageRefused, Some(status), &told, names);
        }
        let mut failure = Self::told(kind, Some(status), &told, names);
        // 408 is the one refusal that says nothing about the request.
        if matches!(status, 408 | 429 | 500..) && !told.is_final() {
            failure.again = asked;
        }
        failure
    }

    /// An error inside an answer whose status was a success.
    pub(super) fn in_answer(body: &str, names: &Names) -> Self {
        let told = Told::read(body, names);
        let kind = told.kind().unwrap_or(ModelErrorKind::Provider);
        if told.is_of_images(kind, names) {
            return Self::told(ModelErrorKind::ImageRefused, None, &told, names);
        }
        let failure = Self::told(kind, None, &told, names);
        let passes = matches!(kind, ModelErrorKind::RateLimited | ModelErrorKind::Provider);
        if passes && !told.is_final() {
            failure.again(Again::AfterBackOff)
        } else {
            failure
        }
    }

    fn told(kind: ModelErrorKind, status: Option<u16>, told: &Told, names: &Names) -> Self {
        let said = match (status, told.message.as_str()) {
            (Some(status), "") => format!(" (HTTP {status})"),
            (Some(status), message) => format!(" (HTTP {status}: {message})"),
            (None, "") => String::new(),
            (None, message) => format!(" ({message})"),
        };
        let Names {
            endpoint,
            model,
            key,
            has_images: _,
        } = names;
        let message = match kind {
            ModelErrorKind::Auth if key.is_none() => {
                format!("the provider wants a key{said}; set OPENAI_API_KEY")
            }
            ModelErrorKind::Auth => {
                format!("the provider refused the key{said}; check OPENAI_API_KEY")
            }
            ModelErrorKind::NotFound => format!(
                "there is no such endpoint or model{said}; check OPENAI_BASE_URL ({endpoint}) and OPENAI_MODEL ({model})"
            ),
            ModelErrorKind::RateLimited if told.is_final() => {
                format!(
                    "the provider gives no more credit{said}; check the account's plan and billing"
                )
            }
            ModelErrorKind::RateLimited => {
                format!("the provider limits requests{said}; wait, or use another model")
            }
            ModelErrorKind::Rejected => format!("the provider refused the request{said}"),
            ModelErrorKind::ImageRefused => format!(
                "the model {model} does not take the image{said}; choose a model that takes images, or send a smaller one; the conversation goes on without it"
            ),
            ModelErrorKind::Provider
            | ModelErrorKind::Unreachable
            | ModelErrorKind::Cut
            | ModelErrorKind::Protocol => format!("the provider failed{said}; try again later"),
        };
        let error = ModelError {
            kind,
            status,
            message,
        };
        Self {
            error,
            again: Again::Never,
        }
    }
}

fn kind_of_status(status: u16) -> ModelErrorKind {
    match status {
        401 | 403 => ModelErrorKind::Auth,
        404 => ModelErrorKind::NotFound,
        429 => ModelErrorKind::RateLimited,
        500.. => ModelErrorKind::Provider,
        _ => ModelErrorKind::Rejected,
    }
}

impl Told {
    /// Reads a body, or the data of an error event, in any of the shapes that are in use.
    fn read(body: &str, names: &Names) -> Self {
        let body = body.trim();
        if body.starts_with('<') {
            return Self {
                message: "a web page".to_owned(),
                code: None,
            };
        }
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            return Self {
                message: one_line(body, names),
                code: None,
            };
        };
        let value = value
            .as_array()
            .and_then(|values| values.first())
            .unwrap_or(&value);
        let inner = if value["error"].is_null() {
            value
        } else {
            &value["error"]
        };
        let message = [
            &inner["message"],
            &inner["msg"],
            &inner["detail"],
            inner,
            &value["message"],
        ]
        .into_iter()
        .find_map(Value::as_str);
        let message = message.map_or_else(|| inner.to_string(), str::to_owned);
        let code = [&inner["code"], &inner["status"], &inner["type"]]
            .into_iter()
            .find_map(word);
        Self {
            message: one_line(&message, names),
            code,
        }
    }

    /// The kind that the code tells; more exact than a status, for servers agree less on that.
    fn kind(&self) -> Option<ModelErrorKind> {
        let code = self.code.as_deref()?;
        if let Ok(status @ 400..=599) = code.parse() {
            return Some(kind_of_status(status));
        }
        Some(match code {
            "invalid_api_key" | "authentication_error" => ModelErrorKind::Auth,
            "model_not_found" => ModelErrorKind::NotFound,
            "rate_limit_exceeded" | "insufficient_quota" => ModelErrorKind::RateLimited,
            "context_length_exceeded" => ModelErrorKind::Rejected,
            _ => return None,
        })
    }

    /// Whether it speaks of the images of the request. Servers have no code in common for it.
    fn is_of_images(&self, kind: ModelErrorKind, names: &Names) -> bool {
        const WORDS: [&str; 6] = [
            "image",
            "vision",
            "multimodal",
            "multi-modal",
            "modalit",
            "mmproj",
        ];
        let may_be = !matches!(kind, ModelErrorKind::Auth | ModelErrorKind::RateLimited);
        let message = self.message.to_ascii_lowercase();
        names.has_images && may_be && WORDS.iter().any(|word| message.contains(word))
    }

    /// Whether no waiting helps.
    fn is_final(&self) -> bool {
        self.code.as_deref() == Some("insufficient_quota")
    }
}

/// A code, as text or as a number.
fn word(value: &Value) -> Option<String> {
    let text = value
        .as_str()
        .map(str::to_owned)
        .filter(|text| !text.is_empty());
    text.or_else(|| value.as_number().map(ToString::to_string))
}

/// Whether an `error` field tells of an error; some servers send an empty one.
pub(super) fn is_error(raw: &RawValue) -> bool {
    !matches!(raw.get(), "\"\"" | "{}" | "false") && !chunk::text(raw).is_empty()
}

/// Foreign text, fit to stand within a line: bounded, without control characters and the key.
fn one_line(text: &str, names: &Names) -> String {
    let mut text = text.to_owned();
    if let Some(key) = names
        .key
        .as_ref()
        .map(ApiKey::expose)
        .filter(|key| !key.is_empty())
    {
        text = text.replace(key, "[key]");
    }
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let mut line = words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    if line.len() > MODEL_ERROR_TEXT_BYTES_MAX {
        line.truncate(line.floor_char_boundary(MODEL_ERROR_TEXT_BYTES_MAX));
        line.push('…');
    }
    let n_kept = line.trim_end_matches('.').len();
    line.truncate(n_kept);
    line
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn names() -> Names {
        Names {
            endpoint: "http://host:1/v1".to_owned(),
            model: "m".to_owned(),
            key: Some(ApiKey::new("sk-secret")),
            has_images: false,
        }
    }

    /// As servers say it that are in use.
    #[test]
    fn a_refused_image_is_told_from_other_refusals() {
        let with_images = Names {
            has_images: true,
            ..names()
        };
        let kind = |status, message: &str, names: &Names| {
            let body = format!(r#"{{"error":{{"message":"{message}"}}}}"#);
            let failure = Failure::of_status(status, &body, Again::AfterBackOff, names);
            assert!(failure.again == Again::Never || status >= 429, "{message}");
            failure.error.kind
        };
        for (status, message) in [
            (400, "unknown variant `image_url`, expected `text`"),
            (400, "m is not a multimodal model"),
            (404, "No endpoints found that support image input"),
            (
                500,
                "image input is not supported - hint: provide the mmproj",
            ),
            (400, "This model does not support Vision."),
            (413, "Request Entity Too Large"),
        ] {
            assert_eq!(
                kind(status, message, &with_images),
                ModelErrorKind::ImageRefused,
                "{message}"
            );
            assert_ne!(
                kind(status, message, &names()),
                ModelErrorKind::ImageRefused
            );
        }
        for (status, message) in [
            (400, "max_tokens is too large"),
            (401, "no key for image models"),
            (429, "too many image requests"),
            (404, "bad path"),
        ] {
            assert_ne!(
                kind(status, message, &with_images),
                ModelErrorKind::ImageRefused,
                "{message}"
            );
        }
        let body = r#"{"error":{"message":"no image input"}}"#;
        let failure = Failure::of_status(400, body, Again::Never, &with_images);
        expect![
            "the model m does not take the image (HTTP 400: no image input); choose a model that takes images, or send a smaller one; the conversation goes on without it"
        ]
        .assert_eq(&failure.error.to_string());
    }

    fn check(status: u16, body: &str, expected: Expect) {
        let failure = Failure::of_status(status, body, Again::AfterBackOff, &names());
        let again = failure.again != Again::Never;
        expected.assert_eq(&format!(
            "{:?} again={again} {}",
            failure.error.kind, failure.error
        ));
    }

    #[test]
    fn a_status_tells_the_mend() {
        check(
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-secret.","code":"invalid_api_key"}}"#,
            expect![
                "Auth again=false the provider refused the key (HTTP 401: Incorrect API key provided: [key]); check OPENAI_API_KEY"
            ],
        );
        check(
            404,
            r#"{"error":{"message":"bad path"}}"#,
            expect![
                "NotFound again=false there is no such endpoint or model (HTTP 404: bad path); check OPENAI_BASE_URL (http://host:1/v1) and OPENAI_MODEL (m)"
            ],
        );
        check(
            400,
            r#"{"error":{"message":"The model `m` does not exist","code":"model_not_found"}}"#,
            expect![
                "NotFound again=false there is no such endpoint or model (HTTP 400: The model `m` does not exist); check OPENAI_BASE_URL (http://host:1/v1) and OPENAI_MODEL (m)"
            ],
        );
        check(
            429,
            "slow down",
            expect![
                "RateLimited again=true the provider limits requests (HTTP 429: slow down); wait, or use another model"
            ],
        );
        check(
            429,
            r#"{"error":{"message":"quota","code":"insufficient_quota"}}"#,
            expect![
                "RateLimited again=false the provider gives no more credit (HTTP 429: quota); check the account's plan and billing"
            ],
        );
        check(
            502,
            "<html>bad gateway</html>",
            expect![
                "Provider again=true the provider failed (HTTP 502: a web page); try again later"
            ],
        );
        check(
            422,
            r#"{"detail":"no such field"}"#,
            expect![
                "Rejected again=false the provider refused the request (HTTP 422: no such field)"
            ],
        );
        check(
            400,
            r#"[{"error":{"message":"first"}}]"#,
            expect!["Rejected again=false the provider refused the request (HTTP 400: first)"],
        );
        check(
            503,
            r#"{"error":"loading"}"#,
            expect!["Provider again=true the provider failed (HTTP 503: loading); try again later"],
        );
        check(
            500,
            "",
            expect!["Provider again=true the provider failed (HTTP 500); try again later"],
        );
    }

    #[test]
    fn an_error_in_an_answer_goes_by_its_code() {
        for (body, kind) in [
            (
                r#"{"error":{"message":"x","code":503}}"#,
                ModelErrorKind::Provider,
            ),
            (
                r#"{"error":{"message":"x","code":429}}"#,
                ModelErrorKind::RateLimited,
            ),
            (
                r#"{"error":{"message":"x","code":"invalid_api_key"}}"#,
                ModelErrorKind::Auth,
            ),
            (r#"{"message":"overloaded"}"#, ModelErrorKind::Provider),
            ("overloaded", ModelErrorKind::Provider),
        ] {
            assert_eq!(
                Failure::in_answer(body, &names()).error.kind,
                kind,
                "{body}"
            );
        }
    }

    #[test]
    fn foreign_text_is_bounded_and_cannot_move_the_cursor() {
        let line = one_line("a\x1b[2J\n\r\tb\u{9b}c", &names());
        assert_eq!(line, "a [2J b c");
        let line = one_line(&"é".repeat(10_000), &names());
        assert!(line.len() <= MODEL_ERROR_TEXT_BYTES_MAX + '…'.len_utf8());
    }
}
