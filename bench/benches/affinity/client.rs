//! A client: one connection, one request at a time, HTTP/1.1 written and read by hand so that
//! the moment of the first token is that of its bytes.

use super::PATIENCE;
use super::place::Place;
use bench::daemon::Daemon;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection to the edge.
pub(crate) struct Client {
    stream: StreamOwned<ClientConnection, TcpStream>,
    key: String,
}

/// One answered turn of a conversation.
pub(crate) struct Turn {
    /// From 0.
    pub(crate) number: usize,
    pub(crate) first_token: Duration,
    pub(crate) tokens: u64,
    pub(crate) cached: u64,
    /// Its text.
    pub(crate) answer: String,
}

impl Client {
    pub(crate) fn connect(place: &Place, daemon: &Daemon) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS 1.2 and 1.3")
            .with_root_certificates(place.roots())
            .with_no_client_auth();
        let name = ServerName::try_from("edge.test").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
        let tcp = TcpStream::connect(daemon.address("listen")).expect("the edge");
        tcp.set_nodelay(true).expect("our socket");
        tcp.set_read_timeout(Some(PATIENCE)).expect("our socket");
        Self {
            stream: StreamOwned::new(connection, tcp),
            key: place.key.clone(),
        }
    }

    /// Asks with those messages, as JSON. The error is what came instead of a whole answer.
    pub(crate) fn ask(&mut self, number: usize, messages: &str) -> Result<Turn, String> {
        let body =
            format!(r#"{{"model":"bench","max_tokens":2,"stream":true,"messages":[{messages}]}}"#);
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: edge.test\r\nx-api-key: {}\r\n\
             anthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            self.key,
            body.len()
        );
        let begun = Instant::now();
        let sent = (self.stream)
            .write_all(head.as_bytes())
            .and_then(|()| self.stream.write_all(body.as_bytes()))
            .and_then(|()| self.stream.flush());
        sent.map_err(|error| error.to_string())?;
        let (mut text, mut first_token) = (String::new(), None);
        let mut buffer = [0; 16_384];
        while !text.contains("\r\n0\r\n\r\n") {
            let count = self.stream.read(&mut buffer);
            match count.map_err(|error| error.to_string())? {
                0 => return Err(text),
                count => text += &String::from_utf8_lossy(&buffer[..count]),
            }
            if first_token.is_none() && text.contains("text_delta") {
                first_token = Some(begun.elapsed());
            }
            let is_error = text.contains("\r\n\r\n") && !text.starts_with("HTTP/1.1 200 ");
            if is_error || text.contains("event: error") {
                return Err(text);
            }
        }
        let number_of = |name: &str| -> u64 {
            let (_, rest) = text.split_once(&format!("\"{name}\":")).expect(name);
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            rest[..end].parse().expect(name)
        };
        let cached = number_of("cache_read_input_tokens");
        let deltas = text.split("\"text_delta\",\"text\":\"").skip(1);
        let answer = deltas.filter_map(|delta| delta.split('"').next());
        Ok(Turn {
            number,
            first_token: first_token.ok_or("no token")?,
            tokens: number_of("input_tokens") + number_of("cache_creation_input_tokens") + cached,
            cached,
            answer: answer.collect(),
        })
    }
}
