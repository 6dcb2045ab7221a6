//! A session that is followed, however often its stream is cut.

use std::{collections::hash_map::RandomState, hash::BuildHasher, time::Duration};

use serde_json::json;
use tokio::time::{sleep, timeout};
use wire::{
    limits::{SDK_RETRY_WAIT_FIRST, SDK_RETRY_WAIT_MAX, SDK_SILENCE_MAX},
    sse,
    state::Session,
};

use crate::{
    client::{Client, Error},
    load::Answer,
    validate::{self, Invalid},
};

/// How a session is followed.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// A stream without a byte for this long is dead.
    pub silence_max: Duration,
    /// The first wait before a stream is opened again; it doubles with every one.
    pub retry_first: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            silence_max: SDK_SILENCE_MAX,
            retry_first: SDK_RETRY_WAIT_FIRST,
        }
    }
}

/// What happened since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The session is another than before.
    Session,
    /// A frame did not count.
    Invalid(Invalid),
    /// The stream is open.
    Connected,
    /// The stream is gone, and will be opened again after a while.
    Disconnected,
}

/// A session that is followed: what it is survives cut streams, resyncs and a daemon that starts anew. Its
/// stream is read no faster than [`Follow::next`] is called.
#[derive(Debug)]
pub struct Follow {
    client: Client,
    session: Session,
    client_id: Option<String>,
    options: Options,
    stream: Option<Stream>,
    is_loaded: bool,
    /// It was, at some time.
    was_loaded: bool,
    failures: u32,
    is_disconnect_told: bool,
}

#[derive(Debug)]
struct Stream {
    body: reqwest::Response,
    decoder: sse::Decoder,
}

impl Follow {
    pub(crate) fn new(client: Client, session_id: &str, options: Options) -> Self {
        Self {
            client,
            session: Session::new(session_id),
            client_id: None,
            options,
            stream: None,
            is_loaded: false,
            was_loaded: false,
            failures: 0,
            is_disconnect_told: true,
        }
    }

    /// The session as it is now.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Who we are in it; absent before it is loaded.
    #[must_use]
    pub fn client_id(&self) -> Option<&str> {
        self.client_id.as_deref()
    }

    /// The person has read the notice about the record.
    pub fn dismiss_notice(&mut self) {
        self.session.dismiss_notice();
    }

    /// Waits for the next change; `None` once the session is over. Nothing is lost where its future is dropped.
    ///
    /// # Errors
    /// The session is not there, or we may not see it; or the daemon could not be reached at all.
    pub async fn next(&mut self) -> Result<Option<Change>, Error> {
        loop {
            if let Some(change) = self.take_ready() {
                return Ok(Some(change));
            }
            if self.session.ending.is_some() {
                return Ok(None);
            }
            if self.session.is_resync_pending {
                self.stream = None;
            }
            let stepped = if self.stream.is_some() {
                self.read().await
            } else {
                self.connect().await
            };
            match stepped {
                Ok(Some(change)) => return Ok(Some(change)),
                Ok(None) => {}
                Err(error) => self.settle(error)?,
            }
            if self.stream.is_none() && !self.is_disconnect_told {
                self.is_disconnect_told = true;
                return Ok(Some(Change::Disconnected));
            }
        }
    }

    /// The next event of what was read.
    fn take_ready(&mut self) -> Option<Change> {
        let stream = self.stream.as_mut()?;
        let invalid = match stream.decoder.next_event() {
            Ok(None) => return None,
            Ok(Some(event)) => {
                let data = std::str::from_utf8(event.data).map_err(|_| Invalid::NotAFrame);
                let id = &self.session.session_id;
                match data.and_then(|data| validate::frame(data, id)) {
                    Ok(event) => {
                        self.session.apply(event);
                        self.failures = 0;
                        return Some(Change::Session);
                    }
                    Err(invalid) => invalid,
                }
            }
            Err(_) => {
                self.cut();
                Invalid::TooLarge
            }
        };
        Some(Change::Invalid(invalid))
    }

    /// The stream is gone. What comes next waits a little, so that a daemon that only hangs up is not besieged.
    fn cut(&mut self) {
        self.stream = None;
        self.failures = self.failures.max(1);
    }

    async fn read(&mut self) -> Result<Option<Change>, Error> {
        let Some(stream) = self.stream.as_mut() else {
            return Ok(None);
        };
        let read = timeout(self.options.silence_max, stream.body.chunk()).await;
        if let Ok(Ok(Some(bytes))) = read {
            stream.decoder.push(&bytes);
        } else {
            self.cut();
        }
        Ok(None)
    }

    async fn connect(&mut self) -> Result<Option<Change>, Error> {
        if self.failures > 0 {
            sleep(self.back_off()).await;
        }
        // It counts as failed until its stream is open.
        self.failures = self.failures.saturating_add(1);
        let mut change = None;
        if !self.is_loaded || self.session.is_resync_pending {
            let id = self.session.session_id.clone();
            let answer: Answer = self
                .client
                .of_session(reqwest::Method::POST, &id, "/load", Some(&json!({})), None)
                .await?;
            self.client_id.clone_from(&answer.client_id);
            answer.begin(&mut self.session);
            (self.is_loaded, self.was_loaded) = (true, true);
            change = Some(Change::Session);
        }
        let session = &self.session;
        let body = self
            .client
            .open(
                &session.session_id,
                session.last_event_id,
                session.epoch.as_deref(),
            )
            .await?;
        self.stream = Some(Stream {
            body,
            decoder: sse::Decoder::new(),
        });
        self.is_disconnect_told = false;
        Ok(change.or(Some(Change::Connected)))
    }

    /// What a failed step means: another try, or the end.
    fn settle(&mut self, error: Error) -> Result<(), Error> {
        self.stream = None;
        let Error::Refused(refusal) = &error else {
            return match error {
                // What was never there is no cut.
                Error::Unreachable(_) | Error::Late if self.was_loaded => Ok(()),
                Error::Unreachable(_) | Error::Late => Err(error),
                Error::Refused(_) | Error::Protocol | Error::Url | Error::Certificates => {
                    Err(error)
                }
            };
        };
        if self.was_loaded && !refusal.is_final() {
            return Ok(());
        }
        // A session that we had and the daemon does not know died with it; it may be there to load.
        let is_gone = refusal.code.as_deref() == Some("session_not_found");
        if self.is_loaded && is_gone {
            self.is_loaded = false;
            self.session.is_resync_pending = true;
            return Ok(());
        }
        Err(error)
    }

    /// A wait that doubles, with a part of chance, so that many clients do not come back at once.
    fn back_off(&self) -> Duration {
        let doubled = self
            .options
            .retry_first
            .saturating_mul(1 << self.failures.saturating_sub(1).min(16));
        let longest = doubled.min(SDK_RETRY_WAIT_MAX);
        let chance = RandomState::new().hash_one(self.failures) % 512;
        let part = u32::try_from(512 + chance).unwrap_or(1_024);
        longest.saturating_mul(part) / 1_024
    }
}
