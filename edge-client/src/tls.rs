//! rustls, set up as the edge wants it: TLS 1.3, and a list of protocol names of its own for each
//! connection.
//!
//! Not here: which names those are ([`crate::tokens`]).

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whom a server's certificate may be signed by, and the rest of what TLS needs. Cheap to clone;
/// clones share the memory of sessions that can be resumed.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ClientConfig>);

/// Why there are no root certificates.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The file cannot be used.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The system has none.
    #[error(
        "the system has no root certificates ({problem}): install ca-certificates or name a CA file"
    )]
    NoSystemRoots {
        /// What the search said.
        problem: String,
    },
}

impl Tls {
    /// Trusts servers whose certificates these roots have signed.
    ///
    /// # Errors
    /// When rustls does not take its own defaults.
    pub fn new(roots: RootCertStore) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// The configuration, for a connection that is made elsewhere. Its own list of protocol names
    /// is empty: each connection brings one
    /// ([`ClientConnection::new_with_alpn`](rustls::client::ClientConnection::new_with_alpn)).
    #[must_use]
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.0
    }
}

/// The certificates of a PEM file.
///
/// # Errors
/// When it cannot be read or has none.
pub fn roots_of(path: &Path) -> Result<RootCertStore, RootsError> {
    let refuse = |problem: String| RootsError::File {
        path: path.to_owned(),
        problem,
    };
    let mut roots = RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| refuse(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| refuse(error.to_string()))?;
        (roots.add(certificate)).map_err(|error| refuse(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(refuse(
            "holds no certificate; name a PEM bundle of the server's CA".to_owned(),
        ));
    }
    Ok(roots)
}

/// The certificates that the system trusts.
///
/// # Errors
/// When there are none.
pub fn system_roots() -> Result<RootCertStore, RootsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // A bundle may hold a few that rustls does not take; the rest is good.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let problem = match found.errors.first() {
            Some(error) => error.to_string(),
            None => "none found".to_owned(),
        };
        return Err(RootsError::NoSystemRoots { problem });
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.pem");
        for text in [None, Some(""), Some("no certificate")] {
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let error = roots_of(&path).unwrap_err().to_string();
            assert!(error.contains("ca.pem: "), "{error}");
        }
    }

    #[test]
    fn tls_is_1_3_alone() {
        let tls = Tls::new(RootCertStore::empty()).unwrap();
        assert!(tls.config().alpn_protocols.is_empty());
        assert!(!tls.config().enable_early_data);
    }
}
