//! Clients: rustls below, hyper above.

use crate::world::{NAME, World, soon};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

/// How a client speaks TLS.
pub(crate) struct Hello {
    pub(crate) alpn: Vec<Vec<u8>>,
    pub(crate) versions: &'static [&'static SupportedProtocolVersion],
    /// Without it the hello fits one segment.
    pub(crate) post_quantum: bool,
    /// ChaCha20 before AES.
    pub(crate) likes_chacha: bool,
}

pub(crate) fn alpn(names: &[&[u8]]) -> Hello {
    Hello {
        alpn: names.iter().map(|name| name.to_vec()).collect(),
        versions: rustls::DEFAULT_VERSIONS,
        post_quantum: true,
        likes_chacha: false,
    }
}

impl World {
    pub(crate) fn client_config(&self, hello: &Hello) -> ClientConfig {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        if !hello.post_quantum {
            let classic = rustls::NamedGroup::X25519;
            provider.kx_groups.retain(|group| group.name() == classic);
        }
        if hello.likes_chacha {
            let is_aes = |name: &str| name.contains("AES");
            (provider.cipher_suites).sort_by_key(|one| one.suite().as_str().is_some_and(is_aes));
        }
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(self.files.path("ca.pem")).unwrap() {
            roots.add(certificate.unwrap()).unwrap();
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(hello.versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = hello.alpn.clone();
        config
    }

    pub(crate) async fn tls(&self, hello: &Hello) -> io::Result<TlsStream<TcpStream>> {
        let tcp = TcpStream::connect(self.address).await?;
        tcp.set_nodelay(true)?;
        self.tls_over(tcp, self.client_config(hello)).await
    }

    pub(crate) async fn tls_over<T: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: T,
        config: ClientConfig,
    ) -> io::Result<TlsStream<T>> {
        let connector = TlsConnector::from(Arc::new(config));
        let name = NAME.try_into().unwrap();
        soon("the TLS handshake", connector.connect(name, stream)).await
    }

    /// A connection that offers `h2`, or `http/1.1` alone, and `token` when there is one.
    pub(crate) async fn connect(&self, http: Http, token: Option<Vec<u8>>) -> Client {
        let mut names: Vec<Vec<u8>> = match http {
            Http::H2 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Http::H1 => vec![b"http/1.1".to_vec()],
        };
        names.extend(token);
        let hello = Hello {
            alpn: names,
            ..alpn(&[])
        };
        let tcp = std::net::TcpStream::connect(self.address).unwrap();
        let socket = tcp.try_clone().unwrap();
        tcp.set_nonblocking(true).unwrap();
        tcp.set_nodelay(true).unwrap();
        let tcp = TcpStream::from_std(tcp).unwrap();
        let tls = self
            .tls_over(tcp, self.client_config(&hello))
            .await
            .unwrap();
        let chosen = tls.get_ref().1.alpn_protocol();
        assert_eq!(chosen, Some(http.name()), "the protocol, never the token");
        Client {
            socket: Some(socket),
            ..Client::over(tls, http).await
        }
    }
}

/// Which HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http {
    H1,
    H2,
}

impl Http {
    pub(crate) const BOTH: [Self; 2] = [Self::H1, Self::H2];

    fn name(self) -> &'static [u8] {
        match self {
            Self::H1 => b"http/1.1",
            Self::H2 => b"h2",
        }
    }
}

/// An HTTP client on one connection.
pub(crate) struct Client {
    sender: Sender,
    /// Ends when the connection does.
    connection: JoinHandle<hyper::Result<()>>,
    /// The socket below, to close it behind TLS's back.
    socket: Option<std::net::TcpStream>,
}

enum Sender {
    H1(http1::SendRequest<AnyBody>),
    H2(http2::SendRequest<AnyBody>),
}

impl Client {
    pub(crate) async fn over<T>(stream: T, http: Http) -> Self
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(stream);
        match http {
            Http::H1 => {
                let (sender, connection) = http1::handshake(io).await.unwrap();
                Self {
                    sender: Sender::H1(sender),
                    connection: tokio::spawn(connection),
                    socket: None,
                }
            }
            Http::H2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                let (sender, connection) = builder
                    .initial_stream_window_size(1 << 20)
                    .initial_connection_window_size(8 << 20)
                    .handshake(io)
                    .await
                    .unwrap();
                Self {
                    sender: Sender::H2(sender),
                    connection: tokio::spawn(connection),
                    socket: None,
                }
            }
        }
    }

    /// Sends; the future gives the response's head.
    pub(crate) fn begin(
        &mut self,
        ask: Ask,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + Send + use<> {
        type Sent = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;
        let request = ask.request(matches!(self.sender, Sender::H2(_)));
        let sent: Sent = match &mut self.sender {
            Sender::H1(sender) => Box::pin(sender.send_request(request)),
            Sender::H2(sender) => Box::pin(sender.send_request(request)),
        };
        sent
    }

    pub(crate) async fn ready(&mut self) -> hyper::Result<()> {
        match &mut self.sender {
            Sender::H1(sender) => sender.ready().await,
            Sender::H2(sender) => sender.ready().await,
        }
    }

    /// Like [`Client::ask`] on a connection that is ready, without borrowing it.
    pub(crate) fn ask_owned(
        &mut self,
        ask: Ask,
    ) -> impl Future<Output = hyper::Result<Answer>> + Send + use<> {
        let sent = self.begin(ask);
        async move { Answer::read(sent.await?).await }
    }

    /// Sends and reads the response to its end.
    pub(crate) async fn ask(&mut self, ask: Ask) -> hyper::Result<Answer> {
        soon("an answer", async {
            self.ready().await?;
            let response = self.begin(ask).await?;
            Answer::read(response).await
        })
        .await
    }

    /// Leaves without a word, as a client that is killed does.
    pub(crate) fn vanish(&self) {
        let socket = self.socket.as_ref().unwrap();
        // The edge may have closed it before.
        let _ = socket.shutdown(std::net::Shutdown::Both);
    }

    /// Waits until the connection is closed by the other side.
    pub(crate) async fn closed(self) {
        let Self {
            sender, connection, ..
        } = self;
        let _ = soon("the connection's end", connection).await;
        drop(sender);
    }
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) async fn read(response: Response<Incoming>) -> hyper::Result<Self> {
        let (head, body) = response.into_parts();
        Ok(Self {
            status: head.status,
            headers: head.headers,
            body: body.collect().await?.to_bytes(),
        })
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// That it is an error in the API's shape, with the edge's headers.
    pub(crate) fn is_error(&self, status: u16, kind: &str, message: &str) {
        assert_eq!(self.status, status, "{self:?}");
        let json = self.json();
        assert_eq!(json["type"], "error");
        assert_eq!(json["error"]["type"], kind);
        let told = json["error"]["message"].as_str().unwrap();
        assert!(told.starts_with(message), "{told}");
        assert_eq!(json["request_id"], self.header("request-id"));
        assert!(self.header("request-id").starts_with("req_"));
        assert_eq!(self.header("content-type"), "application/json");
        assert_eq!(self.header("cache-control"), "private, no-store");
        assert!(["true", "false"].contains(&self.header("x-should-retry")));
    }
}

/// A request being put together.
pub(crate) struct Ask {
    method: Method,
    path: &'static str,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: AnyBody,
}

impl Ask {
    pub(crate) fn new(method: Method, path: &'static str) -> Self {
        Self {
            method,
            path,
            headers: Vec::new(),
            body: whole(Bytes::new()),
        }
    }

    /// A message request under that key.
    pub(crate) fn message(key: &str) -> Self {
        Self::new(Method::POST, "/v1/messages")
            .with("anthropic-version", "2023-06-01")
            .with("content-type", "application/json")
            .with("x-api-key", key)
            .body(r#"{"model":"claude-demo","max_tokens":8,"messages":[{"role":"user","content":"hi"}]}"#)
    }

    /// The same, answered by an event stream.
    pub(crate) fn stream(key: &str, tokens: u64) -> Self {
        Self::message(key)
            .body(r#"{"max_tokens":9,"messages":[],"model":"claude-demo","stream":true}"#)
            .with("x-demo-tokens", &tokens.to_string())
    }

    pub(crate) fn with(self, name: &'static str, value: &str) -> Self {
        self.with_bytes(name, value.as_bytes())
    }

    /// A value need not be UTF-8.
    pub(crate) fn with_bytes(mut self, name: &'static str, value: &[u8]) -> Self {
        self.headers.push((name, value.to_vec()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = whole(body.into());
        self
    }

    pub(crate) fn streamed(mut self, body: AnyBody) -> Self {
        self.body = body;
        self
    }

    pub(crate) fn request(self, absolute: bool) -> Request<AnyBody> {
        let uri = if absolute {
            format!("https://{NAME}{}", self.path)
        } else {
            self.path.to_owned()
        };
        let mut request = Request::builder().method(self.method).uri(uri);
        if !absolute {
            request = request.header("host", NAME);
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        request.body(self.body).unwrap()
    }
}

pub(crate) fn whole(bytes: Bytes) -> AnyBody {
    http_body_util::Full::new(bytes).boxed_unsync()
}

/// A body that comes piece by piece; it ends when the sender is dropped.
pub(crate) fn pieces() -> (mpsc::Sender<Bytes>, AnyBody) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, Pieces(receiver).boxed_unsync())
}

struct Pieces(mpsc::Receiver<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(cx)
            .map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
