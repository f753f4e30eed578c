//! The pieces of a body that is held until it is sent on.
//!
//! A piece keeps all of the buffer that it came in, which may be twice as long, and the room for
//! bodies counts the pieces alone: so only those of short bodies stay in theirs, the small ones
//! excepted. Not here: that room ([`super::room`]).

use bytes::{Bytes, BytesMut};

/// Of a body of this length at most the pieces stay in the buffers that they came in.
const SHORT_BYTES: u64 = 16 * 1024;
/// But for those that are smaller.
const SMALL_BYTES: usize = 2048;
/// All others are put into blocks. A block is as long as an eighth of what is there already, and
/// at least so long.
const SHORT_BLOCK_BYTES: u64 = 4096;
/// A body of this length and more lies in blocks of this length, which the daemon's allocator
/// maps: what is not filled of them is no memory, and it goes when they do.
const LONG_BLOCK_BYTES: u64 = 256 * 1024;

/// What has come of one body.
#[derive(Default)]
pub(super) struct Pieces {
    whole: Vec<Bytes>,
    /// The block that is being filled, behind those.
    block: BytesMut,
    bytes: u64,
}

impl Pieces {
    /// How long it is so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// One more.
    pub(super) fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len() as u64;
        let is_large = piece.len() >= SMALL_BYTES || self.whole.is_empty();
        if self.bytes <= SHORT_BYTES && is_large {
            self.end_block();
            self.whole.push(piece);
            return;
        }
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let free = self.block.capacity() - self.block.len();
            if free == 0 {
                self.begin_block();
                continue;
            }
            let (now, later) = rest.split_at(rest.len().min(free));
            self.block.extend_from_slice(now);
            rest = later;
        }
    }

    /// All of them, to be read again.
    pub(super) fn all(&mut self) -> &[Bytes] {
        self.end_block();
        &self.whole
    }

    /// All of them.
    pub(super) fn into_all(mut self) -> Vec<Bytes> {
        self.end_block();
        self.whole
    }

    fn begin_block(&mut self) {
        self.end_block();
        let bytes = if self.bytes < LONG_BLOCK_BYTES {
            (self.bytes / 8).next_power_of_two().max(SHORT_BLOCK_BYTES)
        } else {
            LONG_BLOCK_BYTES
        };
        self.block = BytesMut::with_capacity(bytes as usize);
    }

    fn end_block(&mut self) {
        if !self.block.is_empty() {
            self.whole.push(std::mem::take(&mut self.block).freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of so many bytes that come in pieces of that size.
    fn kept(length: usize, size: usize) -> Vec<Bytes> {
        let body: Vec<u8> = (0..length).map(|at| (at * 7 % 251) as u8).collect();
        let mut pieces = Pieces::default();
        for piece in body.chunks(size) {
            pieces.push(Bytes::copy_from_slice(piece));
        }
        assert_eq!(pieces.bytes(), length as u64);
        assert_eq!(pieces.all().concat(), body, "{length} by {size}");
        let all = pieces.into_all();
        assert_eq!(all.concat(), body, "{length} by {size}");
        all
    }

    #[test]
    fn a_body_is_kept_byte_for_byte_and_in_few_pieces() {
        for length in [0, 1, 5000, 16 * 1024, 16 * 1024 + 1, 300_000, 2_000_000] {
            for size in [1, 7, 2048, 9000, 70_000] {
                let most = 40 + length / LONG_BLOCK_BYTES as usize;
                let count = kept(length, size).len();
                assert!(count <= most, "{length} by {size}: {count}");
            }
        }
        assert_eq!(kept(16 * 1024, 4096).len(), 4, "each in its own buffer");
    }
}
