//! How a daemon behind https is trusted: as this machine trusts others.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::client::Error;

/// The configuration; one that trusts nobody where no https is spoken, since reading certificates takes time.
pub(crate) fn config(is_https: bool) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| Error::Certificates)?;
    if !is_https {
        let nobody = RootCertStore::empty();
        return Ok(builder.with_root_certificates(nobody).with_no_client_auth());
    }
    let trusting = builder
        .with_platform_verifier()
        .map_err(|_| Error::Certificates)?;
    Ok(trusting.with_no_client_auth())
}
