//! The PROXY protocol, versions 1 and 2 (haproxy's `doc/proxy-protocol.txt`): a balancer in
//! front says before the hello whose connection it is.
//!
//! Only on listeners that are configured for it and from sources that are trusted; there the
//! header must come, elsewhere it is no ClientHello. Bounded, and it may be cut anywhere.
//! Not here: who is trusted ([`crate::config::ProxyProtocol`]). TLVs are skipped.

use crate::telemetry::ProxyHeader;
use bytes::{Buf as _, BytesMut};
use proxy_header::{ParseConfig, Protocol, ProxyHeader as Parsed};
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Section 2.1: "PROXY", a blank, and a line of at most 107 characters with its CRLF.
const V1_PREFIX: &[u8] = b"PROXY ";
const V1_MAX_BYTES: usize = 107;
/// Section 2.2: signature, version and command, family and protocol, length.
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_HEADER: usize = 16;
const V2_LOCAL: u8 = 0x20;
/// The longest addresses are 216 bytes; the rest is for TLVs, which we skip.
const V2_MAX_BYTES: usize = V2_HEADER + 2048;
/// Room for a usual header and a usual hello behind it.
const READ_BYTES: usize = 2048;

/// A header that was read.
pub(super) struct Preface {
    /// Whose connection it is; `None`: the one's who connected (`LOCAL`, `UNKNOWN`).
    pub(super) client: Option<SocketAddr>,
    /// What was read behind the header.
    pub(super) ahead: BytesMut,
}

/// Reads until the header is whole or cannot be any more. The error says why it is none.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Preface, ProxyHeader> {
    let mut bytes = BytesMut::with_capacity(READ_BYTES);
    loop {
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return Err(ProxyHeader::Incomplete),
            Ok(_) => {}
        }
        if let Some((length, client)) = parse(&bytes)? {
            bytes.advance(length);
            let ahead = bytes;
            return Ok(Preface { client, ahead });
        }
    }
}

/// The header's length and whom it names; `None` while it may still become one.
fn parse(bytes: &[u8]) -> Result<Option<(usize, Option<SocketAddr>)>, ProxyHeader> {
    let length = if begins(bytes, V1_PREFIX) {
        v1_length(bytes)?
    } else if begins(bytes, V2_SIGNATURE) {
        v2_length(bytes)?
    } else {
        return Err(ProxyHeader::Missing);
    };
    let Some(header) = length.and_then(|length| bytes.get(..length)) else {
        return Ok(None);
    };
    // Section 2.2: of LOCAL everything but the length is to be ignored.
    if header.starts_with(V2_SIGNATURE) && header.get(V2_SIGNATURE.len()) == Some(&V2_LOCAL) {
        return Ok(Some((header.len(), None)));
    }
    // The crate sees exactly the header, so whatever it wants more of is not there.
    let (parsed, length) = Parsed::parse(header, ParseConfig::default())
        .map_err(|_| ProxyHeader::Malformed)
        .map(|(parsed, length)| (parsed.into_owned(), length))?;
    let client = match parsed.proxied_address() {
        Some(address) if address.protocol != Protocol::Stream => {
            return Err(ProxyHeader::Malformed);
        }
        // An IPv4 client is one, however the balancer writes it: rates go by its prefix.
        Some(address) => Some(SocketAddr::new(
            address.source.ip().to_canonical(),
            address.source.port(),
        )),
        None => None,
    };
    if length != header.len() {
        return Err(ProxyHeader::Malformed);
    }
    Ok(Some((length, client)))
}

/// Whether `bytes` begin with `prefix`, or are its beginning.
fn begins(bytes: &[u8], prefix: &[u8]) -> bool {
    let both = bytes.len().min(prefix.len());
    bytes[..both] == prefix[..both]
}

fn v1_length(bytes: &[u8]) -> Result<Option<usize>, ProxyHeader> {
    let line = &bytes[..bytes.len().min(V1_MAX_BYTES)];
    match line.iter().position(|byte| *byte == b'\n') {
        Some(end) => Ok(Some(end + 1)),
        None if line.len() == V1_MAX_BYTES => Err(ProxyHeader::TooLong),
        None => Ok(None),
    }
}

fn v2_length(bytes: &[u8]) -> Result<Option<usize>, ProxyHeader> {
    let Some(header) = bytes.first_chunk::<V2_HEADER>() else {
        return Ok(None);
    };
    let length = V2_HEADER + usize::from(u16::from_be_bytes([header[14], header[15]]));
    if length > V2_MAX_BYTES {
        return Err(ProxyHeader::TooLong);
    }
    Ok(Some(length))
}

#[cfg(test)]
mod tests;
