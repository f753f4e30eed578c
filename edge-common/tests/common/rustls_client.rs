//! ClientHellos made by rustls, in memory: no socket.

use rustls::client::{EchGreaseConfig, EchMode, Resumption};
use rustls::crypto::aws_lc_rs::{self, hpke::ALL_SUPPORTED_SUITES, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use rustls::{SupportedProtocolVersion, crypto::hpke::HpkePublicKey};
use std::io::Write as _;
use std::sync::Arc;

/// How the hello is to come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One key share, X25519.
    Classic,
    /// X25519MLKEM768 first, as by default: a hello of more than one segment.
    PostQuantum,
    /// TLS 1.2 alone.
    Tls12,
    /// Encrypted ClientHello's placeholder extension (draft-ietf-tls-esni, GREASE).
    EchGrease,
    /// With a pre-shared key of an earlier connection.
    Resumption,
    /// The same, and early data behind the hello.
    EarlyData,
    /// The second hello, after a HelloRetryRequest.
    Retry,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Classic,
        Self::PostQuantum,
        Self::Tls12,
        Self::EchGrease,
        Self::Resumption,
        Self::EarlyData,
        Self::Retry,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::PostQuantum => "post-quantum",
            Self::Tls12 => "tls12",
            Self::EchGrease => "ech-grease",
            Self::Resumption => "resumption",
            Self::EarlyData => "early-data",
            Self::Retry => "retry",
        }
    }
}

/// What a rustls client that offers `names` sends first (second, for [`Kind::Retry`]).
pub(crate) fn hello(kind: Kind, names: &[&[u8]]) -> Vec<u8> {
    let mut client = client(kind);
    client.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
    let client = Arc::new(client);
    match kind {
        Kind::Resumption | Kind::EarlyData => {
            converse(&client, &server(&[&kx_group::X25519]));
            let mut again = connect(&client);
            if kind == Kind::EarlyData {
                let mut early = again.early_data().expect("a ticket that allows early data");
                early.write_all(b"POST /v1/messages HTTP/1.1\r\n").unwrap();
            }
            flight(&mut again)
        }
        Kind::Retry => {
            let server = server(&[&kx_group::SECP384R1]);
            let mut client = connect(&client);
            let mut server = ServerConnection::new(server).unwrap();
            give(&flight(&mut client), &mut server);
            let mut retry = Vec::new();
            server.write_tls(&mut retry).unwrap();
            client.read_tls(&mut retry.as_slice()).unwrap();
            client.process_new_packets().unwrap();
            let both = flight(&mut client);
            // A change_cipher_spec record goes before it (RFC 8446 appendix D.4).
            both.strip_prefix(&[20, 3, 3, 0, 1, 1]).unwrap().to_vec()
        }
        _ => flight(&mut connect(&client)),
    }
}

fn client(kind: Kind) -> ClientConfig {
    let versions: &[&SupportedProtocolVersion] = match kind {
        Kind::Tls12 => &[&TLS12],
        Kind::PostQuantum => &[&TLS12, &TLS13],
        _ => &[&TLS13],
    };
    let groups: &[&'static dyn SupportedKxGroup] = match kind {
        Kind::PostQuantum => &[kx_group::X25519MLKEM768, kx_group::X25519],
        Kind::Retry => &[kx_group::X25519, kx_group::SECP384R1],
        _ => &[kx_group::X25519],
    };
    let builder = ClientConfig::builder_with_provider(provider(groups));
    let builder = if kind == Kind::EchGrease {
        let suite = ALL_SUPPORTED_SUITES[0];
        let (public, _) = suite.generate_key_pair().unwrap();
        let grease = EchGreaseConfig::new(suite, HpkePublicKey(public.0));
        builder.with_ech(EchMode::Grease(grease)).unwrap()
    } else {
        builder.with_protocol_versions(versions).unwrap()
    };
    let mut roots = RootCertStore::empty();
    roots.add(certificate().0.clone()).unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.resumption = Resumption::in_memory_sessions(8);
    config.enable_early_data = kind == Kind::EarlyData;
    config
}

fn server(groups: &[&'static &'static dyn SupportedKxGroup]) -> Arc<ServerConfig> {
    let groups: Vec<_> = groups.iter().map(|group| **group).collect();
    let (certificate, key) = certificate();
    let mut config = ServerConfig::builder_with_provider(provider(&groups))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.max_early_data_size = 1 << 14;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

fn provider(groups: &[&'static dyn SupportedKxGroup]) -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = groups.to_vec();
    Arc::new(provider)
}

fn certificate() -> (
    rustls::pki_types::CertificateDer<'static>,
    PrivateKeyDer<'static>,
) {
    static MADE: std::sync::OnceLock<(Vec<u8>, Vec<u8>)> = std::sync::OnceLock::new();
    let (certificate, key) = MADE.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(["edge.example".to_owned()]).unwrap();
        (made.cert.der().to_vec(), made.signing_key.serialize_der())
    });
    let key = PrivateKeyDer::Pkcs8(key.clone().into());
    (certificate.clone().into(), key)
}

fn connect(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("edge.example").unwrap();
    ClientConnection::new(Arc::clone(config), name).unwrap()
}

fn flight(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

fn give(mut bytes: &[u8], server: &mut ServerConnection) {
    while !bytes.is_empty() {
        server.read_tls(&mut bytes).unwrap();
        server.process_new_packets().unwrap();
    }
}

/// A whole handshake, and the tickets after it.
fn converse(config: &Arc<ClientConfig>, server: &Arc<ServerConfig>) {
    let mut client = connect(config);
    let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
    for _ in 0..4 {
        give(&flight(&mut client), &mut server);
        let mut answer = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut answer).unwrap();
        }
        let mut answer = answer.as_slice();
        while !answer.is_empty() {
            client.read_tls(&mut answer).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    assert!(!client.is_handshaking());
}
