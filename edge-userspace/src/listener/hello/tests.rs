use super::*;
use crate::keys::{Edit, Keyring, derive};
use crate::secret::ApiKey;
use edge_common::policy::KeyPolicy;
use edge_common::token::Token;
use rustls::ClientConfig;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::ReadBuf;

const AUDIENCE: &str = "test";
const WINDOW: Window = Window {
    back_s: 30,
    ahead_s: 5,
};

fn api_key() -> ApiKey {
    ApiKey::new(b"sk-edge-test".to_vec())
}

fn keyring() -> Keyring {
    let key = api_key();
    let keyring = Keyring::new(10);
    keyring.apply([Edit::Put(KeyRecord {
        id: derive::key_id(&key),
        name: "test".into(),
        key_hash: derive::key_hash(&key),
        policy: Some(KeyPolicy {
            mac_key: derive::mac_key(&key, AUDIENCE).words(),
            not_before_s: 0,
            not_after_s: u64::MAX,
            flags: 0,
            ..KeyPolicy::UNLIMITED
        }),
        not_before_s: 0,
        not_after_s: u64::MAX,
        alpn_only: false,
        rates: Default::default(),
        max_prompt_tokens: None,
        allowance: None,
        revoked: false,
    })]);
    keyring
}

fn token() -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (key, now_s) = (api_key(), u32::try_from(now.as_secs()).unwrap());
    let mac_key = derive::mac_key(&key, AUDIENCE).words();
    Token::issue(derive::key_id(&key), mac_key, now_s, 7)
        .to_name()
        .to_vec()
}

/// A hello as rustls writes it, post-quantum key share included.
fn hello(alpn: &[&[u8]]) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let name = "edge.test".try_into().unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// The same handshake message, its records cut at `sizes` again and again.
fn in_records(hello: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut message = &hello[RECORD_HEADER..];
    let mut bytes = Vec::new();
    for size in sizes.iter().cycle() {
        if message.is_empty() {
            break;
        }
        let (fragment, rest) = message.split_at((*size).min(message.len()));
        bytes.extend_from_slice(&[22, 3, 1]);
        bytes.extend_from_slice(&u16::try_from(fragment.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(fragment);
        message = rest;
    }
    bytes
}

/// Gives its pieces one a read, then ends.
struct Pieces<'a>(Vec<&'a [u8]>);

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(piece) = self.0.first_mut() {
            let count = piece.len().min(buffer.remaining());
            let (now, later) = piece.split_at(count);
            buffer.put_slice(now);
            *piece = later;
            if later.is_empty() {
                self.0.remove(0);
            }
        }
        Poll::Ready(Ok(()))
    }
}

async fn judged_within(pieces: Vec<&[u8]>, max_bytes: usize) -> (Reason, Decision) {
    let keyring = keyring();
    let hello = read(&mut Pieces(pieces), BytesMut::new(), max_bytes)
        .await
        .unwrap();
    hello.judge(&keyring.snapshot(), WINDOW, false)
}

async fn judged(pieces: Vec<&[u8]>) -> (Reason, Decision) {
    judged_within(pieces, 65_536).await
}

#[tokio::test]
async fn a_token_is_found_wherever_the_hello_is_cut() {
    let bytes = hello(&[b"h2", b"http/1.1", &token()]);
    assert!(bytes.len() > 1400, "a post-quantum hello: {}", bytes.len());
    for at in 1..bytes.len() {
        let (reason, decision) = judged(vec![&bytes[..at], &bytes[at..]]).await;
        assert_eq!(reason, Reason::Accepted, "cut at {at}");
        assert!(matches!(decision, Decision::Zero(_)));
    }
    let (reason, _) = judged(bytes.chunks(1).collect()).await;
    assert_eq!(reason, Reason::Accepted, "byte by byte");
}

#[tokio::test]
async fn a_token_is_found_however_the_records_are_cut() {
    let bytes = hello(&[b"h2", b"http/1.1", &token()]);
    let message = bytes.len() - RECORD_HEADER;
    for at in 1..message {
        let records = in_records(&bytes, &[at, message - at]);
        let (reason, _) = judged(vec![&records]).await;
        assert_eq!(reason, Reason::Accepted, "records of {at} and the rest");
    }
    let records = in_records(&bytes, &[1]);
    let (reason, _) = judged(records.chunks(3).collect()).await;
    assert_eq!(reason, Reason::Accepted, "records of one byte");
}

/// More than the kernel follows.
fn many_names() -> Vec<Vec<u8>> {
    let count = 2 * edge_common::client_hello::MAX_ITEMS;
    (0..count).map(|n| format!("p{n}").into_bytes()).collect()
}

#[tokio::test]
async fn a_token_behind_more_names_than_the_kernel_follows_is_found() {
    let mut alpn = many_names();
    alpn.push(token());
    let bytes = hello(&alpn.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let (reason, _) = judged(vec![&bytes]).await;
    assert_eq!(reason, Reason::Accepted);
}

#[tokio::test]
async fn no_beginning_of_a_hello_is_judged() {
    let bytes = hello(&[b"h2", &token()]);
    for end in 0..bytes.len() {
        let (reason, decision) = judged(vec![&bytes[..end]]).await;
        assert_eq!(reason, Reason::Incomplete, "{end} bytes");
        assert!(matches!(decision, Decision::Malformed));
    }
    let records = in_records(&bytes, &[100]);
    for end in 6..records.len() {
        let (reason, _) = judged(vec![&records[..end]]).await;
        assert_eq!(reason, Reason::Incomplete, "{end} bytes in records");
    }
}

#[tokio::test]
async fn records_must_be_of_one_handshake_message() {
    let bytes = hello(&[b"h2", &token()]);
    let records = in_records(&bytes, &[300]);
    let second = RECORD_HEADER + 300;
    let mut other_type = records.clone();
    other_type[second] = 23;
    let mut empty = records[..second].to_vec();
    empty.extend_from_slice(&[22, 3, 1, 0, 0]);
    empty.extend_from_slice(&records[second..]);
    let mut overrun = records.clone();
    let last = records.len() - (bytes.len() - RECORD_HEADER) % 300;
    let length = u16::from_be_bytes([overrun[last - 2], overrun[last - 1]]);
    overrun[last - 2..last].copy_from_slice(&(length + 1).to_be_bytes());
    overrun.push(0);
    for (what, bytes) in [
        ("another content type between", other_type),
        ("an empty record between", empty),
        ("a byte after the hello in its record", overrun),
    ] {
        let (reason, decision) = judged(vec![&bytes]).await;
        assert_eq!(reason, Reason::HelloMalformed, "{what}");
        assert!(matches!(decision, Decision::Malformed), "{what}");
    }
}

#[tokio::test]
async fn a_hello_beyond_the_bound_is_not_read_on() {
    let bytes = hello(&[b"h2", &token()]);
    let size = bytes.len() - RECORD_HEADER;
    let in_parts = |bytes: &[u8]| bytes.chunks(64).map(<[u8]>::to_vec).collect::<Vec<_>>();
    for bytes in [bytes.clone(), in_records(&bytes, &[100])] {
        let pieces = in_parts(&bytes);
        let pieces = || pieces.iter().map(Vec::as_slice).collect::<Vec<_>>();
        assert_eq!(judged_within(pieces(), size).await.0, Reason::Accepted);
        assert_eq!(
            judged_within(pieces(), size - 200).await.0,
            Reason::HelloMalformed
        );
    }
}

#[tokio::test]
async fn what_cannot_be_proven_goes_to_the_legacy_lane_or_is_denied() {
    let keyring = keyring();
    let many = many_names();
    let many: Vec<_> = many.iter().map(Vec::as_slice).collect();
    for (alpn, expected) in [
        (&[&b"h2"[..]][..], Reason::NoToken),
        (&[b"acme-tls/1"], Reason::AcmeChallenge),
        (&many, Reason::NoToken),
    ] {
        let bytes = hello(alpn);
        let read = read(&mut Pieces(vec![&bytes]), BytesMut::new(), 65_536)
            .await
            .unwrap();
        let keys = keyring.snapshot();
        let (reason, decision) = read.judge(&keys, WINDOW, false);
        assert_eq!(reason, expected);
        assert!(matches!(decision, Decision::Legacy));
        let (reason, decision) = read.judge(&keys, WINDOW, true);
        assert_eq!(reason, Reason::LegacyDenied);
        assert!(matches!(decision, Decision::Refuse));
    }
}

#[tokio::test]
async fn provably_bad_tokens_are_refused_by_name() {
    let good = token();
    let mut flipped = good.clone();
    // Still a hex digit, or it would be malformed.
    let last = flipped.last_mut().unwrap();
    *last = if *last == b'0' { b'1' } else { b'0' };
    let mut unknown = good.clone();
    unknown[5] ^= 1;
    for (alpn, expected) in [
        (vec![&b"h2"[..], &flipped], Reason::TagWrong),
        (vec![b"h2", &unknown], Reason::KeyUnknown),
        (vec![b"h2", &good[..40]], Reason::TokenMalformed),
        (vec![b"h2", &good, &good], Reason::TokenDuplicate),
    ] {
        let bytes = hello(&alpn);
        let (reason, decision) = judged(vec![&bytes]).await;
        assert_eq!(reason, expected);
        assert!(matches!(decision, Decision::Refuse), "{expected:?}");
    }
}

#[tokio::test]
async fn what_is_no_tls_is_told_from_the_first_byte() {
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\0", b"SSH-2.0-x\r\n"] {
        let (reason, decision) = judged(vec![bytes]).await;
        assert_eq!(reason, Reason::NotHello);
        assert!(matches!(decision, Decision::NotTls));
    }
}

#[tokio::test]
async fn what_was_read_ahead_is_judged_first() {
    let bytes = hello(&[b"h2", &token()]);
    let keyring = keyring();
    for at in 0..=bytes.len() {
        let (ahead, rest) = bytes.split_at(at);
        let read = read(&mut Pieces(vec![rest]), BytesMut::from(ahead), 65_536).await;
        let read = read.unwrap();
        assert_eq!(read.bytes, bytes, "nothing is lost, cut at {at}");
        let (reason, _) = read.judge(&keyring.snapshot(), WINDOW, false);
        assert_eq!(reason, Reason::Accepted, "cut at {at}");
    }
}

#[tokio::test]
async fn a_whole_hello_has_one_fingerprint_however_it_comes() {
    let bytes = hello(&[b"h2", &token()]);
    let whole = Ja4::of(&bytes[RECORD_HEADER..]);
    assert!(whole.is_some());
    let behind = [&bytes[..], b"\x14\x03\x03\0\x01\x01"].concat();
    let records = in_records(&bytes, &[100]);
    for (what, pieces) in [
        ("in one piece", vec![&bytes[..]]),
        ("byte by byte", bytes.chunks(1).collect()),
        ("with more behind it", vec![&behind]),
        ("in several records", records.chunks(70).collect()),
    ] {
        let read = read(&mut Pieces(pieces), BytesMut::new(), 65_536).await;
        assert_eq!(read.unwrap().ja4(), whole, "{what}");
    }
    for part in [&bytes[..bytes.len() - 1], &records[..records.len() - 1]] {
        let read = read(&mut Pieces(vec![part]), BytesMut::new(), 65_536).await;
        assert_eq!(read.unwrap().ja4(), None);
    }
}
