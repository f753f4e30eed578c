//! The ClientHello scanner: finds the pre-auth token among the ALPN names of a TLS
//! ClientHello (RFC 8446 section 4.1.2, RFC 7301 section 3.1).
//!
//! It reads through [`Source`], keeps everything it knows in [`ClientHello`], and stops
//! wherever the bytes end; with more bytes it goes on from there (see
//! [`ClientHello::consume`]). It gives no verdict before the last byte of the hello is in
//! sight. Extensions may come in any order; unknown ones are skipped by length.
//!
//! The shape is for the BPF verifier: one bounded loop, an item or a few a turn, state in memory
//! behind [`Source::fence`], so that every turn looks like the one before.
//!
//! Not here: reassembly of TLS records (a hello in several is reported as such), and
//! whether the token is any good ([`crate::policy`]).

use crate::token::{NAME_LEN, PREFIX, TEXT_LEN, Text, Token};

/// Bytes by offset. Offset 0 is the first byte that the scanner has not consumed.
///
/// Offsets are 64 bits wide, as the kernel's registers are: each conversion would stand
/// between the length of one item and the place of the next.
pub trait Source {
    /// How many extensions are read in one turn when no other item lies between them. More
    /// are quicker where the scan's state lies in memory, and more for a verifier to walk.
    const EXTENSIONS_A_TURN: u32 = 1;
    /// How many bytes there are.
    fn len(&self) -> u64;
    /// The byte at `at`, if it is there.
    fn u8(&self, at: u64) -> Option<u8>;
    /// The two bytes at `at`, the first highest.
    fn be16(&self, at: u64) -> Option<u16>;
    /// The four bytes at `at`, the first highest.
    fn be32(&self, at: u64) -> Option<u32>;
    /// The eight bytes at `at`, the first lowest.
    fn le64(&self, at: u64) -> Option<u64>;
    /// The 56 bytes at `at` in words of eight, the first lowest.
    fn text(&self, at: u64) -> Option<Text>;
    /// Makes the compiler read the scanner's state from memory again. Nothing on the host;
    /// in the kernel it keeps the verifier's view of each turn the same.
    #[inline(always)]
    fn fence(&self, hello: &mut ClientHello) {
        let _ = hello;
    }

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Source for [u8] {
    #[inline]
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    #[inline]
    fn u8(&self, at: u64) -> Option<u8> {
        self.get(at as usize).copied()
    }

    #[inline]
    fn be16(&self, at: u64) -> Option<u16> {
        let bytes = self.get(at as usize..)?.first_chunk()?;
        Some(u16::from_be_bytes(*bytes))
    }

    #[inline]
    fn be32(&self, at: u64) -> Option<u32> {
        let bytes = self.get(at as usize..)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes))
    }

    #[inline]
    fn le64(&self, at: u64) -> Option<u64> {
        let bytes = self.get(at as usize..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    #[inline]
    fn text(&self, at: u64) -> Option<Text> {
        let bytes: &[u8; TEXT_LEN] = self.get(at as usize..)?.first_chunk()?;
        let (words, _) = bytes.as_chunks();
        Some(core::array::from_fn(|i| u64::from_le_bytes(words[i])))
    }
}

/// What a scan came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// The whole hello was seen; it offers one token or more.
    Found,
    /// The whole hello was seen; it offers no token.
    Absent,
    /// The bytes ended before the hello did.
    Incomplete,
    /// This is no TLS ClientHello.
    NotTls,
    /// The hello goes on in another TLS record.
    RecordFragmented,
    /// The hello contradicts itself. TLS would answer `decode_error`.
    Malformed,
    /// More extensions and names than [`MAX_ITEMS`].
    TooLong,
    /// [`STEP_TURNS`] turns are over; another step goes on.
    Paused,
}

/// The most extensions and ALPN names together that are followed. Browsers send about
/// twenty of both; RFC 8446 sets no limit, but the time that a packet may take does.
pub const MAX_ITEMS: u32 = 192;

/// The most turns of one [`ClientHello::step`], one to an item and two to a list of names:
/// what the BPF verifier has to walk in one go. Nearly every hello takes fewer.
pub const STEP_TURNS: u32 = 32;

/// The longest stretch that the scanner must see whole before it can go on, bytes: what a
/// caller must be able to keep between two segments.
pub const MAX_PARTIAL: usize = NAME_LEN + 1;

// Record header (RFC 8446 section 5.1), handshake header (section 4), then
// legacy_version, random and the length of legacy_session_id (section 4.1.2).
const RECORD_HEADER: u64 = 5;
const HANDSHAKE_HEADER: u64 = 4;
const FIXED_PART: u64 = 2 + 32 + 1;
const CONTENT_TYPE_HANDSHAKE: u8 = 22;
const HANDSHAKE_CLIENT_HELLO: u8 = 1;
const MAX_RECORD: u64 = 1 << 14;
const MAX_SESSION_ID: u64 = 32;
/// RFC 7301 section 3.1.
const EXTENSION_ALPN: u32 = 16;

/// What the scanner is to read next.
mod phase {
    pub(super) const RECORD: u32 = 0;
    pub(super) const HANDSHAKE: u32 = 1;
    pub(super) const CIPHERS: u32 = 2;
    pub(super) const COMPRESSION: u32 = 3;
    pub(super) const EXTENSIONS: u32 = 4;
    pub(super) const EXTENSION: u32 = 5;
    pub(super) const NAMES: u32 = 6;
    pub(super) const NAME: u32 = 7;
}

const SAW_ALPN: u32 = 1;
const SAW_ACME: u32 = 2;
const FIRST_TOKEN_HAS_WRONG_LENGTH: u32 = 4;

/// A scan under way: where it is and what it has found. A plain record, so that it can
/// lie in a BPF map between two packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ClientHello {
    phase: u32,
    /// Offset of the next item in the source.
    at: u32,
    /// Offset at which the hello ends.
    end: u32,
    /// Offset at which the ALPN extension ends.
    names_end: u32,
    /// Extensions and names read so far.
    items: u32,
    flags: u32,
    tokens: u32,
    padding: u32,
    token: Text,
}

const _: () = {
    use core::mem::{align_of, offset_of, size_of};
    assert!(size_of::<ClientHello>() == 88 && align_of::<ClientHello>() == 8);
    assert!(offset_of!(ClientHello, padding) == 28 && offset_of!(ClientHello, token) == 32);
};

/// What one turn came to: go on, or stop with an answer.
type Turn = Result<(), Scanned>;

impl Default for ClientHello {
    fn default() -> Self {
        Self::at_record()
    }
}

impl ClientHello {
    /// A scan that begins at a TLS record header: the first bytes of a connection.
    #[inline(always)]
    #[must_use]
    pub const fn at_record() -> Self {
        Self {
            phase: phase::RECORD,
            at: 0,
            end: 0,
            names_end: 0,
            items: 0,
            flags: 0,
            tokens: 0,
            padding: 0,
            token: [0; 7],
        }
    }

    /// A scan that begins at the handshake header: for a hello whose records have been
    /// taken off.
    #[must_use]
    pub const fn at_handshake() -> Self {
        let mut hello = Self::at_record();
        hello.phase = phase::HANDSHAKE;
        hello
    }

    /// Begins anew in place. Leaves the token's words alone, which nothing reads before
    /// they are written, and has fences on the way: longer runs of zeros would become a
    /// call of `memset`, byte by byte in the kernel.
    #[inline(always)]
    pub fn restart<S: Source + ?Sized>(&mut self, source: &S) {
        self.phase = phase::RECORD;
        self.at = 0;
        self.end = 0;
        source.fence(self);
        self.names_end = 0;
        self.items = 0;
        source.fence(self);
        self.flags = 0;
        self.tokens = 0;
    }

    /// Whether the hello offers `acme-tls/1` (RFC 8737).
    #[inline(always)]
    #[must_use]
    pub const fn offers_acme(&self) -> bool {
        self.flags & SAW_ACME != 0
    }

    /// How many `ezl1-` names the hello offers.
    #[inline(always)]
    #[must_use]
    pub const fn token_count(&self) -> u32 {
        self.tokens
    }

    /// The first token. `None` when there is none or it is malformed.
    #[inline(always)]
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        if self.tokens == 0 || self.flags & FIRST_TOKEN_HAS_WRONG_LENGTH != 0 {
            return None;
        }
        Token::parse(&self.token)
    }

    /// Allows another [`MAX_ITEMS`] after [`Scanned::TooLong`]: for userspace, which is
    /// bounded by bytes instead.
    pub const fn allow_more_items(&mut self) {
        self.items = 0;
    }

    /// Tells the scanner that the source will begin `count` bytes later from now on.
    ///
    /// After [`Scanned::Incomplete`] a caller keeps the bytes from the returned offset on
    /// (at most [`MAX_PARTIAL`], often none), puts the next segment behind them, and
    /// advances again. `len` is the source's length.
    #[inline(always)]
    pub fn consume(&mut self, len: u32) -> u32 {
        let count = if self.at < len { self.at } else { len };
        self.at -= count;
        self.end = self.end.wrapping_sub(count);
        self.names_end = self.names_end.wrapping_sub(count);
        count
    }

    /// Reads on until the hello's end, the source's end, or a reason to stop.
    pub fn advance<S: Source + ?Sized>(&mut self, source: &S) -> Scanned {
        loop {
            match self.step(source) {
                Scanned::Paused => {}
                scanned => return scanned,
            }
        }
    }

    /// The same in bounded time: after [`STEP_TURNS`] it pauses.
    #[inline(always)]
    pub fn step<S: Source + ?Sized>(&mut self, source: &S) -> Scanned {
        match self.run(source) {
            Ok(()) => Scanned::Paused,
            Err(scanned) => scanned,
        }
    }

    #[inline(always)]
    fn run<S: Source + ?Sized>(&mut self, source: &S) -> Turn {
        // What comes before the extensions stands before the loop: inside it the compiler
        // would hoist its checks and double the verifier's states with each.
        if self.phase < phase::EXTENSION {
            let mut place = Place {
                phase: self.phase,
                at: u64::from(self.at),
                end: u64::from(self.end),
            };
            let turn = place.reach_extensions(source);
            self.phase = place.phase;
            self.at = place.at as u32;
            self.end = place.end as u32;
            turn?;
        }
        let mut turn = 0;
        while turn < STEP_TURNS {
            turn += 1;
            source.fence(self);
            // The commonest first.
            match self.phase {
                phase::EXTENSION => self.extension(source)?,
                phase::NAME => self.name(source)?,
                _ => self.names(source)?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn extension<S: Source + ?Sized>(&mut self, source: &S) -> Turn {
        // Where the next begins need not go by way of memory.
        let (mut at, end) = (u64::from(self.at), u64::from(self.end));
        let mut items = self.items;
        let mut run = 0;
        while run < S::EXTENSIONS_A_TURN {
            run += 1;
            if at == end {
                self.at = at as u32;
                return Err(self.finish(source));
            }
            if at + 4 > end {
                return Err(Scanned::Malformed);
            }
            let Some(header) = source.be32(at) else {
                self.at = at as u32;
                self.items = items;
                return Err(Scanned::Incomplete);
            };
            items += 1;
            if items > MAX_ITEMS {
                self.at = at as u32;
                return Err(Scanned::TooLong);
            }
            let length = u64::from(header & 0xffff);
            at += 4;
            if header >> 16 == EXTENSION_ALPN {
                self.at = at as u32;
                self.items = items;
                return self.alpn(length);
            }
            at += length;
            if at > end {
                return Err(Scanned::Malformed);
            }
        }
        self.at = at as u32;
        self.items = items;
        Ok(())
    }

    #[inline(always)]
    fn alpn(&mut self, length: u64) -> Turn {
        if self.flags & SAW_ALPN != 0 {
            // RFC 8446 section 4.2: no two extensions of one type.
            return Err(Scanned::Malformed);
        }
        self.flags |= SAW_ALPN;
        let names_end = u64::from(self.at) + length;
        self.names_end = names_end as u32;
        if names_end > u64::from(self.end) {
            return Err(Scanned::Malformed);
        }
        self.phase = phase::NAMES;
        Ok(())
    }

    #[inline(always)]
    fn names<S: Source + ?Sized>(&mut self, source: &S) -> Turn {
        let (at, names_end) = (u64::from(self.at), u64::from(self.names_end));
        let length = u64::from(length16(source, at, names_end)?);
        if length < 2 || at + 2 + length != names_end {
            return Err(Scanned::Malformed);
        }
        self.at = (at + 2) as u32;
        self.phase = phase::NAME;
        Ok(())
    }

    #[inline(always)]
    fn name<S: Source + ?Sized>(&mut self, source: &S) -> Turn {
        let (at, names_end) = (u64::from(self.at), u64::from(self.names_end));
        if at == names_end {
            self.phase = phase::EXTENSION;
            return Ok(());
        }
        let (length, first) = length8(source, at, names_end)?;
        let name = at + 1;
        let next = name + length;
        if length == 0 || next > names_end {
            return Err(Scanned::Malformed);
        }
        if first == PREFIX[0] && length >= PREFIX.len() as u64 {
            self.look_for_token(source, name, length)?;
        } else if first == b'a' && length == 10 {
            self.look_for_acme(source, name)?;
        }
        // Counted only now: a name that is looked at again after `Incomplete` is one item.
        self.at = next as u32;
        self.count_item()
    }

    // The two below must change nothing before they have all the bytes they want: the
    // same name is looked at again after `Incomplete`.

    #[inline(always)]
    fn look_for_token<S: Source + ?Sized>(&mut self, source: &S, name: u64, length: u64) -> Turn {
        // The first letter is known.
        let second = source.be16(name + 1).ok_or(Scanned::Incomplete)?;
        let third = source.be16(name + 3).ok_or(Scanned::Incomplete)?;
        if second != u16::from_be_bytes(*b"zl") || third != u16::from_be_bytes(*b"1-") {
            return Ok(());
        }
        if self.tokens == 0 {
            if length == NAME_LEN as u64 {
                let text = source.text(name + PREFIX.len() as u64);
                self.token = text.ok_or(Scanned::Incomplete)?;
            } else {
                self.flags |= FIRST_TOKEN_HAS_WRONG_LENGTH;
            }
        }
        self.tokens += 1;
        Ok(())
    }

    #[inline(always)]
    fn look_for_acme<S: Source + ?Sized>(&mut self, source: &S, name: u64) -> Turn {
        let head = source.le64(name).ok_or(Scanned::Incomplete)?;
        let tail = source.be16(name + 8).ok_or(Scanned::Incomplete)?;
        if head == u64::from_le_bytes(*b"acme-tls") && tail == u16::from_be_bytes(*b"/1") {
            self.flags |= SAW_ACME;
        }
        Ok(())
    }

    /// Every item has been read; the last may have been skipped beyond the source's end.
    #[inline(always)]
    fn finish<S: Source + ?Sized>(&self, source: &S) -> Scanned {
        if u64::from(self.end) > source.len() {
            Scanned::Incomplete
        } else if self.tokens > 0 {
            Scanned::Found
        } else {
            Scanned::Absent
        }
    }

    #[inline(always)]
    fn count_item(&mut self) -> Turn {
        self.items += 1;
        if self.items > MAX_ITEMS {
            Err(Scanned::TooLong)
        } else {
            Ok(())
        }
    }
}

/// Where a scan is that has not come to the extensions yet. It goes from item to item in
/// registers, for each waits for the length of the one before.
struct Place {
    phase: u32,
    at: u64,
    end: u64,
}

impl Place {
    #[inline(always)]
    fn reach_extensions<S: Source + ?Sized>(&mut self, source: &S) -> Turn {
        if self.phase == phase::RECORD {
            self.record(source)?;
        }
        if self.phase == phase::HANDSHAKE {
            self.handshake(source)?;
        }
        if self.phase == phase::CIPHERS {
            self.ciphers(source)?;
        }
        if self.phase == phase::COMPRESSION {
            self.compression(source)?;
        }
        if self.phase == phase::EXTENSIONS {
            self.extensions(source)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn record<S: Source + ?Sized>(&mut self, source: &S) -> Turn {
        let header = source.be16(0);
        // The first byte alone may tell; so may the first two.
        match (source.u8(0), header) {
            (None, _) => return Err(Scanned::Incomplete),
            (Some(content_type), _) if content_type != CONTENT_TYPE_HANDSHAKE => {
                return Err(Scanned::NotTls);
            }
            (_, Some(header)) if header != u16::from(CONTENT_TYPE_HANDSHAKE) << 8 | 3 => {
                return Err(Scanned::NotTls);
            }
            _ => {}
        }
        let length = u64::from(source.be16(3).ok_or(Scanned::Incomplete)?);
        let message = source.u8(RECORD_HEADER).ok_or(Scanned::Incomplete)?;
        if length == 0 || length > MAX_RECORD || message != HANDSHAKE_CLIENT_HELLO {
            return Err(Scanned::NotTls);
        }
        if length < HANDSHAKE_HEADER {
            return Err(Scanned::RecordFragmented);
        }
        let hello = HANDSHAKE_HEADER + handshake_length(source, RECORD_HEADER)?;
        if hello > length {
            return Err(Scanned::RecordFragmented);
        }
        if hello < length {
            // RFC 8446 section 5.1: nothing may share the record with this key change.
            return Err(Scanned::Malformed);
        }
        self.at = RECORD_HEADER;
        self.phase = phase::HANDSHAKE;
        Ok(())
    }

    #[inline(always)]
    fn handshake<S: Source + ?Sized>(&mut self, source: &S) -> Turn {
        if source.u8(self.at).ok_or(Scanned::Incomplete)? != HANDSHAKE_CLIENT_HELLO {
            return Err(Scanned::NotTls);
        }
        let body = self.at + HANDSHAKE_HEADER;
        let end = body + handshake_length(source, self.at)?;
        let session_id = source
            .u8(body + FIXED_PART - 1)
            .ok_or(Scanned::Incomplete)?;
        let session_id = u64::from(session_id);
        let next = body + FIXED_PART + session_id;
        if session_id > MAX_SESSION_ID || next > end {
            return Err(Scanned::Malformed);
        }
        self.end = end;
        self.at = next;
        self.phase = phase::CIPHERS;
        Ok(())
    }

    #[inline(always)]
    fn ciphers<S: Source + ?Sized>(&mut self, source: &S) -> Turn {
        let length = u64::from(length16(source, self.at, self.end)?);
        if length < 2 || length % 2 != 0 {
            return Err(Scanned::Malformed);
        }
        self.skip(2 + length)?;
        self.phase = phase::COMPRESSION;
        Ok(())
    }

    #[inline(always)]
    fn compression<S: Source + ?Sized>(&mut self, source: &S) -> Turn {
        let (length, _) = length8(source, self.at, self.end)?;
        if length == 0 {
            return Err(Scanned::Malformed);
        }
        self.skip(1 + length)?;
        self.phase = phase::EXTENSIONS;
        Ok(())
    }

    #[inline(always)]
    fn extensions<S: Source + ?Sized>(&mut self, source: &S) -> Turn {
        // TLS 1.2 allows a hello without extensions (RFC 5246 section 7.4.1.2).
        if self.at != self.end {
            let length = u64::from(length16(source, self.at, self.end)?);
            if self.at + 2 + length != self.end {
                return Err(Scanned::Malformed);
            }
            self.at += 2;
        }
        self.phase = phase::EXTENSION;
        Ok(())
    }

    #[inline(always)]
    fn skip(&mut self, length: u64) -> Turn {
        if self.at + length > self.end {
            return Err(Scanned::Malformed);
        }
        self.at += length;
        Ok(())
    }
}

#[inline(always)]
fn length16<S: Source + ?Sized>(source: &S, at: u64, end: u64) -> Result<u16, Scanned> {
    if at + 2 > end {
        return Err(Scanned::Malformed);
    }
    source.be16(at).ok_or(Scanned::Incomplete)
}

/// A length of one byte and the byte after it. What it measures is never empty in a
/// hello, so that there are always two to read.
#[inline(always)]
fn length8<S: Source + ?Sized>(source: &S, at: u64, end: u64) -> Result<(u64, u8), Scanned> {
    if at + 2 > end {
        return Err(Scanned::Malformed);
    }
    let both = source.be16(at).ok_or(Scanned::Incomplete)?;
    Ok((u64::from(both >> 8), both as u8))
}

/// The 24-bit length of the handshake message whose header is at `at`.
#[inline(always)]
fn handshake_length<S: Source + ?Sized>(source: &S, at: u64) -> Result<u64, Scanned> {
    let high = source.u8(at + 1).ok_or(Scanned::Incomplete)?;
    let low = source.be16(at + 2).ok_or(Scanned::Incomplete)?;
    Ok(u64::from(high) << 16 | u64::from(low))
}
