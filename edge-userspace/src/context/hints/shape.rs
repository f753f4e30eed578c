//! The shape of a user's message: how it begins.

use crate::tokens::Pattern;

/// So much of a message is looked at, bytes.
pub const LOOKED_AT_BYTES: usize = 256;
/// How many shapes a message has, the finest first.
pub(super) const LEVELS: usize = 3;
/// Pieces of each level. Fifteen are what the hint is documented by; four are mostly the
/// words that say what is wanted; none is the context alone.
const PIECES: [usize; LEVELS] = [15, 4, 0];

/// Each level's number and the part of the message that it goes by.
///
/// Pieces are those that o200k_base's pattern splits a text into before it merges: nearly
/// always one token each, and the same for every model.
pub(super) fn levels(message: &[u8]) -> [(u8, &[u8]); LEVELS] {
    const PATTERN: Pattern = Pattern::O200k;
    let looked_at = &message[..message.len().min(LOOKED_AT_BYTES)];
    let (mut end, mut pieces) = (0, 0);
    let mut level = LEVELS;
    let mut parts = [(0, &looked_at[..0]); LEVELS];
    while level > 0 {
        level -= 1;
        while pieces < PIECES[level] && end < looked_at.len() {
            end = PATTERN.piece_end(looked_at, end);
            pieces += 1;
        }
        parts[level] = (level as u8, &looked_at[..end]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_fifteen_pieces_four_and_none() {
        let message =
            b"Write a function that adds 2 numbers, please, and explain each line of it to me";
        let [fine, coarse, none] =
            levels(message).map(|(_, part)| std::str::from_utf8(part).unwrap());
        assert_eq!(coarse, "Write a function that");
        assert_eq!(
            fine,
            "Write a function that adds 2 numbers, please, and explain each line"
        );
        assert_eq!(none, "");
        assert_ne!(levels(b"Hi")[0].0, levels(b"Hi")[1].0);
        for message in [&b""[..], b"\xff\xfe", &[b' '; 1000]] {
            for (_, part) in levels(message) {
                assert!(part.len() <= LOOKED_AT_BYTES && message.starts_with(part));
            }
        }
    }
}
