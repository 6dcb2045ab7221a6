//! OpenAI-compatible providers: `POST {base_url}/chat/completions`, streamed.
//!
//! The decoder is our own, because answers were lost without an error by those of libraries (see
//! `docs/adr/0002-model-streams.md`). It knows nothing of sessions, tools and records.

mod call;
mod calls;
mod chunk;
mod decode;
mod failure;
mod halves;
mod request;

use std::sync::{Arc, OnceLock};

use futures_util::stream;
use reqwest::{
    NoProxy, Proxy, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};

use self::{
    call::Call,
    failure::{Failure, Names},
};
pub use super::retry::Retries;
use super::{ModelErrorKind, ModelStream, Provider, Request, http};

/// What an endpoint is told to know who calls. It is shown nowhere, not even in `Debug`.
#[derive(Clone)]
pub struct ApiKey(Arc<str>);

impl ApiKey {
    /// A key as it came from the environment, white space around it dropped.
    #[must_use]
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(key.as_ref().trim().into())
    }

    fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// Which endpoint and which model.
#[derive(Debug, Clone)]
pub struct OpenAiConfig {
    /// The address under which `chat/completions` is found, such as `https://api.openai.com/v1`.
    /// A query is kept.
    pub base_url: String,
    /// `None` where the endpoint wants none.
    pub api_key: Option<ApiKey>,
    /// The model's name.
    pub model: String,
}

/// Why a configuration cannot be used. It holds neither the address nor the key, for both may be
/// secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenAiConfigError {
    /// The base URL is none.
    #[error(
        "the provider's base URL is no http:// or https:// address ({reason}): give one such as https://api.openai.com/v1"
    )]
    BaseUrl {
        /// What is wrong with it.
        reason: String,
    },
    /// The key cannot be sent.
    #[error("the provider's key holds characters that no header can carry: check OPENAI_API_KEY")]
    Key,
    /// The proxy's address is none.
    #[error("the proxy's address is none that can be used: check HTTPS_PROXY")]
    Proxy,
}

/// An OpenAI-compatible provider.
///
/// Making one touches neither the network nor the certificates of the system.
#[derive(Debug, Clone)]
pub struct OpenAi {
    model: String,
    endpoint: Url,
    authorization: Option<HeaderValue>,
    names: Arc<Names>,
    proxy: Option<Proxy>,
    client: Arc<OnceLock<reqwest::Client>>,
    retries: Retries,
}

impl OpenAi {
    /// Checks the configuration.
    ///
    /// # Errors
    /// The base URL is no address, or the key cannot be sent.
    pub fn new(config: OpenAiConfig) -> Result<Self, OpenAiConfigError> {
        let OpenAiConfig {
            base_url,
            api_key,
            model,
        } = config;
        let api_key = api_key.filter(|key| !key.expose().is_empty());
        let mut endpoint = endpoint(&base_url)?;
        let authorization = api_key.as_ref().map(authorization).transpose()?;
        if authorization.is_some() {
            // Credentials of the address would become a second header of the same name.
            strip_credentials(&mut endpoint);
        }
        let names = Names {
            endpoint: shown(&endpoint),
            model: model.clone(),
            key: api_key,
            has_images: false,
        };
        Ok(Self {
            model,
            endpoint,
            authorization,
            names: Arc::new(names),
            proxy: None,
            client: Arc::default(),
            retries: Retries::default(),
        })
    }

    /// Sends every request through a proxy, except to the hosts of `no_proxy`, a list as in the
    /// variable `NO_PROXY`. Without this none is used: the environment is not read here.
    ///
    /// # Errors
    /// `url` is no address.
    pub fn with_proxy(self, url: &str, no_proxy: &str) -> Result<Self, OpenAiConfigError> {
        let proxy = Proxy::all(url).map_err(|_| OpenAiConfigError::Proxy)?;
        let proxy = proxy.no_proxy(NoProxy::from_string(no_proxy));
        Ok(Self {
            proxy: Some(proxy),
            client: Arc::default(),
            ..self
        })
    }

    /// With other retries than the usual.
    #[must_use]
    pub fn with_retries(self, retries: Retries) -> Self {
        Self { retries, ..self }
    }

    /// The client, made at the first call and kept for its connections.
    fn client(&self) -> Result<reqwest::Client, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let made = http::client(self.proxy.clone()).map_err(|error| {
            Failure::new(
                ModelErrorKind::Unreachable,
                format!("no HTTP client could be made: {}", error.without_url()),
            )
        })?;
        Ok(self.client.get_or_init(|| made).clone())
    }

    fn call(&self, request: &Request) -> Result<Call, Failure> {
        let client = self.client()?;
        let body = request::body(&self.model, request).map_err(|error| {
            Failure::protocol(format!("the request could not be written as JSON: {error}"))
        })?;
        let mut post = client
            .post(self.endpoint.clone())
            .header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            post = post.header(AUTHORIZATION, authorization);
        }
        let post = post.body(body).build().map_err(|error| {
            Failure::protocol(format!(
                "the request could not be made: {}",
                error.without_url()
            ))
        })?;
        let mut names = Arc::clone(&self.names);
        if request.has_images() {
            Arc::make_mut(&mut names).has_images = true;
        }
        Ok(Call::new(client, post, names, self.retries))
    }
}

impl Provider for OpenAi {
    fn model(&self) -> &str {
        &self.model
    }

    fn takes_effort(&self) -> bool {
        true
    }

    fn stream(&self, request: Request) -> ModelStream {
        match self.call(&request) {
            Ok(call) => Box::pin(stream::unfold(call, async |mut call| {
                let event = call.next().await?;
                Some((event, call))
            })),
            Err(failure) => Box::pin(stream::iter([Err(failure.error)])),
        }
    }
}

fn endpoint(base_url: &str) -> Result<Url, OpenAiConfigError> {
    let refused = |reason: &str| OpenAiConfigError::BaseUrl {
        reason: reason.to_owned(),
    };
    let mut url = Url::parse(base_url.trim()).map_err(|error| refused(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("another scheme"));
    }
    if !url
        .path()
        .trim_end_matches('/')
        .ends_with("/chat/completions")
    {
        let mut path = url
            .path_segments_mut()
            .map_err(|()| refused("no path can follow it"))?;
        path.pop_if_empty().extend(["chat", "completions"]);
    }
    Ok(url)
}

fn authorization(key: &ApiKey) -> Result<HeaderValue, OpenAiConfigError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
        .map_err(|_| OpenAiConfigError::Key)?;
    value.set_sensitive(true);
    Ok(value)
}

fn strip_credentials(url: &mut Url) {
    // Dropped: both refuse addresses that cannot have credentials, and those have none.
    _ = url.set_username("");
    // Dropped: see above.
    _ = url.set_password(None);
}

/// The endpoint as a person may read it: without credentials, and without a query that may hold a
/// key.
fn shown(endpoint: &Url) -> String {
    let mut url = endpoint.clone();
    strip_credentials(&mut url);
    url.set_query(None);
    url.set_fragment(None);
    url.as_str()
        .trim_end_matches("/chat/completions")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(base_url: &str, key: Option<&str>) -> Result<OpenAi, OpenAiConfigError> {
        let base_url = base_url.to_owned();
        OpenAi::new(OpenAiConfig {
            base_url,
            api_key: key.map(ApiKey::new),
            model: "m".to_owned(),
        })
    }

    #[test]
    fn the_endpoint_is_found_under_the_base_url() {
        for (base_url, expected) in [
            ("http://h/v1", "http://h/v1/chat/completions"),
            (" http://h:1/v1/ ", "http://h:1/v1/chat/completions"),
            ("https://h", "https://h/chat/completions"),
            (
                "https://h/x?api-version=1",
                "https://h/x/chat/completions?api-version=1",
            ),
            (
                "https://h/v1/chat/completions",
                "https://h/v1/chat/completions",
            ),
        ] {
            assert_eq!(
                provider(base_url, None).unwrap().endpoint.as_str(),
                expected
            );
        }
        for base_url in ["", "localhost:1/v1", "ftp://h/", "/v1"] {
            let error = provider(base_url, None).unwrap_err();
            assert!(
                error.to_string().contains("https://api.openai.com/v1"),
                "{base_url}: {error}"
            );
        }
    }

    #[test]
    fn secrets_are_in_no_debug_and_in_no_error() {
        let provider = provider(
            "http://user:pass-word@h/v1?key=query-key",
            Some("sk-secret"),
        )
        .unwrap();
        let text = format!("{provider:?}");
        assert!(
            !text.contains("sk-secret") && !text.contains("pass-word"),
            "{text}"
        );
        assert_eq!(provider.names.endpoint, "http://h/v1");
        let error = super::tests::provider("http://h", Some("sk-\nsecret")).unwrap_err();
        assert_eq!(error, OpenAiConfigError::Key);
    }

    #[test]
    fn an_empty_key_is_none() {
        assert!(
            provider("http://h", Some(" \n"))
                .unwrap()
                .authorization
                .is_none()
        );
    }
}
