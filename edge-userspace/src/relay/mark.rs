//! A byte order mark behind a ping.
//!
//! At the beginning of an event stream a mark is ignored; anywhere else it is a part of the first
//! line's name, which nobody knows then (WHATWG HTML, section 9.2.5). So where the edge has said
//! something before the upstream's first byte, the mark is left out. It is the one case in which a
//! byte of the upstream's does not go on.

use bytes::{Buf as _, Bytes, BytesMut};

const MARK: &[u8] = b"\xef\xbb\xbf";

/// Where a stream's beginning stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mark {
    /// Nothing has come, and nothing was said.
    #[default]
    Begins,
    /// Something was said before the upstream's first byte; so many bytes of a mark have come.
    Late(usize),
    Over,
}

impl Mark {
    /// Something of the edge's own goes to the client.
    pub(super) fn said(&mut self) {
        if *self == Self::Begins {
            *self = Self::Late(0);
        }
    }

    /// What of a piece goes on.
    pub(super) fn pass(&mut self, mut piece: Bytes) -> Bytes {
        let Self::Late(mut came) = *self else {
            *self = Self::Over;
            return piece;
        };
        let before = came;
        while came < MARK.len() && piece.get(came - before) == Some(&MARK[came]) {
            came += 1;
        }
        let here = came - before;
        if came == MARK.len() || here == piece.len() {
            *self = if came == MARK.len() {
                Self::Over
            } else {
                Self::Late(came)
            };
            piece.advance(here);
            return piece;
        }
        *self = Self::Over;
        if before == 0 {
            return piece;
        }
        // It only looked like one.
        let mut whole = BytesMut::from(&MARK[..before]);
        whole.extend_from_slice(&piece);
        whole.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(said: bool, stream: &[u8], size: usize) -> Vec<u8> {
        let mut mark = Mark::default();
        if said {
            mark.said();
        }
        let pieces = stream.chunks(size);
        let pieces = pieces.flat_map(|piece| {
            let passed = mark.pass(Bytes::copy_from_slice(piece));
            mark.said();
            passed
        });
        pieces.collect()
    }

    #[test]
    fn only_a_mark_at_the_beginning_and_behind_a_ping_is_left_out() {
        let without = b"event: a\ndata: \xef\xbb\xbf\n\n";
        let with = [MARK, without].concat();
        let alike = [&MARK[..2], without].concat();
        for size in 1..20 {
            assert_eq!(passed(true, &with, size), without, "pieces of {size}");
            assert_eq!(passed(false, &with, size), with, "nothing was said");
            assert_eq!(passed(true, without, size), without);
            assert_eq!(passed(true, &alike, size), alike, "no mark");
        }
    }
}
