//! TLS as the edge speaks it: versions by lane, ALPN, tickets, certificate.

use super::Error;
use super::certificate::Certificate;
use super::client::Client;
use crate::config;
use crate::telemetry::{Lane, Metrics};
use edge_common::token;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{Acceptor, NoServerSessionStorage, ProducesTickets};
use rustls::{
    CipherSuite, ServerConfig, ServerConnection, SupportedProtocolVersion, TicketRotator,
};
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
/// What is sealed at once is written at once, bytes: all that HTTP/2 has to say in a turn.
const MOST_AT_ONCE: usize = 2 * edge_http2::OUTPUT_BYTES;
static TLS13_ONLY: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// The configurations of both lanes. Shared by all threads.
pub(super) struct Tls {
    zero: Configs,
    legacy: Configs,
}

/// One lane's configurations: for clients that offer a protocol and for those that do not, each
/// with the ciphers in our order and in the client's.
struct Configs {
    alpn: Orders,
    no_alpn: Orders,
}

/// Who chooses the cipher suite of those that both have.
struct Orders {
    ours: Arc<ServerConfig>,
    clients: Arc<ServerConfig>,
}

impl Orders {
    fn of(mut config: ServerConfig) -> Self {
        config.ignore_client_order = false;
        let clients = Arc::new(config.clone());
        config.ignore_client_order = true;
        let ours = Arc::new(config);
        Self { ours, clients }
    }
}

impl Tls {
    pub(super) fn new(config: &config::Tls, metrics: &Arc<Metrics>) -> Result<Self, Error> {
        let provider = Arc::new(provider());
        let certificate = Certificate::watched(config, &provider, metrics)?;
        let rotation_s = u32::try_from(config.ticket_rotation.as_secs().max(1));
        let tickets: Arc<dyn ProducesTickets> = Arc::new(TicketRotator::new(
            rotation_s.unwrap_or(u32::MAX).min(MAX_ROTATION_S),
            || match aws_lc_rs::Ticketer::new() {
                Ok(ticketer) => Ok(Box::new(Sealer(ticketer)) as Box<dyn ProducesTickets>),
                Err(_) => Err(rustls::crypto::GetRandomFailed),
            },
        )?);
        let configs = |versions| -> Result<Configs, rustls::Error> {
            let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(versions)?
                .with_no_client_auth()
                .with_cert_resolver(Arc::clone(&certificate) as _);
            config.ticketer = Arc::clone(&tickets);
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = TICKETS;
            // A request in early data could be replayed (RFC 8446 section 8).
            config.max_early_data_size = 0;
            let no_alpn = Orders::of(config.clone());
            config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
            Ok(Configs {
                alpn: Orders::of(config),
                no_alpn,
            })
        };
        Ok(Self {
            zero: configs(TLS13_ONLY)?,
            legacy: configs(rustls::ALL_VERSIONS)?,
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
        let hello = begun.client_hello();
        let names_a_protocol = hello
            .alpn()
            .is_some_and(|mut names| names.any(|name| !name.starts_with(token::PREFIX)));
        let configs = match lane {
            Lane::Zero => &self.zero,
            Lane::Legacy => &self.legacy,
        };
        let orders = if names_a_protocol {
            &configs.alpn
        } else {
            &configs.no_alpn
        };
        let config = if prefers_chacha(hello.cipher_suites()) {
            &orders.clients
        } else {
            &orders.ours
        };
        let config = Arc::clone(config);
        let room = |tls: &mut ServerConnection| tls.set_buffer_limit(Some(MOST_AT_ONCE));
        begun.into_stream_with(config, room).await
    }
}

/// Prefers X25519MLKEM768, by rustls' feature `prefer-post-quantum`, and the light suites.
fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    (provider.cipher_suites).sort_by_key(|suite| !is_light(suite.suite()));
    provider
}

/// AES-128 with SHA-256. Every handshake hashes several kilobytes, every key comes of several
/// HMACs, and processors have instructions for SHA-256 where they have none for SHA-384: with that
/// a connection costs a fifteenth more. It is also the suite that everyone must have (RFC 8446
/// section 9.1).
fn is_light(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    )
}

/// A client that likes ChaCha20 better than AES has no instructions for AES: it has its way.
fn prefers_chacha(suites: &[CipherSuite]) -> bool {
    let first = suites.iter().find_map(|suite| {
        let name = suite.as_str()?;
        let is_chacha = name.contains("CHACHA20");
        (is_chacha || name.contains("AES")).then_some(is_chacha)
    });
    first.unwrap_or(false)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_puts_chacha_before_aes_has_its_way() {
        use CipherSuite::*;
        let grease = Unknown(0x0a0a);
        for (suites, chacha) in [
            (&[][..], false),
            (&[grease], false),
            (
                &[TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256],
                false,
            ),
            (
                &[
                    grease,
                    TLS13_CHACHA20_POLY1305_SHA256,
                    TLS13_AES_128_GCM_SHA256,
                ],
                true,
            ),
            (&[TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256], true),
            (&[TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, grease], false),
        ] {
            assert_eq!(prefers_chacha(suites), chacha, "{suites:?}");
        }
    }

    #[test]
    fn the_light_suites_come_first_in_our_order_and_none_is_left_out() {
        let (ours, all) = (provider(), aws_lc_rs::default_provider());
        let ours: Vec<_> = (ours.cipher_suites.iter().map(|suite| suite.suite())).collect();
        let all = all.cipher_suites.iter().map(|suite| suite.suite());
        let (lights, others): (Vec<_>, Vec<_>) = all.partition(|suite| is_light(*suite));
        assert_eq!(lights.len(), 3);
        assert_eq!(ours, [lights, others].concat());
    }
}
