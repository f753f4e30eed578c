//! A program that uses the sidecar: plain HTTP, of either version.

use crate::world::soon;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// Which HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http {
    H1,
    H2,
}

impl Http {
    pub(crate) const BOTH: [Self; 2] = [Self::H1, Self::H2];
}

pub(crate) enum Program {
    H1(http1::SendRequest<Full<Bytes>>),
    H2(http2::SendRequest<Full<Bytes>>),
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn error(&self) -> String {
        let json = self.json();
        assert_eq!(json["type"], "error", "{self:?}");
        json["error"]["message"].as_str().unwrap().to_owned()
    }
}

impl Program {
    pub(crate) async fn connect(to: SocketAddr, http: Http) -> Self {
        let tcp = TcpStream::connect(to).await.unwrap();
        tcp.set_nodelay(true).unwrap();
        Self::over(tcp, http).await
    }

    pub(crate) async fn over(tcp: TcpStream, http: Http) -> Self {
        let io = TokioIo::new(tcp);
        match http {
            Http::H1 => {
                let (sender, connection) = http1::handshake(io).await.unwrap();
                tokio::spawn(connection);
                Self::H1(sender)
            }
            Http::H2 => {
                let begun = http2::handshake(TokioExecutor::new(), io).await;
                let (sender, connection) = begun.unwrap();
                tokio::spawn(connection);
                Self::H2(sender)
            }
        }
    }

    /// Sends; gives the answer's head.
    pub(crate) async fn begin(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::H1(sender) => {
                let host = http::HeaderValue::from_static("localhost");
                request.headers_mut().entry("host").or_insert(host);
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::H2(sender) => {
                let path = request.uri().path().to_owned();
                *request.uri_mut() = format!("http://localhost{path}").parse().unwrap();
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    pub(crate) async fn ask(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Answer> {
        soon("an answer", async {
            let (head, body) = self.begin(request).await?.into_parts();
            Ok(Answer {
                status: head.status,
                headers: head.headers,
                body: body.collect().await?.to_bytes(),
            })
        })
        .await
    }
}

pub(crate) fn get(path: &str) -> Request<Full<Bytes>> {
    request(Method::GET, path, "")
}

/// As an SDK sends it: with a key that says nothing.
pub(crate) fn message() -> Request<Full<Bytes>> {
    let body =
        r#"{"model":"claude-demo","max_tokens":8,"messages":[{"role":"user","content":"hi"}]}"#;
    request(Method::POST, "/v1/messages", body)
}

pub(crate) fn stream(tokens: u64) -> Request<Full<Bytes>> {
    let body = r#"{"max_tokens":9,"messages":[{"role":"user","content":"hi"}],"model":"claude-demo","stream":true}"#;
    let request = request(Method::POST, "/v1/messages", body);
    with(request, "x-demo-tokens", &tokens.to_string())
}

pub(crate) fn with(
    mut request: Request<Full<Bytes>>,
    name: &'static str,
    value: &str,
) -> Request<Full<Bytes>> {
    let value = value.parse().unwrap();
    request.headers_mut().insert(name, value);
    request
}

pub(crate) fn request(method: Method, path: &str, body: &str) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("x-api-key", "edge-connect")
        .header("anthropic-version", "2023-06-01")
        .header("content-type", "application/json")
        .body(Full::from(body.to_owned()))
        .unwrap()
}
