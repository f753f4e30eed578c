//! Takes out lines that begin with a client's per-request nonce.

use memchr::memchr;

/// What such a line begins with.
pub(super) const BEGINNING: &[u8] = b"x-anthropic-billing-header";

/// Where in a text it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lines {
    /// At a line's beginning, of which so many bytes are those of [`BEGINNING`].
    Beginning(usize),
    /// In a line that stays.
    Stays,
    /// In one that is left out.
    Goes,
}

impl Lines {
    pub(super) const START: Self = Self::Beginning(0);

    /// Hands on what stays of the text's next piece; whether something did not.
    pub(super) fn push(&mut self, mut piece: &[u8], mut stays: impl FnMut(&[u8])) -> bool {
        let mut left_out = false;
        while !piece.is_empty() {
            match *self {
                Self::Beginning(seen) => {
                    let rest = &BEGINNING[seen..];
                    let same = rest.iter().zip(piece).take_while(|(a, b)| a == b).count();
                    if same == rest.len() {
                        *self = Self::Goes;
                        left_out = true;
                    } else if same == piece.len() {
                        *self = Self::Beginning(seen + same);
                    } else {
                        stays(&BEGINNING[..seen + same]);
                        *self = Self::Stays;
                    }
                    piece = &piece[same..];
                }
                Self::Stays | Self::Goes => {
                    let end = memchr(b'\n', piece).map_or(piece.len(), |at| at + 1);
                    let (line, rest) = piece.split_at(end);
                    if *self == Self::Stays {
                        stays(line);
                    }
                    if line.ends_with(b"\n") {
                        *self = Self::START;
                    }
                    piece = rest;
                }
            }
        }
        left_out
    }

    /// The text's end.
    pub(super) fn end(&mut self, stays: impl FnOnce(&[u8])) {
        if let Self::Beginning(seen) = *self {
            stays(&BEGINNING[..seen]);
        }
        *self = Self::START;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_go_wherever_the_text_is_cut() {
        for (text, kept) in [
            ("x-anthropic-billing-header: cch=1;\nYou are", "You are"),
            ("You are\nx-anthropic-billing-header: 1", "You are\n"),
            ("a\nx-anthropic-billing-header\n\nb", "a\n\nb"),
            ("x-anthropic-billing-header", ""),
            ("x-anthropic-billing-heade", "x-anthropic-billing-heade"),
            ("x-anthropic-billing-head\nx", "x-anthropic-billing-head\nx"),
            (
                " x-anthropic-billing-header: 1\n",
                " x-anthropic-billing-header: 1\n",
            ),
            ("", ""),
        ] {
            for size in 1..=text.len().max(1) {
                let (mut lines, mut out) = (Lines::START, Vec::new());
                for piece in text.as_bytes().chunks(size) {
                    lines.push(piece, |stays| out.extend_from_slice(stays));
                }
                lines.end(|stays| out.extend_from_slice(stays));
                assert_eq!(String::from_utf8(out).unwrap(), kept, "{text:?} by {size}");
            }
        }
    }
}
