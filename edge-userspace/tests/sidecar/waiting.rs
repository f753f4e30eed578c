//! Bodies that no edge takes.

use crate::setup::{Local, options};
use crate::world::{NAME, World, until};
use bytes::Bytes;
use edge_client::Endpoint;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::io::InspectWriter;

/// What a program could send when it sends as many bodies of that length as it can on one
/// connection, and what is kept of them.
async fn sent(length: usize, held_bytes: u64) -> (u64, u64) {
    let world = World::new();
    // Takes connections and says nothing, so that no request goes anywhere.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = silent.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((tcp, _)) = silent.accept().await {
            open.push(tcp);
        }
    });
    let mut wanted = options(&[&world]);
    let url = format!("https://{NAME}:{}", at.port());
    wanted.edges = vec![Endpoint::parse(&url).unwrap().at(at)];
    wanted.held_bytes = held_bytes;
    let local = Local::with(wanted).await;
    let tcp = TcpStream::connect(local.address).await.unwrap();
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    let counting = InspectWriter::new(tcp, move |bytes| {
        count.fetch_add(bytes.len() as u64, Ordering::SeqCst);
    });
    let io = TokioIo::new(counting);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut asked = Vec::new();
    for _ in 0..40 {
        let request = Request::post("http://localhost/v1/messages")
            .header("content-length", length)
            .body(Full::new(Bytes::from(vec![b'x'; length])))
            .unwrap();
        asked.push(tokio::spawn(sender.send_request(request)));
    }
    let (mut last, mut still) = (0, 0);
    until("what can be sent to be sent", || {
        let now = written.load(Ordering::SeqCst);
        still = if now == last && now > 0 { still + 1 } else { 0 };
        last = now;
        still > 300
    })
    .await;
    let kept = local.status().held_bytes;
    for asked in &asked {
        assert!(!asked.is_finished(), "nobody answers");
        asked.abort();
    }
    connection.abort();
    until("what was kept to be let go", || {
        local.status().held_bytes == 0
    })
    .await;
    (last, kept)
}

#[tokio::test]
async fn bodies_that_no_edge_takes_wait_at_the_program() {
    // Heads and frames' headers come on top.
    const FRAMING: u64 = 8 * 1024;
    let (written, kept) = sent(2 << 20, 1 << 20).await;
    println!("long bodies: {written} bytes sent, {kept} kept");
    assert_eq!(kept, 0, "too long to be read before they go on");
    assert!(written <= (128 << 10) + FRAMING, "{written}");
    let (written, kept) = sent(900 << 10, 1 << 20).await;
    println!("shorter ones: {written} bytes sent, {kept} kept");
    assert!((1 << 20..=(1 << 20) + (64 << 10)).contains(&kept), "{kept}");
    assert!(written <= kept + (128 << 10) + FRAMING, "{written}");
}
