//! How a connection is refused: with a word that the client's library understands, then
//! closed so that the word arrives.

use super::client::Client;
use super::hello::Decision;
use super::socket::has_unacknowledged;
use bytes::BytesMut;
use socket2::SockRef;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a refused client's word may be unacknowledged: time for one that was lost to be sent
/// again (after 200 ms on a near network), while nothing is left of the connection a second after.
const PATIENCE: Duration = Duration::from_millis(500);
/// The kernel's own bound of the same (tcp(7), TCP_USER_TIMEOUT), should this thread be late.
const AT_MOST: Duration = Duration::from_millis(600);

/// A fatal alert in a record of its own (RFC 8446 sections 5.1 and 6): content type 21,
/// version 3.3, two bytes.
const fn fatal(description: u8) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, description]
}

/// RFC 8446 section 6.2: "A valid certificate or PSK was received, but when access control
/// was applied, the sender decided not to proceed". The kernel half answers the same.
const ACCESS_DENIED: [u8; 7] = fatal(49);
const DECODE_ERROR: [u8; 7] = fatal(50);
const UNEXPECTED_MESSAGE: [u8; 7] = fatal(10);

const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: text/plain\r\n\
    content-length: 53\r\n\
    connection: close\r\n\r\n\
    This port speaks TLS: send the request with https://\n";

/// Answers and closes. `read` is what the client has sent so far.
///
/// A client that does not acknowledge the word is reset: it has nothing more to send, so it
/// would otherwise wait for a word that is not said again until it gives up by itself.
pub(super) async fn answer(tcp: TcpStream, decision: &Decision, read: &[u8]) {
    let word: &[u8] = match decision {
        Decision::Malformed => &DECODE_ERROR,
        Decision::NotTls if looks_like_http(read) => PLAIN_HTTP,
        Decision::NotTls => &UNEXPECTED_MESSAGE,
        Decision::Refuse | Decision::Zero(_) | Decision::Legacy => &ACCESS_DENIED,
    };
    // If it cannot be set, it is the listening socket's, which is longer.
    let _ = SockRef::from(&tcp).set_tcp_user_timeout(Some(AT_MOST));
    let mut client = Client::new(tcp, BytesMut::new());
    // A client that has gone already needs no answer.
    if client.write_all(word).await.is_err() {
        return;
    }
    if timeout(PATIENCE, client.shutdown()).await.is_err() {
        if has_unacknowledged(&*client.tcp()) {
            // Closing is a reset then.
            let _ = SockRef::from(&*client.tcp()).set_linger(Some(Duration::ZERO));
            return;
        }
        let _ = client.shutdown().await;
    }
}

fn looks_like_http(read: &[u8]) -> bool {
    let method = read
        .iter()
        .take_while(|byte| byte.is_ascii_uppercase())
        .count();
    // Cut short or followed by a blank: a method (RFC 9112 section 3).
    method > 0 && read.get(method).is_none_or(|byte| *byte == b' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    #[test]
    fn the_plain_answer_is_as_long_as_it_says() {
        let text = std::str::from_utf8(PLAIN_HTTP).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
    }

    /// One that reads late has acknowledged, and is not reset.
    #[tokio::test]
    async fn a_word_that_was_acknowledged_is_not_overtaken() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();
        let tcp = listener.accept().await.unwrap().0;
        let (mut word, late) = (Vec::new(), PATIENCE + Duration::from_millis(100));
        let (_, read) = tokio::join!(answer(tcp, &Decision::Refuse, b"\x16"), async {
            tokio::time::sleep(late).await;
            let read = client.read_to_end(&mut word).await;
            client.shutdown().await.unwrap();
            read
        });
        read.unwrap();
        assert_eq!(word, ACCESS_DENIED);
    }

    #[test]
    fn methods_look_like_http_and_other_bytes_do_not() {
        for http in ["GET / HTTP/1.1\r\n", "POST /", "PRI * HTTP/2.0", "GE"] {
            assert!(looks_like_http(http.as_bytes()), "{http}");
        }
        for other in [&b""[..], b"\x16\x03\x01", b"SSH-2.0-x", b"hello", b"\0"] {
            assert!(!looks_like_http(other), "{other:?}");
        }
    }
}
