//! What is to be written to the client, in its order.

use bytes::{Buf as _, Bytes};
use std::collections::VecDeque;

/// So much of what has been written may lie before the rest.
const MOST_BEHIND: usize = 64 * 1024;
/// A piece of so many bytes or more stays where it is. It may keep alive a buffer that it is a
/// small part of; copied it would be free of that.
const LEAST_PIECE_BYTES: usize = 8 * 1024;

/// One buffer, and large pieces of bodies between its parts; what has been written is behind.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    written: usize,
    /// Each with the place in `bytes` before which it comes.
    pieces: VecDeque<(usize, Bytes)>,
    pieces_bytes: usize,
}

impl Output {
    /// In its parts, none of which is empty.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut begin = self.written;
        let pieces = self.pieces.iter().flat_map(move |(at, piece)| {
            let before = &self.bytes[begin..*at];
            begin = *at;
            [before, piece]
        });
        let last = self.pieces.back().map_or(self.written, |(at, _)| *at);
        let parts = pieces.chain([&self.bytes[last..]]);
        parts.filter(|part| !part.is_empty())
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.written + self.pieces_bytes
    }

    /// To append to.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends that.
    pub(crate) fn push(&mut self, piece: Bytes) {
        if piece.len() < LEAST_PIECE_BYTES {
            self.bytes.extend_from_slice(&piece);
        } else {
            self.pieces_bytes += piece.len();
            self.pieces.push_back((self.bytes.len(), piece));
        }
    }

    /// So many bytes more have been written.
    pub(crate) fn wrote(&mut self, mut count: usize) {
        while let Some((at, piece)) = self.pieces.front_mut() {
            let before = (*at - self.written).min(count);
            self.written += before;
            count -= before;
            let of_it = piece.len().min(count);
            piece.advance(of_it);
            count -= of_it;
            self.pieces_bytes -= of_it;
            if !piece.is_empty() {
                break;
            }
            self.pieces.pop_front();
        }
        self.written = self.bytes.len().min(self.written + count);
        if self.len() == 0 {
            self.bytes.clear();
            self.written = 0;
        } else if self.written > MOST_BEHIND {
            self.bytes.drain(..self.written);
            for (at, _) in &mut self.pieces {
                *at -= self.written;
            }
            self.written = 0;
        }
    }

    /// Takes the buffer away when there is nothing in it.
    pub(crate) fn reclaim(&mut self) -> Option<Vec<u8>> {
        let is_empty = self.bytes.is_empty() && self.bytes.capacity() > 0;
        is_empty.then(|| {
            self.pieces = VecDeque::new();
            std::mem::take(&mut self.bytes)
        })
    }

    /// Uses another one's memory where there is none.
    pub(crate) fn lend(&mut self, buffer: &mut Vec<u8>) {
        if self.bytes.capacity() == 0 {
            buffer.clear();
            std::mem::swap(&mut self.bytes, buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(output: &Output) -> Vec<u8> {
        let parts: Vec<_> = output.parts().collect();
        assert!(parts.iter().all(|part| !part.is_empty()));
        let all = parts.concat();
        assert_eq!(all.len(), output.len());
        all
    }

    #[test]
    fn what_is_written_goes_and_the_rest_stays_in_order() {
        let mut output = Output::default();
        let mut lent = Vec::with_capacity(100);
        output.lend(&mut lent);
        assert_eq!(lent.capacity(), 0);
        output.end().extend_from_slice(b"one two");
        output.wrote(4);
        output.push(Bytes::from_static(b" three"));
        assert_eq!(all(&output), b"two three");
        assert!(output.reclaim().is_none());
        output.wrote(100);
        assert_eq!(output.len(), 0);
        assert_eq!(output.reclaim().unwrap().capacity(), 100);
        output.end().extend_from_slice(&[b'x'; 3 * MOST_BEHIND]);
        output.wrote(MOST_BEHIND);
        output.wrote(1);
        assert_eq!(output.len(), 2 * MOST_BEHIND - 1);
        assert_eq!(output.bytes.len(), output.len());
    }

    #[test]
    fn large_pieces_stay_where_they_are_and_come_in_their_places() {
        let large = |letter: u8, more: usize| Bytes::from(vec![letter; LEAST_PIECE_BYTES + more]);
        let pieces = [
            Bytes::from_static(b"head"),
            large(b'a', 0),
            large(b'b', 7),
            Bytes::from_static(b"between"),
            Bytes::from(vec![b's'; LEAST_PIECE_BYTES - 1]),
            large(b'c', 1),
            large(b'd', 3 * MOST_BEHIND),
            Bytes::from_static(b"last"),
        ];
        let expected = pieces.concat();
        for step in [1, 3, 4, 5, 1000, LEAST_PIECE_BYTES + 4, 50_000, usize::MAX] {
            let mut output = Output::default();
            for piece in &pieces {
                output.push(piece.clone());
            }
            assert!(
                output
                    .parts()
                    .any(|part| part.as_ptr() == pieces[1].as_ptr())
            );
            assert_eq!(all(&output), expected);
            let mut written = 0;
            while written < expected.len() {
                assert!(output.reclaim().is_none());
                // More comes meanwhile, and is looked for behind.
                let count = step.min(output.len());
                output.wrote(count);
                written += count;
                if step >= 1000 || written.is_multiple_of(997) {
                    assert!(all(&output) == expected[written..], "{step}");
                }
            }
            assert_eq!(output.parts().next(), None);
            assert!(output.reclaim().is_some());
            assert_eq!(output.pieces.capacity(), 0);
        }
    }

    #[test]
    fn what_lies_behind_is_given_up_between_pieces_too() {
        let mut output = Output::default();
        output.end().extend_from_slice(&[b'x'; MOST_BEHIND + 10]);
        output.push(Bytes::from(vec![b'y'; LEAST_PIECE_BYTES]));
        output.end().extend_from_slice(b"end");
        output.wrote(MOST_BEHIND + 5);
        assert_eq!(output.bytes.len(), 8);
        let rest = [b"xxxxx", &[b'y'; LEAST_PIECE_BYTES][..], b"end"].concat();
        assert_eq!(all(&output), rest);
        output.wrote(6);
        assert_eq!(all(&output), rest[6..]);
    }
}
