//! A client of our own, on the h2 crate: for bodies that differ, streams, and new connections.

use crate::target::Target;
use bench::peers::Speaks;
use bytes::Bytes;
use h2::client::SendRequest;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// A hang guard.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A connection that takes requests.
pub(crate) enum Connection {
    /// HTTP/2 over TLS: any number at a time.
    H2(SendRequest<Bytes>, JoinHandle<()>),
    /// HTTP/1.1, one at a time.
    H1(TcpStream),
}

impl Connection {
    /// One to that server, and whether it resumed a session.
    pub(crate) async fn open(target: &Target, resume: bool) -> (Self, bool) {
        match target.speaks {
            Speaks::Plain => (Self::H1(target.tcp().await), false),
            Speaks::Tls => {
                let stream = target.tls(resume).await;
                let kind = stream.get_ref().1.handshake_kind();
                let (send, connection) = h2::client::Builder::new()
                    .initial_window_size(1 << 20)
                    .initial_connection_window_size(8 << 20)
                    .handshake(stream)
                    .await
                    .expect("HTTP/2");
                let driver = tokio::spawn(async move {
                    // The server may end it when all is answered.
                    let _ = connection.await;
                });
                let resumed = kind == Some(rustls::HandshakeKind::Resumed);
                (Self::H2(send, driver), resumed)
            }
        }
    }

    /// Sends a request and hands each piece of the answer's body to `seen`. The status must be
    /// 200.
    pub(crate) async fn ask(&mut self, target: &Target, body: Bytes, mut seen: impl FnMut(&[u8])) {
        let asking = async {
            match self {
                Self::H2(send, _) => h2(send, target, body, &mut seen).await,
                Self::H1(stream) => h1(stream, target, &body, &mut seen).await,
            }
        };
        let asked = tokio::time::timeout(PATIENCE, asking).await;
        asked.expect("an answer in time");
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Self::H2(_, driver) = self {
            driver.abort();
        }
    }
}

async fn h2(
    send: &mut SendRequest<Bytes>,
    target: &Target,
    body: Bytes,
    seen: &mut impl FnMut(&[u8]),
) {
    let request = http::Request::post(format!("https://edge.test{}", target.path()))
        .header("content-type", "application/json")
        .header("content-length", body.len())
        .header("anthropic-version", "2023-06-01")
        .header("x-api-key", &target.key)
        .body(())
        .expect("a request");
    let ready = send.clone().ready().await;
    let (response, mut stream) = ready
        .and_then(|mut send| send.send_request(request, false))
        .expect("a stream");
    let mut rest = body;
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let room = std::future::poll_fn(|context| stream.poll_capacity(context)).await;
        let room = room.expect("a stream that lives").expect("room");
        let piece = rest.split_to(room.min(rest.len()));
        stream.send_data(piece, rest.is_empty()).expect("a stream");
    }
    let response = response.await.expect("an answer");
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    while let Some(piece) = body.data().await {
        let piece = piece.expect("a whole answer");
        seen(&piece);
        let _ = body.flow_control().release_capacity(piece.len());
    }
}

async fn h1(stream: &mut TcpStream, target: &Target, body: &[u8], seen: &mut impl FnMut(&[u8])) {
    let request = target.request(body, "");
    stream.write_all(&request).await.expect("a server");
    let mut buffer = Vec::with_capacity(16_384);
    let head = loop {
        let count = stream.read_buf(&mut buffer).await.expect("a server");
        assert!(count > 0, "no answer");
        if let Some(head) = memchr::memmem::find(&buffer, b"\r\n\r\n") {
            break head + 4;
        }
    };
    let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
    assert!(text.starts_with("http/1.1 200"), "{text}");
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    buffer.drain(..head);
    if let Some(length) = length {
        let length: usize = length.trim().parse().expect("a number");
        while buffer.len() < length {
            assert!(stream.read_buf(&mut buffer).await.expect("a server") > 0);
        }
        return seen(&buffer);
    }
    // The frame of chunks may be handed on too: who reads events looks for their text alone.
    let mut end = Vec::new();
    loop {
        seen(&buffer);
        end.extend_from_slice(&buffer);
        end.drain(..end.len().saturating_sub(5));
        if end == b"0\r\n\r\n" {
            return;
        }
        buffer.clear();
        assert!(stream.read_buf(&mut buffer).await.expect("a server") > 0);
    }
}
