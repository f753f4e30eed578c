//! From an endpoint to a TLS connection that has offered its names.
//!
//! Not here: which names, and what is spoken on it ([`crate::client`]).

use crate::endpoint::Endpoint;
use crate::tls::Tls;
use rustls::AlertDescription;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name has no address.
    #[error("{host}: cannot be resolved: {source}")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// No address took the connection; the last one's error.
    #[error("{to}: cannot connect: {source}")]
    Connect {
        /// Where to.
        to: Endpoint,
        /// What the system said.
        source: io::Error,
    },
    /// The edge answered the ClientHello with the alert `access_denied`.
    #[error(
        "{to}: the edge refused the token: {}", told.as_deref().unwrap_or("its audience, the key or the clock is wrong, or the key's connection rate is used up")
    )]
    Refused {
        /// Who refused it.
        to: Endpoint,
        /// What the edge says of the key to a connection without a token, if that was asked.
        told: Option<String>,
    },
    /// The connection broke off before the edge had answered the ClientHello. An edge may be
    /// set to refuse so; a broken network does the same.
    #[error("{to}: closed before the edge had answered the ClientHello: {source}")]
    Unanswered {
        /// Who did not answer.
        to: Endpoint,
        /// What the system said.
        source: io::Error,
    },
    /// The TLS handshake failed.
    #[error("{to}: TLS failed: {source}{}", cure(source))]
    Tls {
        /// With whom.
        to: Endpoint,
        /// What was wrong.
        source: io::Error,
    },
    /// The server speaks another protocol.
    #[error("{to}: speaks no HTTP/2, so it is no edge")]
    NotHttp2 {
        /// Who does not.
        to: Endpoint,
    },
    /// HTTP/2 could not begin.
    #[error("{to}: HTTP/2 could not begin: {source}")]
    Http {
        /// With whom.
        to: Endpoint,
        /// What was wrong.
        source: hyper::Error,
    },
    /// It took too long.
    #[error("{to}: no connection within {limit:?}")]
    TimedOut {
        /// Where to.
        to: Endpoint,
        /// How long it may take.
        limit: Duration,
    },
    /// The system gave no random bytes for a token.
    #[error(transparent)]
    Random(#[from] crate::secret::Error),
}

impl ConnectError {
    /// Whether it may be the token that was refused: for sure, by an alert, or perhaps, in
    /// silence.
    #[must_use]
    pub fn may_be_refusal(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. } | Self::Unanswered { .. } | Self::TimedOut { .. }
        )
    }

    /// Whether the edge itself said why it refused.
    #[must_use]
    pub fn has_words(&self) -> bool {
        matches!(self, Self::Refused { told: Some(_), .. })
    }

    /// Whether the edge has said so.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// What helps against the usual faults of certificates.
fn cure(source: &io::Error) -> &'static str {
    use rustls::CertificateError::{Other, UnknownIssuer};
    let inner = source.get_ref();
    match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(UnknownIssuer)) => {
            "; trust whoever issued the edge's certificate (`edge connect --ca-file`)"
        }
        // What webpki knows and rustls has no name for.
        Some(rustls::Error::InvalidCertificate(Other(other)))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            "; the edge's certificate is a CA's: make it with basicConstraints CA:FALSE"
        }
        _ => "",
    }
}

/// Connects and shakes hands, offering these protocol names, within `limit`.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect(
    to: &Endpoint,
    tls: &Tls,
    alpn: Vec<Vec<u8>>,
    limit: Duration,
) -> Result<TlsStream<TcpStream>, ConnectError> {
    let timed_out = || ConnectError::TimedOut {
        to: to.clone(),
        limit,
    };
    let deadline = Instant::now() + limit;
    let tcp = timeout_at(deadline, dial(to, limit)).await;
    let tcp = tcp.map_err(|_| timed_out())??;
    let connector = TlsConnector::from(tls.config().clone());
    let connector = connector.with_alpn(alpn);
    let shaken = timeout_at(deadline, connector.connect(to.name().clone(), tcp)).await;
    let shaken = shaken.map_err(|_| timed_out())?;
    shaken.map_err(|source| failed(to, source))
}

/// Each address of a name gets a share of the time.
async fn dial(to: &Endpoint, limit: Duration) -> Result<TcpStream, ConnectError> {
    let addresses: Vec<SocketAddr> = match to.address() {
        Some(address) => vec![address],
        None => {
            let found = tokio::net::lookup_host((to.host(), to.port())).await;
            let found = found.map_err(|source| ConnectError::Resolve {
                host: to.host().to_owned(),
                source,
            })?;
            found.collect()
        }
    };
    let share = limit / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        let dialled = tokio::time::timeout(share, TcpStream::connect(address)).await;
        let dialled = dialled.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match dialled.and_then(set_up) {
            Ok(tcp) => return Ok(tcp),
            Err(error) => last = error,
        }
    }
    Err(ConnectError::Connect {
        to: to.clone(),
        source: last,
    })
}

fn set_up(tcp: TcpStream) -> io::Result<TcpStream> {
    // With Nagle's algorithm a request's last piece waits for a delayed ACK.
    tcp.set_nodelay(true)?;
    let keep_alive = TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10));
    SockRef::from(&tcp).set_tcp_keepalive(&keep_alive)?;
    Ok(tcp)
}

fn failed(to: &Endpoint, source: io::Error) -> ConnectError {
    let to = to.clone();
    let inner = source.get_ref();
    let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::AlertReceived(AlertDescription::AccessDenied)) => {
            ConnectError::Refused { to, told: None }
        }
        Some(_) => ConnectError::Tls { to, source },
        // Nothing that TLS would have an opinion on: an end, a reset.
        None => ConnectError::Unanswered { to, source },
    }
}
