//! How a connection is refused: with a word that the client's library understands, then
//! closed so that the word arrives.

use super::client::Client;
use super::hello::Decision;
use bytes::BytesMut;
use socket2::SockRef;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// How long a refused client's word may be unacknowledged (tcp(7), TCP_USER_TIMEOUT): enough
/// for one that was lost to be sent again, a few times, also by a slow network. The client
/// has nothing more to send, so it would wait for a word that is not said again until it gives up.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many refusals a second and thread are patient. What never acknowledges holds at most
/// ten seconds of them.
pub(super) const PATIENT_PER_SECOND: u32 = 25;
/// The others': time for an honest acknowledgement, no more.
const HASTE: Duration = Duration::from_millis(300);

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

/// Answers and closes. `read` is what the client has sent so far; `is_patient`: there is room
/// to say it again for a while.
pub(super) async fn answer(tcp: TcpStream, decision: &Decision, read: &[u8], is_patient: bool) {
    let word: &[u8] = match decision {
        Decision::Malformed => &DECODE_ERROR,
        Decision::NotTls if looks_like_http(read) => PLAIN_HTTP,
        Decision::NotTls => &UNEXPECTED_MESSAGE,
        Decision::Refuse | Decision::Zero(_) | Decision::Legacy => &ACCESS_DENIED,
    };
    // Nothing stays of one who does not acknowledge the word: the first retransmission after
    // this time ends it. If it cannot be set, it is the listening socket's, which is longer.
    let unacknowledged = if is_patient { PATIENCE } else { HASTE };
    let _ = SockRef::from(&tcp).set_tcp_user_timeout(Some(unacknowledged));
    let mut client = Client::new(tcp, BytesMut::new());
    // A client that has gone already needs no answer.
    if client.write_all(word).await.is_ok() {
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

    #[test]
    fn a_word_is_said_again_for_as_long_as_there_is_room() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(async {
            for (is_patient, time) in [(true, PATIENCE), (false, HASTE)] {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                let mut client = TcpStream::connect(address).await.unwrap();
                let tcp = listener.accept().await.unwrap().0.into_std().unwrap();
                let again = tcp.try_clone().unwrap();
                let tcp = TcpStream::from_std(tcp).unwrap();
                let mut word = Vec::new();
                let (_, read) =
                    tokio::join!(answer(tcp, &Decision::Refuse, b"\x16", is_patient), async {
                        let read = client.read_to_end(&mut word).await;
                        client.shutdown().await.unwrap();
                        read
                    });
                read.unwrap();
                assert_eq!(word, ACCESS_DENIED);
                let told = SockRef::from(&again).tcp_user_timeout().unwrap();
                assert_eq!(told, Some(time));
            }
        });
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
