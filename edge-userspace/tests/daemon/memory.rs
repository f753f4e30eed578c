//! Many large bodies at once stay within the room for them.

use crate::process::{Daemon, Place, Tls};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::RootCertStore;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

const BODY_BYTES: usize = 32 << 20;
const ROOM_BYTES: u64 = 256 << 20;
/// What else there may be for 64 connections and streams: windows, TLS records, read buffers, and a
/// block of each body that is not full.
const SLACK_BYTES: u64 = 48 << 20;

/// A request with a picture, which is long and quickly counted.
fn body() -> Bytes {
    let begin = r#"{"model":"claude-demo","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":""#;
    let end = r#""}}]}]}"#;
    let picture = "A".repeat(BODY_BYTES - begin.len() - end.len());
    Bytes::from([begin, &picture, end].concat())
}

/// Reads every request to its end, keeps nothing of it, and answers `{}`.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for tcp in listener.incoming() {
            std::thread::spawn(move || serve(tcp.unwrap()));
        }
    });
    address
}

fn serve(mut tcp: TcpStream) -> Option<()> {
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let mut head = Vec::new();
        let body_begin = loop {
            if let Some(at) = memchr::memmem::find(&head, b"\r\n\r\n") {
                break at + 4;
            }
            let count = tcp.read(&mut buffer).ok().filter(|count| *count > 0)?;
            head.extend_from_slice(&buffer[..count]);
        };
        let text = std::str::from_utf8(&head[..body_begin]).ok()?;
        let length = text.split("content-length: ").nth(1)?;
        let length: usize = length.split("\r\n").next()?.parse().ok()?;
        let mut left = length - (head.len() - body_begin);
        while left > 0 {
            let count = tcp.read(&mut buffer).ok().filter(|count| *count > 0)?;
            left -= count;
        }
        let answer =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        tcp.write_all(answer).ok()?;
    }
}

/// Sends all of it, as the SDKs' HTTP/1.1 does, and only then listens; gives status and
/// `retry-after`.
fn ask(tls: &mut Tls, key: &str, body: &[u8]) -> (u16, String) {
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: edge.test\r\nx-api-key: {key}\r\n\
         anthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    tls.write_all(head.as_bytes()).unwrap();
    tls.write_all(body)
        .expect("a refused body is read to its end");
    tls.flush().unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(tls.read(&mut byte).unwrap(), 1, "an answer");
        answer.push(byte[0]);
    }
    let head = String::from_utf8(answer).unwrap();
    let header = |name: &str| {
        let value = head.split(&format!("\r\n{name}: ")).nth(1);
        value.map(|value| value.split("\r\n").next().unwrap().to_owned())
    };
    let length: usize = header("content-length").unwrap().parse().unwrap();
    let mut rest = vec![0; length];
    tls.read_exact(&mut rest).unwrap();
    let status = head[9..12].parse().unwrap();
    (status, header("retry-after").unwrap_or_default())
}

/// The same over one HTTP/2 connection, `streams` at once.
async fn ask_h2(
    place: &Place,
    daemon: &Daemon,
    key: &str,
    body: Bytes,
    streams: usize,
) -> Vec<(u16, String)> {
    let mut roots = RootCertStore::empty();
    roots.add(place.certificate.clone()).unwrap();
    let mut config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = tokio::net::TcpStream::connect(daemon.listen).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let tls = connector.connect("edge.test".try_into().unwrap(), tcp);
    let io = TokioIo::new(tls.await.unwrap());
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = builder.handshake(io).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut asked = Vec::new();
    for _ in 0..streams {
        let request = http::Request::post("https://edge.test/v1/messages")
            .header("x-api-key", key)
            .header("anthropic-version", "2023-06-01")
            .header("content-length", body.len())
            .body(Full::new(body.clone()))
            .unwrap();
        let mut sender = sender.clone();
        asked.push(tokio::spawn(async move {
            let response = sender.send_request(request).await.unwrap();
            let retry_after = response.headers().get("retry-after");
            let retry_after = retry_after.map(|value| value.to_str().unwrap().to_owned());
            let status = response.status().as_u16();
            response.into_body().collect().await.unwrap();
            (status, retry_after.unwrap_or_default())
        }));
    }
    let mut answers = Vec::new();
    for asked in asked {
        answers.push(asked.await.unwrap());
    }
    drop(sender);
    connection.abort();
    answers
}

/// A figure of `/proc/PID/status`, bytes.
fn memory(daemon: &Daemon, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() * 1024
}

#[test]
fn sixty_four_large_bodies_at_once_stay_in_their_room_and_none_is_lost() {
    let mut place = Place::new();
    place.upstream = upstream();
    place.configure(|text| text + &format!("\n[prompt]\nmax_held_bytes = {ROOM_BYTES}\n"));
    let key = place.new_key("one");
    let daemon = place.start();
    let before = memory(&daemon, "VmRSS");
    let body = body();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut answers: Vec<(u16, String)> = std::thread::scope(|scope| {
        let (place, daemon, key) = (&place, &daemon, &key);
        let h1: Vec<_> = (0..32)
            .map(|_| {
                let body = body.clone();
                scope.spawn(move || {
                    let mut tls = place.connect_with(daemon, key).unwrap();
                    let answer = ask(&mut tls, &key.text, &body);
                    // The connection serves on, whatever became of the body.
                    let next = crate::process::ask(&mut tls, &key.text).unwrap();
                    assert!(next.starts_with("HTTP/1.1 200 "), "{next}");
                    answer
                })
            })
            .collect();
        let h2: Vec<_> = (0..4)
            .map(|_| {
                let (body, handle) = (body.clone(), runtime.handle().clone());
                scope.spawn(move || handle.block_on(ask_h2(place, daemon, &key.text, body, 8)))
            })
            .collect();
        let h1 = h1.into_iter().map(|thread| thread.join().unwrap());
        let mut answers: Vec<_> = h1.collect();
        for thread in h2 {
            answers.extend(thread.join().unwrap());
        }
        answers
    });
    let most = memory(&daemon, "VmHWM");
    println!("{} MiB before, {} MiB at most", before >> 20, most >> 20);
    assert!(
        most <= before + ROOM_BYTES + SLACK_BYTES,
        "{} MiB",
        most >> 20
    );
    answers.sort();
    let served = answers.iter().filter(|(status, _)| *status == 200).count();
    let refused = answers
        .iter()
        .filter(|answer| **answer == (529, "1".to_owned()));
    assert_eq!(served + refused.count(), 64, "{answers:?}");
    assert!((1..64).contains(&served), "{served} of 64 at once");
    // Nothing is held any more: who comes again is served.
    daemon.wait_for_status(|status| status["prompts"]["held_bytes"] == 0);
    for _ in 0..2 {
        let mut tls = place.connect_with(&daemon, &key).unwrap();
        assert_eq!(ask(&mut tls, &key.text, &body).0, 200);
    }
    drop(runtime);
    daemon.stop();
}
