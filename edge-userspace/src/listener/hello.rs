//! The hello, read in full and judged: the authority on who a connection is.
//!
//! What the kernel half leaves undecided is decided here. Records are taken off when a
//! hello comes in several (RFC 8446 section 5.1). Not here: what the connection is charged
//! ([`super::charge`]), and what the verdict leads to on the wire ([`super::refuse`],
//! [`super::tls`]).

use crate::ja4::Ja4;
use crate::keys::{KeyRecord, Snapshot};
use bytes::BytesMut;
use edge_common::client_hello::{ClientHello, Scanned};
use edge_common::policy::{self, Reason, Window};
use edge_common::token::{KeyId, Token};
use std::cell::OnceCell;
use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A hello is usually in one or two segments.
const FIRST_READ_BYTES: usize = 2048;
/// A hello in several records may be this many times as long with their headers.
const RECORD_OVERHEAD: usize = 6;

const CONTENT_TYPE_HANDSHAKE: u8 = 22;
const RECORD_HEADER: usize = 5;
const HANDSHAKE_HEADER: usize = 4;
const MAX_RECORD: usize = 1 << 14;

/// A hello that has been read to its verdict.
pub(super) struct Hello {
    /// Every byte read so far, to be given to TLS.
    pub(super) bytes: BytesMut,
    /// Only of a hello in several records.
    records: Option<Records>,
    scan: ClientHello,
    scanned: Scanned,
    ja4: OnceCell<Option<Ja4>>,
}

/// What becomes of a connection.
#[derive(Clone, Debug)]
pub(super) enum Decision {
    /// Its token is good.
    Zero(Arc<KeyRecord>),
    /// The header decides.
    Legacy,
    /// Refused in the hello.
    Refuse,
    /// No ClientHello that makes sense.
    Malformed,
    /// No TLS at all.
    NotTls,
}

/// Reads until the whole hello is there or cannot come any more.
///
/// `ahead` is what was read of the stream already. `max_bytes` bounds the hello without its
/// records; a longer one is malformed. One that ends before its end stays incomplete.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    ahead: BytesMut,
    max_bytes: usize,
) -> io::Result<Hello> {
    let mut hello = Hello {
        bytes: ahead,
        records: None,
        scan: ClientHello::at_record(),
        scanned: Scanned::Incomplete,
        ja4: OnceCell::new(),
    };
    if hello.bytes.is_empty() {
        hello.bytes.reserve(FIRST_READ_BYTES);
    }
    let mut has_unread = !hello.bytes.is_empty();
    loop {
        if !has_unread && stream.read_buf(&mut hello.bytes).await? == 0 {
            hello.scanned = Scanned::Incomplete;
            return Ok(hello);
        }
        has_unread = false;
        if hello.records.is_none() {
            hello.scanned = go_on(&mut hello.scan, &hello.bytes);
            if hello.scanned == Scanned::RecordFragmented {
                hello.records = Some(Records::default());
                hello.scan = ClientHello::at_handshake();
            }
        }
        if let Some(records) = &mut hello.records {
            hello.scanned = records.advance(&hello.bytes, &mut hello.scan, max_bytes);
        }
        if hello.scanned != Scanned::Incomplete {
            return Ok(hello);
        }
        let limit = match hello.records {
            Some(_) => max_bytes.saturating_mul(RECORD_OVERHEAD),
            None => max_bytes + RECORD_HEADER,
        };
        if hello.bytes.len() > limit {
            hello.scanned = Scanned::Malformed;
            return Ok(hello);
        }
    }
}

/// The kernel's bound on items does not hold here: bytes are bounded.
fn go_on(scan: &mut ClientHello, bytes: &[u8]) -> Scanned {
    loop {
        match scan.advance(bytes) {
            Scanned::TooLong => scan.allow_more_items(),
            scanned => return scanned,
        }
    }
}

/// Takes the records off a hello that comes in several.
#[derive(Default)]
struct Records {
    /// Bytes of the source whose records have been taken off.
    taken: usize,
    handshake: Vec<u8>,
}

impl Records {
    fn advance(&mut self, source: &[u8], scan: &mut ClientHello, max_bytes: usize) -> Scanned {
        while let Some(header) = source.get(self.taken..self.taken + RECORD_HEADER) {
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            // Nothing may come between the records of one message, and none may be empty.
            let good = header[0] == CONTENT_TYPE_HANDSHAKE && header[1] == 3;
            if !good || length == 0 || length > MAX_RECORD {
                return Scanned::Malformed;
            }
            let from = self.taken + RECORD_HEADER;
            let Some(fragment) = source.get(from..from + length) else {
                break;
            };
            self.handshake.extend_from_slice(fragment);
            self.taken = from + length;
            match self.whole() {
                Whole::No if self.handshake.len() > max_bytes => return Scanned::Malformed,
                Whole::No => {}
                Whole::Yes => return go_on(scan, &self.handshake),
                // Nothing may share a record with the hello's end.
                Whole::Overrun => return Scanned::Malformed,
            }
        }
        Scanned::Incomplete
    }

    fn whole(&self) -> Whole {
        let Some(header) = self.handshake.first_chunk::<HANDSHAKE_HEADER>() else {
            return Whole::No;
        };
        let [_, high, middle, low] = *header;
        let length = HANDSHAKE_HEADER + u32::from_be_bytes([0, high, middle, low]) as usize;
        match self.handshake.len().cmp(&length) {
            std::cmp::Ordering::Less => Whole::No,
            std::cmp::Ordering::Equal => Whole::Yes,
            std::cmp::Ordering::Greater => Whole::Overrun,
        }
    }
}

enum Whole {
    No,
    Yes,
    Overrun,
}

impl Hello {
    /// The token it shows, as it claims.
    pub(super) fn token(&self) -> Option<Token> {
        self.scan.token()
    }

    /// What kind of client it is; `None` unless the hello is whole. Found out when it is
    /// asked for: a flood of bad tokens does not pay for it.
    pub(super) fn ja4(&self) -> Option<Ja4> {
        *self.ja4.get_or_init(|| self.compute_ja4())
    }

    fn compute_ja4(&self) -> Option<Ja4> {
        if !matches!(self.scanned, Scanned::Found | Scanned::Absent) {
            return None;
        }
        match &self.records {
            Some(records) => Ja4::of(&records.handshake),
            None => Ja4::of(self.bytes.get(RECORD_HEADER..)?),
        }
    }

    /// Whose token it shows, as it claims.
    pub(super) fn key_id(&self) -> Option<KeyId> {
        self.token().map(|token| token.key_id)
    }

    /// Whether it has been read to its end, or to where it makes no sense any more.
    pub(super) fn is_whole(&self) -> bool {
        self.scanned != Scanned::Incomplete
    }

    /// The verdict at `now_s` (Unix time, seconds), by the hello alone.
    pub(super) fn judge_at(&self, keys: &Snapshot, window: Window, now_s: u64) -> Reason {
        policy::judge(&self.scan, self.scanned, keys, now_s, window)
    }

    /// The stateless verdict against the keys as they are now. The reason is for the metrics: a hello
    /// that cannot be judged counts as such also when it may pass to the legacy lane.
    pub(super) fn judge(
        &self,
        keys: &Snapshot,
        window: Window,
        deny_legacy: bool,
    ) -> (Reason, Decision) {
        let now_s = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_secs());
        let reason = policy::judge(&self.scan, self.scanned, keys, now_s, window);
        match reason {
            Reason::Accepted => {
                let token = self.scan.token();
                match token.and_then(|token| keys.find(token.key_id)) {
                    Some(key) => (reason, Decision::Zero(Arc::clone(key))),
                    None => (Reason::KeyUnknown, Decision::Refuse),
                }
            }
            Reason::HelloMalformed | Reason::Incomplete | Reason::RecordFragmented => {
                (reason, Decision::Malformed)
            }
            Reason::NotHello => (reason, Decision::NotTls),
            // No token, or none that can be judged: the header must show a key.
            Reason::NoToken
            | Reason::AcmeChallenge
            | Reason::HelloTooLong
            | Reason::PolicyIncomplete => {
                if deny_legacy {
                    (Reason::LegacyDenied, Decision::Refuse)
                } else {
                    (reason, Decision::Legacy)
                }
            }
            _ => (reason, Decision::Refuse),
        }
    }
}

#[cfg(test)]
mod tests;
