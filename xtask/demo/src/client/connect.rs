//! TCP, TLS by rustls, HTTP by hyper: one connection, and what went wrong in the words of
//! whichever library said so.

use super::Options;
use super::reader::with_sources;
use anyhow::Context as _;
use bytes::Bytes;
use edge_demo::Answer;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// An open connection.
pub(super) struct Connection {
    /// The ALPN name that the server chose; empty when none.
    pub(super) protocol: String,
    /// The agreed key exchange group.
    pub(super) group: Option<String>,
    sender: Sender,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Connects and shakes hands. The inner error is the library's text.
    pub(super) async fn open(options: &Options) -> anyhow::Result<Result<Self, String>> {
        let config = tls_config(options)?;
        let name = ServerName::try_from(options.name.clone()).context("--name")?;
        let tcp = match TcpStream::connect(options.to).await {
            Ok(tcp) => tcp,
            Err(error) => return Ok(Err(format!("connect: {error}"))),
        };
        tcp.set_nodelay(true)?;
        let tls = match TlsConnector::from(Arc::new(config))
            .connect(name, tcp)
            .await
        {
            Ok(tls) => tls,
            Err(error) => return Ok(Err(words_of(&error))),
        };
        let (_, state) = tls.get_ref();
        let protocol = state.alpn_protocol().map_or_else(String::new, |name| {
            String::from_utf8_lossy(name).into_owned()
        });
        let group = state
            .negotiated_key_exchange_group()
            .map(|group| format!("{:?}", group.name()));
        let io = TokioIo::new(tls);
        let opened = if protocol == "h2" {
            http2::handshake(TokioExecutor::new(), io)
                .await
                .map(|(sender, driver)| {
                    tokio::spawn(driver);
                    Sender::Http2(sender)
                })
        } else {
            http1::handshake(io).await.map(|(sender, driver)| {
                tokio::spawn(driver);
                Sender::Http1(sender)
            })
        };
        Ok(match opened {
            Err(error) => Err(with_sources(&error)),
            Ok(sender) => Ok(Self {
                protocol,
                group,
                sender,
            }),
        })
    }

    /// Sends a request and waits for its answer's head.
    pub(super) async fn send(
        &mut self,
        mut request: http::Request<Full<Bytes>>,
    ) -> hyper::Result<http::Response<Incoming>> {
        match &mut self.sender {
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Sender::Http1(sender) => {
                // In HTTP/1.1 the authority travels in the host header (RFC 9112 section 3.2).
                let host = request.uri().host().unwrap_or_default().to_owned();
                *request.uri_mut() = http::Uri::from_static("/v1/messages");
                if let Ok(host) = http::HeaderValue::from_str(&host) {
                    request.headers_mut().insert(http::header::HOST, host);
                }
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }
}

fn tls_config(options: &Options) -> anyhow::Result<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    let path = &options.ca;
    for certificate in CertificateDer::pem_file_iter(path)
        .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?
    {
        roots.add(certificate.map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?)?;
    }
    let classic = vec![aws_lc_rs::kx_group::X25519];
    let hybrid = vec![
        aws_lc_rs::kx_group::X25519MLKEM768,
        aws_lc_rs::kx_group::X25519,
    ];
    let provider = CryptoProvider {
        kx_groups: if options.post_quantum {
            hybrid
        } else {
            classic
        },
        ..aws_lc_rs::default_provider()
    };
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = options
        .alpn
        .iter()
        .map(|name| name.clone().into())
        .collect();
    Ok(config)
}

/// rustls' own words where it has any: `AlertReceived(AccessDenied)`.
fn words_of(error: &io::Error) -> String {
    let inner = error
        .get_ref()
        .and_then(|e| e.downcast_ref::<rustls::Error>());
    inner.map_or_else(|| error.to_string(), |error| format!("{error:?}"))
}

/// Sends an HTTP request with no TLS around it and reports what comes back.
pub(super) async fn speak_plainly(to: SocketAddr) -> io::Result<Answer> {
    let mut tcp = TcpStream::connect(to).await?;
    tcp.write_all(b"GET /v1/health HTTP/1.1\r\nhost: edge\r\n\r\n")
        .await?;
    let mut came = Vec::new();
    // What came before a reset counts as well.
    let ended = (&mut tcp).take(4096).read_to_end(&mut came).await;
    let text = String::from_utf8_lossy(&came);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return match ended {
            Err(error) if came.is_empty() => Err(error),
            _ => Ok(Answer::failed(format!(
                "{} bytes that are no HTTP",
                came.len()
            ))),
        };
    };
    Ok(Answer {
        status: head.split(' ').nth(1).and_then(|word| word.parse().ok()),
        message: Some(body.trim().to_owned()),
        ..Answer::default()
    })
}
