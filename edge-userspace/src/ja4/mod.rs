//! JA4, the fingerprint of a TLS client: which versions, ciphers and extensions its
//! ClientHello offers, as one readable word (FoxIO's specification, `technical_details/JA4.md`
//! of github.com/FoxIO-LLC/ja4; this method alone of that family is under the BSD licence).
//!
//! It tells kinds of clients apart, not clients: whoever wants to can look like any other.
//! The pre-auth token is left out, so that a client has the fingerprint that it has without
//! one. Not here: what follows from it ([`crate::config::Rule`]), and whether the hello is
//! any good (the scanner of `edge-common`).

mod pattern;

pub use pattern::{Pattern, PatternError};

use edge_common::token;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Parts: protocol, version, SNI, counts and ALPN; ciphers; extensions and signature
/// algorithms.
const PART_LENGTHS: [usize; 3] = [10, 12, 12];
/// The parts and the `_` between them.
const LENGTH: usize = 10 + 1 + 12 + 1 + 12;

const SERVER_NAME: u16 = 0;
const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;

const HANDSHAKE_CLIENT_HELLO: u8 = 1;
/// legacy_version comes first in a ClientHello, then random (RFC 8446 section 4.1.2).
const RANDOM: usize = 32;

/// A client's fingerprint, such as `t13d1516h2_8daaf6152771_e5627efa2ab1`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ja4([u8; LENGTH]);

impl Ja4 {
    /// The fingerprint of a whole ClientHello: the handshake message with its header of
    /// four bytes, records taken off. `None` when it is none, or contradicts itself.
    ///
    /// The work is bounded by the hello's length, and so is the one list that it allocates.
    #[must_use]
    pub fn of(handshake: &[u8]) -> Option<Self> {
        let offer = Offer::read(handshake)?;
        let mut scratch = Vec::with_capacity((offer.ciphers.len() / 2).max(32));

        scratch.extend(words(offer.ciphers));
        let cipher_count = scratch.len();
        let ciphers = hash(&mut scratch, &[]);

        scratch.clear();
        scratch.extend(offer.extensions());
        let extension_count = scratch.len();
        scratch.retain(|kind| !matches!(*kind, SERVER_NAME | ALPN));
        let extensions = hash(&mut scratch, offer.signature_algorithms);

        let mut text = Text::default();
        text.put(b"t");
        text.put(version(offer.version()));
        text.put(if offer.has_server_name { b"d" } else { b"i" });
        text.put(&two_digits(cipher_count));
        text.put(&two_digits(extension_count));
        text.put(&ends(offer.protocol.unwrap_or_default()));
        text.put(b"_");
        text.put(&ciphers);
        text.put(b"_");
        text.put(&extensions);
        Some(Self(text.bytes))
    }

    #[cfg(test)]
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        text.as_bytes().try_into().ok().map(Self)
    }

    /// The fingerprint as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Every byte was put there as ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// What stands between the `_`.
    fn parts(&self) -> [&str; 3] {
        let text = self.as_str();
        let part = |from: usize, length: usize| text.get(from..from + length).unwrap_or_default();
        let [a, b, c] = PART_LENGTHS;
        [part(0, a), part(a + 1, b), part(a + 1 + b + 1, c)]
    }
}

impl fmt::Display for Ja4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Ja4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a hello offers, as far as the fingerprint wants to know.
struct Offer<'a> {
    legacy_version: u16,
    /// Two bytes each, GREASE among them.
    ciphers: &'a [u8],
    /// The list of extensions as it stands.
    extensions: &'a [u8],
    signature_algorithms: &'a [u8],
    has_server_name: bool,
    /// The highest one of the extension, if it is there.
    supported_version: Option<u16>,
    /// The first ALPN name that is no token.
    protocol: Option<&'a [u8]>,
    /// Whether an ALPN extension is there only for the token.
    alpn_is_token_alone: bool,
}

impl<'a> Offer<'a> {
    fn read(handshake: &'a [u8]) -> Option<Self> {
        let mut message = Reader(handshake);
        if message.u8()? != HANDSHAKE_CLIENT_HELLO {
            return None;
        }
        let length = usize::from(message.u8()?) << 16 | usize::from(message.u16()?);
        let mut body = Reader(message.take(length)?);
        let legacy_version = body.u16()?;
        body.take(RANDOM)?;
        let _session_id = body.list8()?;
        let ciphers = body.list16()?;
        let _compression = body.list8()?;
        // TLS 1.2 allows a hello without extensions (RFC 5246 section 7.4.1.2).
        let extensions = if body.0.is_empty() {
            &[]
        } else {
            body.list16()?
        };
        let mut offer = Self {
            legacy_version,
            ciphers,
            extensions,
            signature_algorithms: &[],
            has_server_name: false,
            supported_version: None,
            protocol: None,
            alpn_is_token_alone: false,
        };
        let mut rest = Reader(extensions);
        while !rest.0.is_empty() {
            let (kind, data) = (rest.u16()?, rest.list16()?);
            offer.take_note(kind, Reader(data));
        }
        Some(offer)
    }

    /// A list that contradicts itself counts as empty: TLS refuses such a hello later.
    fn take_note(&mut self, kind: u16, mut data: Reader<'a>) {
        match kind {
            SERVER_NAME => self.has_server_name = true,
            SIGNATURE_ALGORITHMS => self.signature_algorithms = data.list16().unwrap_or_default(),
            SUPPORTED_VERSIONS => {
                let versions = data.list8().unwrap_or_default();
                self.supported_version = words(versions).max();
            }
            ALPN => {
                let mut names = Reader(data.list16().unwrap_or_default());
                let mut tokens = false;
                while let Some(name) = names.list8() {
                    if !name.starts_with(token::PREFIX) {
                        self.protocol = Some(name);
                        break;
                    }
                    tokens = true;
                }
                self.alpn_is_token_alone = tokens && self.protocol.is_none();
            }
            _ => {}
        }
    }

    fn version(&self) -> u16 {
        self.supported_version.unwrap_or(self.legacy_version)
    }

    /// Types of the extensions in their order, without GREASE.
    fn extensions(&self) -> impl Iterator<Item = u16> {
        let mut rest = Reader(self.extensions);
        let kinds = std::iter::from_fn(move || {
            let kind = rest.u16()?;
            rest.list16().map(|_| kind)
        });
        let left_out = self.alpn_is_token_alone.then_some(ALPN);
        kinds.filter(move |kind| !is_grease(*kind) && Some(*kind) != left_out)
    }
}

/// The two-byte values of a list, without GREASE.
fn words(list: &[u8]) -> impl Iterator<Item = u16> {
    let (words, _) = list.as_chunks();
    let words = words.iter().map(|word| u16::from_be_bytes(*word));
    words.filter(|word| !is_grease(*word))
}

/// RFC 8701 section 2: both bytes are the same and end in `a`.
const fn is_grease(word: u16) -> bool {
    word & 0x0f0f == 0x0a0a && word >> 8 == word & 0xff
}

const fn version(version: u16) -> &'static [u8; 2] {
    match version {
        0x0304 => b"13",
        0x0303 => b"12",
        0x0302 => b"11",
        0x0301 => b"10",
        0x0300 => b"s3",
        0x0002 => b"s2",
        _ => b"00",
    }
}

fn two_digits(count: usize) -> [u8; 2] {
    let count = u8::try_from(count).unwrap_or(u8::MAX).min(99);
    [b'0' + count / 10, b'0' + count % 10]
}

/// First and last character of an ALPN name; of its hex digits when either is no letter and
/// no digit.
fn ends(name: &[u8]) -> [u8; 2] {
    match (name.first(), name.last()) {
        (Some(first), Some(last))
            if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() =>
        {
            [*first, *last]
        }
        (Some(first), Some(last)) => [hex_digit(first >> 4), hex_digit(last & 0xf)],
        _ => *b"00",
    }
}

/// The first twelve hex digits of the hash of the values, sorted, and of `unsorted` behind
/// them; zeros when there are no values at all.
fn hash(values: &mut [u16], unsorted: &[u8]) -> [u8; 12] {
    if values.is_empty() {
        return [b'0'; 12];
    }
    values.sort_unstable();
    let mut hasher = Sha256::new();
    let mut between: &[u8] = b"";
    for value in values {
        hasher.update(between);
        hasher.update(four_digits(*value));
        between = b",";
    }
    between = b"_";
    for value in words(unsorted) {
        hasher.update(between);
        hasher.update(four_digits(value));
        between = b",";
    }
    let digest = hasher.finalize();
    let mut digits = [b'0'; 12];
    for (pair, byte) in digits.as_chunks_mut().0.iter_mut().zip(digest) {
        *pair = [hex_digit(byte >> 4), hex_digit(byte & 0xf)];
    }
    digits
}

fn four_digits(value: u16) -> [u8; 4] {
    let [high, low] = value.to_be_bytes();
    [high >> 4, high & 0xf, low >> 4, low & 0xf].map(hex_digit)
}

/// `digit` is below 16.
const fn hex_digit(digit: u8) -> u8 {
    if digit < 10 {
        b'0' + digit
    } else {
        b'a' + digit - 10
    }
}

/// The fingerprint as it grows.
struct Text {
    bytes: [u8; LENGTH],
    length: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self {
            bytes: [b'0'; LENGTH],
            length: 0,
        }
    }
}

impl Text {
    fn put(&mut self, part: &[u8]) {
        self.bytes[self.length..self.length + part.len()].copy_from_slice(part);
        self.length += part.len();
    }
}

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// What a length of one byte measures.
    fn list8(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(length.into())
    }

    /// What a length of two bytes measures.
    fn list16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }
}

#[cfg(test)]
mod tests;
