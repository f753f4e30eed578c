//! HTTP/1.1 as a client needs it here, by hand, so that the moment of the first event is that
//! of its bytes.

use crate::PATIENCE;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection that is kept.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
}

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// When the first piece of text was there; none: there is none.
    pub(crate) first_event: Option<Instant>,
    /// Nothing else can be asked on its connection.
    pub(crate) is_last: bool,
}

impl Connection {
    /// Connects, with TLS when there is a configuration.
    pub(crate) fn new(
        address: SocketAddr,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Self, String> {
        let connect = || {
            let tcp = TcpStream::connect_timeout(&address, PATIENCE)?;
            tcp.set_nodelay(true)?;
            tcp.set_read_timeout(Some(PATIENCE))?;
            tcp.set_write_timeout(Some(PATIENCE))?;
            Ok(tcp)
        };
        let tcp = connect().map_err(|error: std::io::Error| format!("connect: {error}"))?;
        let stream: Box<dyn Stream> = match tls {
            Some(config) => {
                let name = ServerName::try_from("edge.test").expect("a name");
                let client = ClientConnection::new(Arc::clone(config), name);
                Box::new(StreamOwned::new(client.expect("a connection"), tcp))
            }
            None => Box::new(tcp),
        };
        Ok(Self { stream })
    }

    /// Sends a request as it is and reads its answer. The error is what came instead.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Result<Answer, String> {
        let sent = (self.stream)
            .write_all(request)
            .and_then(|()| self.stream.flush());
        sent.map_err(|error| format!("send: {error}"))?;
        let mut received = Vec::new();
        let mut first_event = None;
        let mut buffer = vec![0; 16_384];
        loop {
            let count = (self.stream.read(&mut buffer))
                .map_err(|error| format!("{error} after {}", String::from_utf8_lossy(&received)))?;
            received.extend_from_slice(&buffer[..count]);
            if first_event.is_none() && find(&received, b"\"content\":\"").is_some() {
                first_event = Some(Instant::now());
            }
            match whole(&received, count == 0) {
                Some(answer) => {
                    return Ok(Answer {
                        first_event,
                        ..answer
                    });
                }
                None if count == 0 => {
                    return Err(format!(
                        "broken off: {}",
                        String::from_utf8_lossy(&received)
                    ));
                }
                None => {}
            }
        }
    }
}

/// The answer, when it is whole.
fn whole(received: &[u8], is_closed: bool) -> Option<Answer> {
    let head_end = find(received, b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&received[..head_end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let field = |name: &str| {
        let value = head.lines().find_map(|line| line.strip_prefix(name));
        value.map(str::trim)
    };
    let body = &received[head_end..];
    let body = if field("transfer-encoding:").is_some_and(|value| value.ends_with("chunked")) {
        chunks(body)?
    } else if let Some(length) = field("content-length:") {
        let length: usize = length.parse().ok()?;
        body.get(..length)?.to_vec()
    } else if is_closed {
        body.to_vec()
    } else {
        return None;
    };
    let is_last = is_closed || field("connection:") == Some("close");
    Some(Answer {
        status,
        body,
        first_event: None,
        is_last,
    })
}

/// The body out of its chunks, when the last one is there.
fn chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = find(rest, b"\r\n")?;
        let size = std::str::from_utf8(&rest[..line]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        rest = &rest[line + 2..];
        let data = rest.get(..size + 2)?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(&data[..size]);
        rest = &rest[size + 2..];
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, what)
}
