//! TLS clients of every kind that matters to the kernel half, many at a time, and what each
//! of them came to.

use crate::network::ADDRESSES;
use crate::process::{Key, ask};
use edge_common::token::{KeyId, Token};
use edge_userspace::keys::derive;
use edge_userspace::secret::ApiKey;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Clients at a time. A guest has few processors, and most of them only wait.
const AT_A_TIME: usize = 24;
/// A hang guard: far more than what a lossy network takes.
const HANG: Duration = Duration::from_secs(90);

/// What a client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    Good,
    /// A token with a wrong tag.
    Bad,
    /// No token; the key is in the request's header alone.
    Nothing,
}

/// One kind of client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) offer: Offer,
    /// A hello of two segments.
    pub(crate) post_quantum: bool,
    address: &'static str,
}

/// What came of one connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Served,
    /// A fatal `access_denied` alert, told by the TLS library.
    Denied,
    /// A TCP reset before anything was told.
    Reset,
    Failed(String),
}

/// What a client needs to know of the edge.
pub(crate) struct Known {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: Key,
}

/// Every kind, once.
pub(crate) fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for address in ADDRESSES {
        for post_quantum in [false, true] {
            for offer in [Offer::Good, Offer::Bad, Offer::Nothing] {
                kinds.push(Kind {
                    offer,
                    post_quantum,
                    address,
                });
            }
        }
    }
    kinds
}

/// Connects `rounds` clients of each kind, in the calling thread's network.
pub(crate) fn connect_all(known: &Known, rounds: usize) -> Vec<(Kind, End)> {
    let kinds = kinds();
    let next = AtomicUsize::new(0);
    let ends = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let turn = next.fetch_add(1, Ordering::Relaxed);
                    if turn >= rounds * kinds.len() {
                        return;
                    }
                    let kind = kinds[turn % kinds.len()];
                    let end = connect(known, kind);
                    ends.lock().unwrap().push((kind, end));
                }
            });
        }
    });
    ends.into_inner().unwrap()
}

fn connect(known: &Known, kind: Kind) -> End {
    match speak(known, kind) {
        Ok(head) if head.starts_with("HTTP/1.1 200") => End::Served,
        Ok(head) => End::Failed(head.lines().next().unwrap_or_default().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => End::Reset,
        Err(error) => {
            let tls = error.get_ref().and_then(|error| error.downcast_ref());
            let denied = rustls::Error::AlertReceived(AlertDescription::AccessDenied);
            if tls == Some(&denied) {
                End::Denied
            } else {
                End::Failed(error.to_string())
            }
        }
    }
}

fn speak(known: &Known, kind: Kind) -> std::io::Result<String> {
    let address: SocketAddr = kind.address.parse().unwrap();
    let tcp = TcpStream::connect_timeout(&address, HANG)?;
    tcp.set_nodelay(true)?;
    tcp.set_read_timeout(Some(HANG))?;
    tcp.set_write_timeout(Some(HANG))?;
    let mut stream = StreamOwned::new(tls(known, kind), tcp);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    ask(&mut stream, &known.key.text)
}

fn tls(known: &Known, kind: Kind) -> ClientConnection {
    let group = if kind.post_quantum {
        aws_lc_rs::kx_group::X25519MLKEM768
    } else {
        aws_lc_rs::kx_group::X25519
    };
    let provider = CryptoProvider {
        kx_groups: vec![group],
        ..aws_lc_rs::default_provider()
    };
    let mut roots = RootCertStore::empty();
    roots.add(known.certificate.clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.alpn_protocols.extend(token(&known.key, kind.offer));
    let name = ServerName::try_from("edge.test").unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

fn token(key: &Key, offer: Offer) -> Option<Vec<u8>> {
    static NONCE: AtomicU64 = AtomicU64::new(1);
    let api_key = ApiKey::new(key.text.clone().into_bytes());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let good = Token::issue(
        KeyId::from_hex(&key.id).unwrap(),
        derive::mac_key(&api_key, "demo").words(),
        u32::try_from(now.as_secs()).unwrap(),
        NONCE.fetch_add(1, Ordering::Relaxed),
    );
    let bad = Token {
        tag: good.tag ^ 1,
        ..good
    };
    match offer {
        Offer::Good => Some(good.to_name().to_vec()),
        Offer::Bad => Some(bad.to_name().to_vec()),
        Offer::Nothing => None,
    }
}
