//! TLS as the edge speaks it: versions by lane, ALPN, tickets, certificate.

use super::Error;
use super::certificate::Certificate;
use super::client::Client;
use crate::config;
use crate::telemetry::{Lane, Metrics};
use edge_common::token;
use rustls::crypto::aws_lc_rs;
use rustls::server::{Acceptor, NoServerSessionStorage, ProducesTickets};
use rustls::{ServerConfig, SupportedProtocolVersion, TicketRotator};
use std::io;
use std::sync::Arc;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// Names in order of preference. A token's name is never among them.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// One ticket a handshake: clients keep connections, and each ticket costs a sealing.
const TICKETS: usize = 1;
/// A ticket lives for twice the rotation, and not longer than seven days (RFC 8446 section
/// 4.6.1).
const MAX_ROTATION_S: u32 = 7 * 24 * 3600 / 2;
static TLS13_ONLY: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// The configurations of both lanes. Shared by all threads.
pub(super) struct Tls {
    zero: Pair,
    legacy: Pair,
}

/// One lane's configuration, for clients that offer a protocol and for those that do not.
struct Pair {
    alpn: Arc<ServerConfig>,
    no_alpn: Arc<ServerConfig>,
}

impl Tls {
    pub(super) fn new(config: &config::Tls, metrics: &Arc<Metrics>) -> Result<Self, Error> {
        // Prefers X25519MLKEM768, by rustls' feature `prefer-post-quantum`.
        let provider = Arc::new(aws_lc_rs::default_provider());
        let certificate = Certificate::watched(config, &provider, metrics)?;
        let rotation_s = u32::try_from(config.ticket_rotation.as_secs().max(1));
        let tickets: Arc<dyn ProducesTickets> = Arc::new(TicketRotator::new(
            rotation_s.unwrap_or(u32::MAX).min(MAX_ROTATION_S),
            || match aws_lc_rs::Ticketer::new() {
                Ok(ticketer) => Ok(Box::new(Sealer(ticketer)) as Box<dyn ProducesTickets>),
                Err(_) => Err(rustls::crypto::GetRandomFailed),
            },
        )?);
        let pair = |versions| -> Result<Pair, rustls::Error> {
            let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(versions)?
                .with_no_client_auth()
                .with_cert_resolver(Arc::clone(&certificate) as _);
            config.ticketer = Arc::clone(&tickets);
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = TICKETS;
            // A request in early data could be replayed (RFC 8446 section 8).
            config.max_early_data_size = 0;
            let no_alpn = Arc::new(config.clone());
            config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
            Ok(Pair {
                alpn: Arc::new(config),
                no_alpn,
            })
        };
        Ok(Self {
            zero: pair(TLS13_ONLY)?,
            legacy: pair(rustls::ALL_VERSIONS)?,
        })
    }

    /// Completes the handshake.
    ///
    /// A client that offers nothing besides a token and ACME's name has named no protocol
    /// that it wants to speak: it gets HTTP/1.1 without ALPN, as one that sends no ALPN
    /// does. One that offers only others gets `no_application_protocol` (RFC 7301 section
    /// 3.2).
    pub(super) async fn accept(&self, client: Client, lane: Lane) -> io::Result<TlsStream<Client>> {
        let begun = LazyConfigAcceptor::new(Acceptor::default(), client).await?;
        let names_a_protocol = begun
            .client_hello()
            .alpn()
            .is_some_and(|mut names| names.any(|name| !name.starts_with(token::PREFIX)));
        let pair = match lane {
            Lane::Zero => &self.zero,
            Lane::Legacy => &self.legacy,
        };
        let config = if names_a_protocol {
            &pair.alpn
        } else {
            &pair.no_alpn
        };
        begun.into_stream(Arc::clone(config)).await
    }
}

/// rustls makes its ticketer behind an `Arc` and rotates what is in a `Box`.
#[derive(Debug)]
struct Sealer(Arc<dyn ProducesTickets>);

impl ProducesTickets for Sealer {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(cipher)
    }
}
