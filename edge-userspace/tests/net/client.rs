//! Clients as they are met with: rustls in several shapes, with and without a token, each
//! from an address of its own, and hellos of other libraries as they were captured.

use super::process::{self, Key, PATIENCE, Place};
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::crypto::{ActiveKeyExchange, CryptoProvider, SharedSecret, SupportedKxGroup};
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, NamedGroup, ProtocolVersion, RootCertStore, StreamOwned,
};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;

/// How a client's hello comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// One key share, X25519: one segment.
    Classic,
    /// X25519MLKEM768 first, as by default: two segments.
    PostQuantum,
    /// TLS 1.2 alone.
    Tls12,
    /// A key share that the edge does not know, so that it asks for another hello.
    Retry,
    /// The same, and the share is so long that the first hello takes two segments.
    RetryLong,
}

impl Shape {
    const ALL: [Self; 5] = [
        Self::Classic,
        Self::PostQuantum,
        Self::Tls12,
        Self::Retry,
        Self::RetryLong,
    ];

    /// Whether its first hello takes more than one segment.
    pub(crate) const fn is_long(self) -> bool {
        matches!(self, Self::PostQuantum | Self::RetryLong)
    }

    /// Whether the edge asks for a second hello.
    pub(crate) const fn is_retried(self) -> bool {
        matches!(self, Self::Retry | Self::RetryLong)
    }

    fn groups(self) -> Vec<&'static dyn SupportedKxGroup> {
        match self {
            Self::Classic | Self::Tls12 => vec![kx_group::X25519],
            Self::PostQuantum => vec![kx_group::X25519MLKEM768, kx_group::X25519],
            Self::Retry => vec![&Unknown { share_bytes: 32 }, kx_group::X25519],
            Self::RetryLong => vec![&Unknown { share_bytes: 1216 }, kx_group::X25519],
        }
    }
}

/// A key exchange of which no server knows: it is offered and never comes about.
#[derive(Debug)]
struct Unknown {
    share_bytes: usize,
}

impl SupportedKxGroup for Unknown {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
        Ok(Box::new(Share(vec![7; self.share_bytes])))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::Unknown(0xfe01)
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

struct Share(Vec<u8>);

impl ActiveKeyExchange for Share {
    fn complete(self: Box<Self>, _: &[u8]) -> Result<SharedSecret, rustls::Error> {
        Err(rustls::Error::General("no server knows this group".into()))
    }

    fn pub_key(&self) -> &[u8] {
        &self.0
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::Unknown(0xfe01)
    }
}

/// Clients that trust one edge's certificate.
pub(crate) struct Clients(Vec<ClientConfig>);

impl Clients {
    pub(crate) fn of(place: &Place) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(place.certificate.clone()).unwrap();
        let roots = Arc::new(roots);
        let config = |shape: Shape| {
            let provider = CryptoProvider {
                kx_groups: shape.groups(),
                ..aws_lc_rs::default_provider()
            };
            let versions = match shape {
                Shape::Tls12 => &[&TLS12][..],
                Shape::PostQuantum => &[&TLS12, &TLS13],
                _ => &[&TLS13],
            };
            let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
                .with_protocol_versions(versions)
                .unwrap()
                .with_root_certificates(Arc::clone(&roots))
                .with_no_client_auth();
            config.resumption = rustls::client::Resumption::disabled();
            config
        };
        Self(Shape::ALL.map(config).into())
    }

    /// A session that has not sent anything, which offers this token last.
    pub(crate) fn session(&self, shape: Shape, token: Option<Vec<u8>>) -> ClientConnection {
        let mut config = self.0[shape as usize].clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.alpn_protocols.extend(token);
        let name = ServerName::try_from("edge.test").unwrap();
        ClientConnection::new(Arc::new(config), name).unwrap()
    }

    /// What a client of this shape sends first.
    pub(crate) fn hello(&self, shape: Shape, token: Option<Vec<u8>>) -> Vec<u8> {
        let mut session = self.session(shape, token);
        let mut hello = Vec::new();
        session.write_tls(&mut hello).unwrap();
        hello
    }

    /// Connects, shakes hands, makes a request with this key and reads the answer whole.
    ///
    /// # Errors
    /// What went wrong, at which step, in the library's words.
    pub(crate) fn ask(&self, ask: &Ask<'_>) -> Result<(), String> {
        let at = |step: &'static str| move |error: io::Error| format!("{step}: {error}");
        let tcp = connect(ask.from, ask.to).map_err(at("connect"))?;
        let mut tls = StreamOwned::new(self.session(ask.shape, ask.token.clone()), tcp);
        while tls.conn.is_handshaking() {
            tls.conn
                .complete_io(&mut tls.sock)
                .map_err(at("handshake"))?;
        }
        let head = process::ask(&mut tls, &ask.key.text).map_err(at("request"))?;
        if !head.starts_with("HTTP/1.1 200 ") {
            return Err(format!("answer: {head}"));
        }
        tls.conn.send_close_notify();
        tls.flush().map_err(at("close"))
    }
}

/// One connection and its request.
#[derive(Clone)]
pub(crate) struct Ask<'a> {
    pub(crate) shape: Shape,
    pub(crate) key: &'a Key,
    pub(crate) token: Option<Vec<u8>>,
    pub(crate) from: IpAddr,
    pub(crate) to: SocketAddr,
}

/// A TCP connection from this address.
pub(crate) fn connect(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    socket.connect_timeout(&to.into(), PATIENCE)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket.into())
}

/// Sends bytes and waits for a word, whatever it is.
///
/// # Errors
/// When there comes none.
pub(crate) fn word_for(hello: &[u8], from: IpAddr, to: SocketAddr) -> Result<(), String> {
    let mut tcp = connect(from, to).map_err(|error| format!("connect: {error}"))?;
    tcp.write_all(hello)
        .map_err(|error| format!("write: {error}"))?;
    match tcp.read(&mut [0; 4096]) {
        Ok(1..) => Ok(()),
        Ok(0) => Err("closed without a word".into()),
        Err(error) => Err(format!("read: {error}")),
    }
}
