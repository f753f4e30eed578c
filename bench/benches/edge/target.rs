//! How a client reaches what is measured: TLS 1.3 with a token of its own in each connection's
//! hello, or plain TCP. All clients offer the same to all: X25519, `h2`.

use bench::peers::{Site, Speaks};
use edge_client::{ApiKey, Clock, TokenSource};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The audience of the edge's configuration in `bench/peers`.
pub(crate) const AUDIENCE: &str = "bench";

/// What clients of a server need.
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) speaks: Speaks,
    pub(crate) key: String,
    /// OpenAI's shape, not that of the Messages API.
    pub(crate) is_chat: bool,
    /// What is sent beside the usual.
    pub(crate) headers: Vec<(&'static str, String)>,
    config: Arc<ClientConfig>,
    resuming: Arc<ClientConfig>,
    tokens: Option<TokenSource>,
}

impl Target {
    /// `tokens`: each connection offers one. `headers` are sent beside the usual.
    pub(crate) fn new(
        site: &Site,
        speaks: Speaks,
        tokens: bool,
        is_chat: bool,
        headers: Vec<(&'static str, String)>,
    ) -> Self {
        let config = |resumption| {
            let mut provider = rustls::crypto::aws_lc_rs::default_provider();
            provider.kx_groups = vec![rustls::crypto::aws_lc_rs::kx_group::X25519];
            let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
                .with_protocol_versions(&[&rustls::version::TLS13])
                .expect("TLS 1.3")
                .with_root_certificates(site.roots())
                .with_no_client_auth();
            config.resumption = resumption;
            Arc::new(config)
        };
        let source = || {
            let key = ApiKey::new(site.key.clone().into_bytes());
            TokenSource::new(&key, AUDIENCE, Arc::new(Clock::new()))
        };
        Self {
            address: site.listen,
            speaks,
            key: site.key.clone(),
            is_chat,
            headers,
            config: config(Resumption::disabled()),
            resuming: config(Resumption::in_memory_sessions(64)),
            tokens: tokens.then(source),
        }
    }

    /// The path that requests are sent to.
    pub(crate) fn path(&self) -> &'static str {
        if self.is_chat {
            "/v1/chat/completions"
        } else {
            "/v1/messages"
        }
    }

    /// A request in HTTP/1.1, with `more` lines in its head.
    pub(crate) fn request(&self, body: &[u8], more: &str) -> Vec<u8> {
        let headers = self.headers.iter();
        let headers: String = headers
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: edge.test\r\ncontent-type: application/json\r\n\
             authorization: Bearer {}\r\nx-api-key: {}\r\nanthropic-version: 2023-06-01\r\n\
             content-length: {}\r\n{headers}{more}\r\n",
            self.path(),
            self.key,
            self.key,
            body.len()
        );
        [head.as_bytes(), body].concat()
    }

    /// What a connection offers: to the edge a fresh token too.
    pub(crate) fn alpn(&self) -> Vec<Vec<u8>> {
        match &self.tokens {
            Some(tokens) => tokens.alpn(&[b"h2"]).expect("random bytes"),
            None => vec![b"h2".to_vec()],
        }
    }

    /// A connection.
    pub(crate) async fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).await.expect("a server");
        stream.set_nodelay(true).expect("our socket");
        stream
    }

    /// A connection with TLS. `resume`: by a ticket of an earlier one, if there is one.
    pub(crate) async fn tls(&self, resume: bool) -> TlsStream<TcpStream> {
        let config = if resume { &self.resuming } else { &self.config };
        let connector = TlsConnector::from(Arc::clone(config));
        let name = ServerName::try_from(Site::NAME).expect("a name");
        let stream = self.tcp().await;
        let stream = connector.with_alpn(self.alpn()).connect(name, stream).await;
        let stream = stream.expect("a handshake");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
        stream
    }
}
