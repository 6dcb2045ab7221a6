//! One model call: its tries, its waits and its body, one event at a time.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use reqwest::{Client, header::LOCATION};
use tokio::time::{sleep, timeout};
use wire::{
    limits::{
        MODEL_BODY_END_WAIT_MAX, MODEL_ERROR_BODY_BYTES_MAX, MODEL_IDLE_WAIT_MAX,
        MODEL_RESPONSE_BYTES_MAX, MODEL_TAIL_WAIT_MAX,
    },
    sse,
};

use super::{
    decode::Response,
    failure::{Failure, Names},
};
use crate::model::{
    ModelError, ModelErrorKind, ModelEvent, http,
    retry::{Again, Retries, asked},
};

/// A call that was asked for. Dropping it closes its connection.
#[derive(Debug)]
pub(super) struct Call {
    client: Client,
    request: reqwest::Request,
    names: Arc<Names>,
    retries: Retries,
    /// From 1.
    attempt: u32,
    phase: Phase,
    /// Decoded and not yet handed out.
    ready: VecDeque<ModelEvent>,
    /// Why the try ended, told once all of `ready` is handed out.
    failure: Option<Failure>,
    /// Something of an answer was handed out: another try would say it twice.
    answered: bool,
}

#[derive(Debug)]
enum Phase {
    Ask,
    Wait(Duration),
    Read(Box<Body>),
    Ended,
}

/// A body while it comes in.
#[derive(Debug)]
struct Body {
    http: reqwest::Response,
    kind: BodyKind,
    response: Response,
}

#[derive(Debug)]
enum BodyKind {
    /// Nothing but white space so far.
    Unknown,
    /// Events.
    Stream(sse::Decoder),
    /// Anything else, to be looked at as a whole.
    Whole(Vec<u8>),
}

impl Call {
    pub(super) fn new(
        client: Client,
        request: reqwest::Request,
        names: Arc<Names>,
        retries: Retries,
    ) -> Self {
        Self {
            client,
            request,
            names,
            retries,
            attempt: 1,
            phase: Phase::Ask,
            ready: VecDeque::new(),
            failure: None,
            answered: false,
        }
    }

    /// The next event; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.answered |= !matches!(event, ModelEvent::Retrying { .. });
                return Some(Ok(event));
            }
            if let Some(failure) = self.failure.take() {
                match self.fail(failure) {
                    Some(error) => return Some(Err(error)),
                    // That there will be another try is told before it is waited for.
                    None => continue,
                }
            }
            match &mut self.phase {
                Phase::Ended => return None,
                Phase::Wait(wait) => {
                    sleep(*wait).await;
                    self.phase = Phase::Ask;
                }
                Phase::Ask => match self.ask().await {
                    Ok(body) => self.phase = Phase::Read(Box::new(body)),
                    Err(failure) => self.failure = Some(failure),
                },
                Phase::Read(body) => match body.read(&self.names, &mut self.ready).await {
                    Ok(true) => {}
                    Ok(false) => self.phase = Phase::Ended,
                    Err(failure) => self.failure = Some(failure),
                },
            }
        }
    }

    /// Decides what becomes of a failed try: another one, or the error that ends the call.
    fn fail(&mut self, failure: Failure) -> Option<ModelError> {
        let Failure { error, again } = failure;
        let wait = if self.answered {
            None
        } else {
            self.retries.wait(self.attempt, again)
        };
        let Some(wait) = wait else {
            self.phase = Phase::Ended;
            return Some(error);
        };
        // The body of the try before is dropped here, and its connection with it.
        self.phase = Phase::Wait(wait);
        self.ready.push_back(ModelEvent::Retrying {
            attempt: self.attempt,
            wait,
            error,
        });
        self.attempt += 1;
        None
    }

    /// Sends the request; a status other than success is a failure.
    async fn ask(&self) -> Result<Body, Failure> {
        let Some(request) = self.request.try_clone() else {
            return Err(Failure::protocol("the request cannot be sent twice"));
        };
        let mut http = match timeout(MODEL_IDLE_WAIT_MAX, self.client.execute(request)).await {
            Ok(Ok(http)) => http,
            Ok(Err(error)) => return Err(unreachable(&error, &self.names)),
            Err(_) => return Err(Failure::cut(&silence())),
        };
        let status = http.status();
        if status.is_success() {
            return Ok(Body {
                http,
                kind: BodyKind::Unknown,
                response: Response::default(),
            });
        }
        if status.is_redirection() {
            return Err(moved(&http, &self.names));
        }
        let asked = asked(http.headers());
        let body = error_body(&mut http).await;
        Err(Failure::of_status(
            status.as_u16(),
            &body,
            asked,
            &self.names,
        ))
    }
}

impl Body {
    /// Reads what comes next; `false` once the response is complete.
    async fn read(
        &mut self,
        names: &Names,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<bool, Failure> {
        let whole = self.response.is_whole();
        let wait = if whole {
            MODEL_TAIL_WAIT_MAX
        } else {
            MODEL_IDLE_WAIT_MAX
        };
        match timeout(wait, self.http.chunk()).await {
            Ok(Ok(Some(bytes))) => {
                self.take(&bytes, names, out)?;
                if !self.response.is_done() {
                    return Ok(true);
                }
                self.drain().await;
            }
            Ok(Ok(None)) => self.take_rest(names, out)?,
            // A whole answer does not get worse by what happens to its connection.
            Ok(Err(_)) | Err(_) if whole => {}
            Ok(Err(_)) => {
                return self.broken("the connection broke", out);
            }
            Err(_) => return self.broken(&silence(), out),
        }
        self.response.end(out)?;
        Ok(false)
    }

    /// Takes bytes of the body. Labels are often wrong; how a body begins is not: no stream of
    /// events begins like JSON or like a web page.
    fn take(
        &mut self,
        bytes: &[u8],
        names: &Names,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), Failure> {
        if matches!(self.kind, BodyKind::Unknown) {
            match bytes.trim_ascii_start().first() {
                None => return Ok(()),
                Some(b'<') => return Err(Failure::web_page(names)),
                Some(b'{' | b'[') => self.kind = BodyKind::Whole(Vec::new()),
                Some(_) => self.kind = BodyKind::Stream(sse::Decoder::new()),
            }
        }
        match &mut self.kind {
            BodyKind::Unknown => Ok(()),
            BodyKind::Whole(body) if body.len() + bytes.len() > MODEL_RESPONSE_BYTES_MAX => {
                Err(Failure::protocol(format!(
                    "the answer is larger than {MODEL_RESPONSE_BYTES_MAX} bytes"
                )))
            }
            BodyKind::Whole(body) => {
                body.extend_from_slice(bytes);
                Ok(())
            }
            BodyKind::Stream(decoder) => {
                decoder.push(bytes);
                while let Some(event) = decoder.next_event().map_err(too_large)? {
                    self.response.take(event, names, out)?;
                    if self.response.is_done() {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// Takes what the end of the body leaves.
    fn take_rest(&mut self, names: &Names, out: &mut VecDeque<ModelEvent>) -> Result<(), Failure> {
        match &mut self.kind {
            BodyKind::Unknown => Ok(()),
            BodyKind::Whole(body) => {
                self.response.take_body(body, names, out)?;
                self.response.close();
                Ok(())
            }
            BodyKind::Stream(decoder) => match decoder.unfinished().map_err(too_large)? {
                Some(event) => self.response.take_unfinished(event, names, out),
                None => Ok(()),
            },
        }
    }

    /// The stream ended in the middle; a half character that still waits is told before that.
    fn broken(&mut self, why: &str, out: &mut VecDeque<ModelEvent>) -> Result<bool, Failure> {
        self.response.flush(out);
        Err(Failure::cut(why))
    }

    /// Takes the end of the body, which mostly is there already: only a connection that was read to
    /// its end is used again.
    async fn drain(&mut self) {
        let end = async { while let Ok(Some(_)) = self.http.chunk().await {} };
        // Dropped: a server that does not end its body costs a new connection and nothing else.
        _ = timeout(MODEL_BODY_END_WAIT_MAX, end).await;
    }
}

/// The body of an error, as far as it is read.
async fn error_body(http: &mut reqwest::Response) -> String {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(bytes)) = http.chunk().await {
            body.extend_from_slice(&bytes);
            if body.len() >= MODEL_ERROR_BODY_BYTES_MAX {
                break;
            }
        }
    };
    // Dropped: the status alone tells the error; its text is a help that may be missing.
    _ = timeout(MODEL_TAIL_WAIT_MAX, read).await;
    body.truncate(MODEL_ERROR_BODY_BYTES_MAX);
    String::from_utf8_lossy(&body).into_owned()
}

fn unreachable(error: &reqwest::Error, names: &Names) -> Failure {
    let http::NoConnection { why, mend, passes } = http::no_connection(error);
    let endpoint = &names.endpoint;
    let again = if passes {
        Again::AfterBackOff
    } else {
        Again::Never
    };
    Failure::new(
        ModelErrorKind::Unreachable,
        format!("the provider at {endpoint} cannot be reached: {why}; {mend}"),
    )
    .again(again)
}

fn moved(http: &reqwest::Response, names: &Names) -> Failure {
    let status = http.status().as_u16();
    let place = http
        .headers()
        .get(LOCATION)
        .and_then(|place| place.to_str().ok());
    let place = place.and_then(|place| reqwest::Url::parse(place).ok());
    let host = place
        .as_ref()
        .and_then(|url| url.host_str())
        .unwrap_or("another address");
    let endpoint = &names.endpoint;
    let mut failure = Failure::new(
        ModelErrorKind::NotFound,
        format!(
            "{endpoint} sends its callers to {host} (HTTP {status}); check OPENAI_BASE_URL (http or https?)"
        ),
    );
    failure.error.status = Some(status);
    failure
}

fn too_large(error: sse::SseError) -> Failure {
    Failure::protocol(format!("the answer cannot be read: {error}"))
}

fn silence() -> String {
    format!(
        "the provider was silent for {} s",
        MODEL_IDLE_WAIT_MAX.as_secs()
    )
}
