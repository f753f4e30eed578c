//! The text of a whole answer, until it is known whether it must be counted.
//!
//! Usage stands behind the text. Where it says all, counting would have been for nothing: of long
//! answers that is most of what they cost. So the text waits, and is counted when it gets too
//! long, or when it ends without a word of usage. Not here: event streams, of which the count goes
//! on while they run.

use crate::prompt::Output;

/// So much of an answer's text waits at most.
const MOST_BYTES: usize = 256 * 1024;
/// And of so many blocks.
const MOST_BLOCKS: usize = 1024;
/// It lies in parts of this size: one piece of memory would be moved while it grows.
const PART_BYTES: usize = 32 * 1024;

/// Text that came and was not counted.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    parts: Vec<Vec<u8>>,
    bytes: usize,
    /// Where in it a block ends.
    ends: Vec<usize>,
}

impl Waiting {
    /// More of the text. What does not fit is counted, with all that is before it.
    pub(super) fn push(&mut self, output: &mut Output, mut piece: &[u8]) {
        if self.bytes + piece.len() > MOST_BYTES {
            self.count(output);
            return output.push(piece);
        }
        self.bytes += piece.len();
        while !piece.is_empty() {
            let room = match self.parts.last() {
                Some(last) => PART_BYTES - last.len(),
                None => 0,
            };
            if room == 0 {
                let size = piece.len().min(PART_BYTES);
                self.parts.push(Vec::with_capacity(size));
                continue;
            }
            let (now, later) = piece.split_at(piece.len().min(room));
            if let Some(last) = self.parts.last_mut() {
                last.extend_from_slice(now);
            }
            piece = later;
        }
    }

    /// What comes next is another block's.
    pub(super) fn end_block(&mut self, output: &mut Output) {
        if self.ends.len() < MOST_BLOCKS {
            self.ends.push(self.bytes);
        } else {
            self.count(output);
            output.end_block();
        }
    }

    /// Has it counted.
    pub(super) fn count(&mut self, output: &mut Output) {
        let Self { parts, ends, .. } = std::mem::take(self);
        let (mut at, mut ends) = (0, ends.into_iter().peekable());
        for part in parts {
            let mut part = &part[..];
            while !part.is_empty() {
                while ends.next_if_eq(&at).is_some() {
                    output.end_block();
                }
                let until_end = ends.peek().map_or(part.len(), |end| end - at);
                let (now, later) = part.split_at(until_end.min(part.len()));
                output.push(now);
                at += now.len();
                part = later;
            }
        }
        ends.for_each(|_| output.end_block());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::output_for_tests;

    #[test]
    fn what_waited_comes_to_the_same_as_what_did_not() {
        let words = "So the model says: água über naïve 日本語 🦀, and 1234567 more.\n\n";
        // Over both bounds, more than once.
        for (blocks, times) in [(3, 1), (3, 5000), (5000, 1), (1, 20_000), (0, 3)] {
            let text = words.repeat(times);
            let (mut waiting, mut late) = (Waiting::default(), output_for_tests());
            let mut at_once = output_for_tests();
            for _ in 0..blocks {
                waiting.end_block(&mut late);
                at_once.end_block();
                for piece in text.as_bytes().chunks(10_007) {
                    waiting.push(&mut late, piece);
                    at_once.push(piece);
                }
                assert!(waiting.bytes <= MOST_BYTES && waiting.ends.len() <= MOST_BLOCKS);
            }
            waiting.count(&mut late);
            assert_eq!(waiting.bytes, 0);
            assert_eq!(late.tokens(), at_once.tokens(), "{blocks} of {times}");
        }
    }
}
