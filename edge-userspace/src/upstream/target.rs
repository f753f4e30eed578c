//! Where requests go and what they must carry there: the configuration made ready.

use super::head::Own;
use crate::config::{self, Credential};
use crate::secret;
use edge_client::tls::{RootsError, roots_of, system_roots};
use http::header::{self, HeaderName, HeaderValue};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsConnector;

/// An upstream's address, its roots, its credential. Shared by all threads.
pub struct Target {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
    pub(super) connect_timeout: Duration,
    pub(super) first_byte_timeout: Duration,
    pub(super) max_connections: usize,
    pub(super) max_idle: usize,
    pub(super) keep_idle: Duration,
    idle_timeout: Duration,
    /// What stands in every request's head.
    pub(super) own: Own,
}

/// Why the configuration cannot be made ready. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The host is neither a name nor an address.
    #[error("{host:?} is neither a host name nor an address")]
    Host {
        /// What was configured.
        host: String,
    },
    /// There are no root certificates in the file that is named, or in the system.
    #[error("ca_file: {0}")]
    Roots(#[from] RootsError),
    /// rustls did not take the settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The credential is not where the configuration says.
    #[error("credential: {0}")]
    Credential(#[from] secret::Error),
    /// The credential cannot stand in a header.
    #[error("credential: has a character that no header may carry, such as a newline")]
    CredentialText,
}

impl Target {
    /// Reads what the configuration names.
    ///
    /// # Errors
    /// When a file or a variable is missing or of no use.
    pub fn new(config: &config::Upstream) -> Result<Self, TargetError> {
        let invalid_host = || TargetError::Host {
            host: config.host.clone(),
        };
        let standard_port = if config.tls { 443 } else { 80 };
        let host = match config.host.parse::<std::net::Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_) => config.host.clone(),
        };
        let host_header = if config.port == standard_port {
            host
        } else {
            format!("{host}:{}", config.port)
        };
        let tls = if config.tls {
            let name = ServerName::try_from(config.host.clone()).map_err(|_| invalid_host())?;
            Some((connector(config.ca_file.as_deref())?, name))
        } else {
            None
        };
        let host_header = HeaderValue::try_from(host_header).map_err(|_| invalid_host())?;
        Ok(Self {
            host: config.host.clone(),
            port: config.port,
            tls,
            connect_timeout: config.connect_timeout,
            first_byte_timeout: config.first_byte_timeout,
            idle_timeout: config.idle_timeout,
            max_connections: config.max_connections,
            max_idle: config.max_idle,
            keep_idle: config.keep_idle,
            own: Own::new(&host_header, credential(&config.credential)?),
        })
    }

    /// How long a response may pause.
    #[must_use]
    pub fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }
}

fn credential(config: &Credential) -> Result<Option<(HeaderName, HeaderValue)>, TargetError> {
    let Credential::Replace { header, from } = config else {
        return Ok(None);
    };
    let secret = from.read()?;
    let value = if header == header::AUTHORIZATION {
        HeaderValue::from_bytes(&[b"Bearer ", secret.expose()].concat())
    } else {
        HeaderValue::from_bytes(secret.expose())
    };
    let mut value = value.map_err(|_| TargetError::CredentialText)?;
    // Prints as "Sensitive" wherever a header is printed.
    value.set_sensitive(true);
    Ok(Some((header.clone(), value)))
}

fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, TargetError> {
    let roots = match ca_file {
        Some(path) => roots_of(path)?,
        None => system_roots()?,
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
