//! New connections, by a full handshake or by a ticket, with one small request each; and many
//! that do nothing.

use crate::client::Connection;
use crate::target::Target;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// At a time.
const AT_A_TIME: usize = 8;

/// Opens that many, one request each; asserts that none but the asked kind of handshake was made.
pub(crate) async fn run(target: &Arc<Target>, number: usize, body: &Bytes, resume: bool) {
    if resume {
        // Each of those who will be at work together brings a ticket home.
        let first = (0..AT_A_TIME).map(|_| {
            let (target, body) = (Arc::clone(target), body.clone());
            tokio::spawn(async move { once(&target, &body, true).await })
        });
        for first in first.collect::<Vec<_>>() {
            first.await.expect("a client");
        }
    }
    let clients = (0..AT_A_TIME).map(|client| {
        let (target, body) = (Arc::clone(target), body.clone());
        let mine = (client..number).step_by(AT_A_TIME).count();
        tokio::spawn(async move {
            let mut resumed = 0;
            for _ in 0..mine {
                resumed += usize::from(once(&target, &body, resume).await);
            }
            resumed
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut resumed = 0;
    for client in clients {
        resumed += client.await.expect("a client");
    }
    assert_eq!(resumed, if resume { number } else { 0 }, "resumed");
}

async fn once(target: &Target, body: &Bytes, resume: bool) -> bool {
    let (mut connection, resumed) = Connection::open(target, resume).await;
    let mut bytes = 0;
    let count = |piece: &[u8]| bytes += piece.len();
    connection.ask(target, body.clone(), count).await;
    assert!(bytes > 0, "an answer");
    resumed
}

/// Opens that many, each with its HTTP/2 preface exchanged, and holds them: what `look` says with
/// none and with all of them there, each a second after.
pub(crate) async fn idle(
    target: &Arc<Target>,
    number: usize,
    look: impl Fn() -> u64,
) -> (u64, u64) {
    const SECOND: Duration = Duration::from_secs(1);
    tokio::time::sleep(SECOND).await;
    let before = look();
    let openers = (0..AT_A_TIME).map(|opener| {
        let target = Arc::clone(target);
        let mine = (opener..number).step_by(AT_A_TIME).count();
        tokio::spawn(async move {
            let mut open = Vec::with_capacity(mine);
            for _ in 0..mine {
                open.push(preface(&target).await);
            }
            open
        })
    });
    let openers: Vec<_> = openers.collect();
    let mut open = Vec::new();
    for opener in openers {
        open.extend(opener.await.expect("a client"));
    }
    tokio::time::sleep(SECOND).await;
    let after = look();
    for stream in &mut open {
        // One that the server has closed would have been counted as idle.
        let mut byte = [0];
        let closed = std::future::poll_fn(|context| {
            let mut buffer = tokio::io::ReadBuf::new(&mut byte);
            let read = std::pin::Pin::new(&mut *stream).poll_read(context, &mut buffer);
            std::task::Poll::Ready(match read {
                std::task::Poll::Pending => false,
                std::task::Poll::Ready(read) => read.is_err() || buffer.filled().is_empty(),
            })
        });
        assert!(!closed.await, "the server closed an idle connection");
    }
    (before, after)
}

/// A connection with HTTP/2's first words said on both sides, by hand: a client's memory is not
/// what is measured.
async fn preface(target: &Target) -> TlsStream<TcpStream> {
    let mut stream = target.tls(false).await;
    // The preface, and SETTINGS without any.
    let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stream.write_all(hello).await.expect("a server");
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await.expect("its SETTINGS");
    assert_eq!(frame[3], 4, "its SETTINGS");
    // And that they were read.
    let seen = b"\0\0\0\x04\x01\0\0\0\0";
    stream.write_all(seen).await.expect("a server");
    stream
}
