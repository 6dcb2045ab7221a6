//! The HTTP client of model calls: cheap to make, and honest about what kept it from connecting.
//!
//! Trusted certificates are read at the first handshake of an https:// call. A run against http://
//! never pays for them, and works on a machine that has none. The environment is not read: a proxy
//! is used where the configuration names one, and nowhere else.

use std::{
    error::Error,
    sync::{Arc, OnceLock},
};

use reqwest::{Client, Proxy, redirect};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{self, CryptoProvider},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use rustls_platform_verifier::Verifier;
use wire::limits::MODEL_CONNECT_WAIT_MAX;

/// Makes a client. It follows no redirect, for that would turn a POST into a GET, and tries nothing
/// again by itself, for every try is told.
pub(super) fn client(proxy: Option<Proxy>) -> reqwest::Result<Client> {
    let mut client = Client::builder()
        .tls_backend_preconfigured(tls())
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(MODEL_CONNECT_WAIT_MAX)
        .user_agent("onrecord");
    if let Some(proxy) = proxy {
        client = client.proxy(proxy);
    }
    client.build()
}

fn tls() -> ClientConfig {
    let provider = Arc::new(crypto::ring::default_provider());
    let verifier = LazyVerifier {
        provider: Arc::clone(&provider),
        platform: OnceLock::new(),
    };
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth()
}

/// The platform's own verifier, made when the first certificate is to be verified.
#[derive(Debug)]
struct LazyVerifier {
    provider: Arc<CryptoProvider>,
    platform: OnceLock<Verifier>,
}

impl LazyVerifier {
    fn platform(&self) -> Result<&Verifier, rustls::Error> {
        if let Some(verifier) = self.platform.get() {
            return Ok(verifier);
        }
        let made = Verifier::new(Arc::clone(&self.provider))?;
        Ok(self.platform.get_or_init(|| made))
    }
}

impl ServerCertVerifier for LazyVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let platform = self.platform()?;
        platform.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    // Signatures are checked by the provider alone on every platform: no certificate store is asked.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Why a call did not get through.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoConnection {
    /// A clause of a person's words, without the address.
    pub(super) why: String,
    /// What to do about it.
    pub(super) mend: &'static str,
    /// Whether it may be better in a moment.
    pub(super) passes: bool,
}

const CHECK_SERVER: &str = "check OPENAI_BASE_URL, and that the server runs";

/// Reads the chain of causes. The address that `error` knows is not used, for it may hold a password.
pub(super) fn no_connection(error: &reqwest::Error) -> NoConnection {
    if error.is_timeout() {
        return NoConnection {
            why: "it took too long".to_owned(),
            mend: CHECK_SERVER,
            passes: true,
        };
    }
    let mut cause = error.source();
    let mut deepest: Option<&(dyn Error + 'static)> = None;
    while let Some(error) = cause {
        if let Some(tls) = tls_error(error) {
            return of_tls(tls);
        }
        deepest = Some(error);
        cause = error.source();
    }
    let why = match deepest.map(|error| (error.downcast_ref::<std::io::Error>(), error)) {
        Some((Some(io), _)) if io.kind() == std::io::ErrorKind::ConnectionRefused => {
            "connection refused".to_owned()
        }
        Some((_, error)) => error.to_string(),
        None => "it failed without a reason".to_owned(),
    };
    NoConnection {
        why,
        mend: CHECK_SERVER,
        passes: true,
    }
}

/// The TLS error that `error` is or wraps. `source` of an IO error passes over what it wraps.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(tls);
    }
    let wrapped = error.downcast_ref::<std::io::Error>()?.get_ref()?;
    tls_error(wrapped)
}

fn of_tls(error: &rustls::Error) -> NoConnection {
    let (why, mend) = if let rustls::Error::General(why) = error {
        (
            why.clone(),
            "install the system's CA certificates (package ca-certificates)",
        )
    } else if matches!(error, rustls::Error::InvalidCertificate(_)) {
        (
            error.to_string(),
            "its certificate is not trusted here; check OPENAI_BASE_URL",
        )
    } else {
        (
            error.to_string(),
            "check that OPENAI_BASE_URL is an https:// address",
        )
    };
    NoConnection {
        why,
        mend,
        passes: false,
    }
}
