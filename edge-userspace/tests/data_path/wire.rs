//! Bytes on the wire that no good client sends, or few do: cut hellos, pipelines, smuggling.

use crate::client::{Ask, Client, Http, alpn};
use crate::world::{ALICE, World, soon, token};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

const RECORD_HEADER: usize = 5;

/// Sends the first flight in other pieces than TLS wrote it in.
struct Cut {
    tcp: TcpStream,
    how: How,
    first: bool,
    left: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum How {
    /// The bytes in two writes, with a pause between.
    Writes(usize),
    /// The message in records of that many bytes.
    Records(usize),
}

impl Cut {
    async fn connect(world: &World, how: How) -> Self {
        let tcp = TcpStream::connect(world.address).await.unwrap();
        tcp.set_nodelay(true).unwrap();
        Self {
            tcp,
            how,
            first: true,
            left: Vec::new(),
        }
    }

    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.left.is_empty() {
            let sent = ready!(Pin::new(&mut self.tcp).poll_write(cx, &self.left))?;
            self.left.drain(..sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Cut {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Cut {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_left(cx))?;
        if !self.first {
            return Pin::new(&mut self.tcp).poll_write(cx, bytes);
        }
        self.first = false;
        match self.how {
            How::Writes(at) => {
                let at = at.min(bytes.len());
                // Nothing is in the way of the first write on a new connection.
                assert_eq!(self.tcp.try_write(&bytes[..at])?, at);
                std::thread::sleep(std::time::Duration::from_micros(300));
                self.left = bytes[at..].to_vec();
            }
            How::Records(size) => {
                for fragment in bytes[RECORD_HEADER..].chunks(size) {
                    self.left.extend_from_slice(&[22, 3, 1]);
                    let length = u16::try_from(fragment.len()).unwrap();
                    self.left.extend_from_slice(&length.to_be_bytes());
                    self.left.extend_from_slice(fragment);
                }
            }
        }
        let _ = self.poll_left(cx)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_left(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

/// Connects with a hello that is cut so; gives the error when it is refused.
async fn connect_cut(world: &World, how: How, token: &[u8]) -> io::Result<()> {
    let cut = Cut::connect(world, how).await;
    let config = world.client_config(&alpn(&[b"h2", b"http/1.1", token]));
    world.tls_over(cut, config).await.map(drop)
}

#[tokio::test]
async fn a_hello_may_be_cut_anywhere_between_segments() {
    let world = World::new();
    // Every cut is judged in the unit tests; these go through the socket and TLS.
    for at in (1..1700).step_by(61) {
        connect_cut(&world, How::Writes(at), &token(ALICE))
            .await
            .unwrap();
    }
    let unknown = token(crate::world::MALLORY);
    for at in [1, 5, 6, 100, 1400] {
        let error = connect_cut(&world, How::Writes(at), &unknown)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("AccessDenied"), "{at}: {error}");
    }
}

#[tokio::test]
async fn a_hello_may_be_cut_over_records() {
    let world = World::new();
    for size in [1, 2, 3, 7, 64, 500, 1000, 1400] {
        connect_cut(&world, How::Records(size), &token(ALICE))
            .await
            .unwrap();
    }
    let unknown = token(crate::world::MALLORY);
    for size in [1, 64, 1000] {
        let error = connect_cut(&world, How::Records(size), &unknown)
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("AccessDenied"),
            "{size}: {error}"
        );
    }
}

#[tokio::test]
async fn a_connection_whose_hello_was_cut_serves() {
    let world = World::new();
    let cut = Cut::connect(&world, How::Records(100)).await;
    let config = world.client_config(&alpn(&[b"http/1.1", &token(ALICE)]));
    let tls = world.tls_over(cut, config).await.unwrap();
    let mut client = Client::over(tls, Http::H1).await;
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    assert_eq!(answer.header("x-claude-route"), "direct");
}

/// Writes raw HTTP/1.1 and reads to the end of the connection.
async fn raw(world: &World, bytes: &[u8]) -> String {
    let mut tls = world
        .tls(&alpn(&[b"http/1.1", &token(ALICE)]))
        .await
        .unwrap();
    tls.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = tls.read_to_end(&mut answer);
    // An end without close_notify is an end here.
    let _ = soon("the connection's end", read).await;
    String::from_utf8(answer).unwrap()
}

fn head(more: &str) -> String {
    format!(
        "POST /v1/messages HTTP/1.1\r\nhost: edge.test\r\nx-api-key: {ALICE}\r\n\
         anthropic-version: 2023-06-01\r\nx-demo-echo: 1\r\n{more}\r\n"
    )
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let world = World::new();
    let mut bytes = String::new();
    for n in 0..4 {
        let more = if n == 3 { "connection: close\r\n" } else { "" };
        bytes += &head(&format!("x-n: {n}\r\ncontent-length: 3\r\n{more}"));
        bytes += &format!("[{n}]");
    }
    let answers = raw(&world, bytes.as_bytes()).await;
    let order: Vec<_> = (answers.match_indices("[\"x-n\",\""))
        .map(|(at, found)| &answers[at + found.len()..][..1])
        .collect();
    assert_eq!(order, ["0", "1", "2", "3"], "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 4);
}

#[tokio::test]
async fn framings_that_could_smuggle_reach_the_upstream_as_one_request_or_none() {
    let world = World::new();
    let smuggled = "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n";
    let chunked = format!("0\r\n\r\n{smuggled}");
    let (cl, len) = (smuggled.len(), chunked.len());
    for (what, more, body) in [
        (
            "two lengths",
            format!("content-length: 0\r\ncontent-length: {cl}\r\n"),
            smuggled,
        ),
        (
            "a signed length",
            format!("content-length: +{cl}\r\n"),
            smuggled,
        ),
        (
            "a list of lengths",
            format!("content-length: 0, {cl}\r\n"),
            smuggled,
        ),
        (
            "an encoding that is not chunked",
            "transfer-encoding: gzip\r\n".to_owned(),
            smuggled,
        ),
        (
            "chunked not last",
            "transfer-encoding: chunked, gzip\r\n".to_owned(),
            &chunked,
        ),
        (
            "another encoding too",
            "transfer-encoding: gzip, chunked\r\n".to_owned(),
            &chunked,
        ),
        (
            "a disguised encoding",
            "transfer-encoding: xchunked\r\n".to_owned(),
            &chunked,
        ),
        (
            "a folded header",
            "x-fold: a\r\n b\r\ncontent-length: 0\r\n".to_owned(),
            "",
        ),
        (
            "a blank before the colon",
            "transfer-encoding : chunked\r\n".to_owned(),
            &chunked,
        ),
        (
            "a bare newline in a name",
            "x\ny: 1\r\ncontent-length: 0\r\n".to_owned(),
            "",
        ),
    ] {
        let before = world.model.stats().figures().requests;
        let bytes = format!("{}{body}", head(&more));
        let answer = raw_until_answer(&world, &bytes).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{what}: {answer}");
        let after = world.model.stats().figures().requests;
        assert_eq!(after, before, "{what}: nothing reached the upstream");
    }
    // Both framings: the encoding counts (RFC 9112 section 6.3), and the length that
    // goes upstream is the body's.
    let more =
        format!("content-length: {len}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n");
    let answer = raw(
        &world,
        format!("{}2\r\n{{}}\r\n0\r\n\r\n", head(&more)).as_bytes(),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("\"body_bytes\":2"), "{answer}");
    assert_eq!(answer.matches("[\"content-length\"").count(), 1, "{answer}");
    assert!(answer.contains("[\"content-length\",\"2\"]"), "{answer}");
}

/// Writes and reads until a head has come; the connection may stay open.
async fn raw_until_answer(world: &World, bytes: &str) -> String {
    let mut tls = world
        .tls(&alpn(&[b"http/1.1", &token(ALICE)]))
        .await
        .unwrap();
    tls.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        let read = soon("an answer", tls.read_buf(&mut answer)).await;
        if read.is_ok_and(|count| count == 0) {
            break;
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn http_1_0_gets_an_answer_that_ends() {
    let world = World::new();
    let request = head("content-length: 2\r\n").replace("HTTP/1.1", "HTTP/1.0") + "{}";
    let answer = raw(&world, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.0 200 OK"), "{answer}");
    assert!(answer.contains("\"body_bytes\":2"), "{answer}");
}

#[tokio::test]
async fn a_refused_client_that_expects_continue_is_not_asked_to() {
    let world = World::new();
    for framing in ["content-length: 2", "transfer-encoding: chunked"] {
        let request = head(&format!("expect: 100-continue\r\n{framing}\r\n"));
        let request = request.replace("anthropic-version", "x-other");
        let answer = raw(&world, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{framing}: {answer}");
    }
}

/// The refusal does not wait for the body, and the connection serves on after it.
#[tokio::test]
async fn a_refusal_comes_while_the_body_is_open_and_the_body_is_read_beside_it() {
    let world = World::new();
    for (framing, begin, rest) in [
        (
            "transfer-encoding: chunked",
            "2\r\nab\r\n",
            "1\r\nc\r\n0\r\n\r\n",
        ),
        ("content-length: 3", "ab", "c"),
    ] {
        let mut tls = (world.tls(&alpn(&[b"http/1.1", &token(ALICE)])).await).unwrap();
        let refused = head(&format!("{framing}\r\n")).replace("anthropic-version", "x-other");
        tls.write_all((refused + begin).as_bytes()).await.unwrap();
        let mut answers = Vec::new();
        while !answers.ends_with(b"}") {
            let read = soon("the refusal", tls.read_buf(&mut answers)).await;
            assert_ne!(read.unwrap(), 0, "the refusal is whole");
        }
        assert!(answers.starts_with(b"HTTP/1.1 400 "), "{framing}");
        let good = head("content-length: 2\r\nconnection: close\r\n") + "{}";
        tls.write_all((rest.to_owned() + &good).as_bytes())
            .await
            .unwrap();
        answers.clear();
        let _ = soon("the answer", tls.read_to_end(&mut answers)).await;
        let answer = String::from_utf8(answers).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{framing}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_expects_continue_is_asked_to() {
    let world = World::new();
    let mut tls = world
        .tls(&alpn(&[b"http/1.1", &token(ALICE)]))
        .await
        .unwrap();
    let request = head("expect: 100-continue\r\ncontent-length: 2\r\nconnection: close\r\n");
    tls.write_all(request.as_bytes()).await.unwrap();
    let mut interim = vec![0; 25];
    soon("the interim answer", tls.read_exact(&mut interim))
        .await
        .unwrap();
    assert_eq!(interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    tls.write_all(b"{}").await.unwrap();
    let mut answer = String::new();
    let _ = soon("the answer", tls.read_to_string(&mut answer)).await;
    assert!(answer.contains("\"body_bytes\":2"), "{answer}");
    assert!(!answer.contains("[\"expect\""), "{answer}");
}
