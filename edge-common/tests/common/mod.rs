//! What the tests of the scanner share: the captured hellos, a second opinion on what a
//! hello offers (rustls), and the way in which a caller feeds segments.

#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test file uses its own part of it"
)]

pub(crate) mod files;
pub(crate) mod generated;
pub(crate) mod made;
pub(crate) mod rustls_client;

use edge_common::client_hello::{ClientHello, MAX_PARTIAL, Scanned};
use edge_common::token::{NAME_LEN, PREFIX, TEXT_LEN, Token};
use rustls::server::Acceptor;

/// The token of the protocol page: key `sk-edge-test`, audience `demo`.
pub(crate) const TOKEN: &str = "ezl1-16c90ee8f37ea61f6b49d2000001020304050607faee5d056928a260";

/// What rustls makes of the first bytes of a connection.
#[derive(Debug)]
pub(crate) enum Oracle {
    /// A ClientHello that it would serve, with these ALPN names.
    Names(Vec<Vec<u8>>),
    /// It waits for more.
    Waits,
    /// It refuses.
    Refuses(rustls::Error),
}

pub(crate) fn oracle(bytes: &[u8]) -> Oracle {
    let mut acceptor = Acceptor::default();
    let mut rest = bytes;
    loop {
        // Reads some kilobytes at a time, and not at all when its buffer is full.
        let before = rest.len();
        let read = acceptor.read_tls(&mut rest);
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                let names = hello.alpn().into_iter().flatten().map(<[u8]>::to_vec);
                return Oracle::Names(names.collect());
            }
            Ok(None) if rest.is_empty() || rest.len() == before || read.is_err() => {
                return Oracle::Waits;
            }
            Ok(None) => {}
            Err((error, _)) => return Oracle::Refuses(error),
        }
    }
}

/// What a scan must have found when a hello offers `names`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) scanned: Scanned,
    pub(crate) tokens: u32,
    pub(crate) token: Option<Token>,
    pub(crate) acme: bool,
}

impl Offer {
    /// From a list of names, by the protocol's words and not by the scanner's lines.
    pub(crate) fn of(names: &[Vec<u8>]) -> Self {
        let tokens: Vec<_> = names
            .iter()
            .filter(|name| name.starts_with(PREFIX))
            .collect();
        let token = tokens.first().and_then(|name| {
            let digits = name.strip_prefix(PREFIX).unwrap();
            let lower = digits
                .iter()
                .all(|d| matches!(d, b'0'..=b'9' | b'a'..=b'f'));
            let bytes = hex::decode(digits)
                .ok()
                .filter(|_| lower && name.len() == NAME_LEN)?;
            Some(Token {
                key_id: edge_common::token::KeyId::from_bytes(bytes[..8].try_into().unwrap()),
                issued_at_s: u32::from_be_bytes(bytes[8..12].try_into().unwrap()),
                nonce: u64::from_le_bytes(bytes[12..20].try_into().unwrap()),
                tag: u64::from_le_bytes(bytes[20..].try_into().unwrap()),
            })
        });
        Self {
            scanned: if tokens.is_empty() {
                Scanned::Absent
            } else {
                Scanned::Found
            },
            tokens: tokens.len() as u32,
            token,
            acme: names.iter().any(|name| name == b"acme-tls/1"),
        }
    }

    /// From a scan that came to an end.
    pub(crate) fn seen(scanned: Scanned, hello: &ClientHello) -> Self {
        Self {
            scanned,
            tokens: hello.token_count(),
            token: hello.token(),
            acme: hello.offers_acme(),
        }
    }
}

/// Compares the scanner with rustls and returns what the scanner said: the same names
/// wherever rustls reads any, and no verdict where rustls sees no hello. So nothing is held
/// against a client that userspace would have served.
pub(crate) fn compare(bytes: &[u8]) -> Result<Scanned, String> {
    let (scanned, hello) = scan(bytes);
    let oracle = oracle(bytes);
    let fits = match (scanned, &oracle) {
        (Scanned::Found | Scanned::Absent, Oracle::Names(names)) => {
            Offer::seen(scanned, &hello) == Offer::of(names)
        }
        // For what lies within an extension; a reject then harms nobody.
        (Scanned::Found | Scanned::Absent, Oracle::Refuses(_)) => true,
        (Scanned::Found | Scanned::Absent, Oracle::Waits) => false,
        (Scanned::Malformed | Scanned::Incomplete, Oracle::Names(_)) => false,
        // rustls allows a record to be longer than RFC 8446 section 5.1 does.
        (Scanned::NotTls, Oracle::Names(_)) => u16::from_be_bytes([bytes[3], bytes[4]]) > 1 << 14,
        (Scanned::TooLong, _) => false,
        _ => true,
    };
    if fits {
        Ok(scanned)
    } else {
        Err(format!(
            "scanner {scanned:?}, rustls {oracle:?}, {}",
            hex::encode(bytes)
        ))
    }
}

/// Scans bytes that lie in one piece, over as many items as there are.
pub(crate) fn scan(bytes: &[u8]) -> (Scanned, ClientHello) {
    scan_segments([bytes])
}

/// Scans bytes that come in segments, as a caller must who keeps at most
/// [`MAX_PARTIAL`] bytes between two of them.
pub(crate) fn scan_segments<'a>(
    segments: impl IntoIterator<Item = &'a [u8]>,
) -> (Scanned, ClientHello) {
    let mut hello = ClientHello::at_record();
    let mut scanned = Scanned::Incomplete;
    let mut kept = Vec::new();
    for segment in segments {
        kept.extend_from_slice(segment);
        scanned = advance(&mut hello, &kept);
        if scanned != Scanned::Incomplete {
            break;
        }
        let consumed = hello.consume(kept.len() as u32);
        kept.drain(..consumed as usize);
        assert!(
            kept.len() <= MAX_PARTIAL,
            "{} bytes must be kept",
            kept.len()
        );
    }
    (scanned, hello)
}

/// Goes on beyond [`edge_common::client_hello::MAX_ITEMS`], as userspace does.
pub(crate) fn advance(hello: &mut ClientHello, bytes: &[u8]) -> Scanned {
    // Each round reads items of two bytes or more.
    for _ in 0..=bytes.len() {
        match hello.advance(bytes) {
            Scanned::TooLong => hello.allow_more_items(),
            scanned => return scanned,
        }
    }
    panic!("the scanner does not come to an end");
}

const _: () = assert!(PREFIX.len() + TEXT_LEN == NAME_LEN);
