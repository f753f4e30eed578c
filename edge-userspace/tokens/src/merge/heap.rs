//! Long pieces with a vocabulary that is not proper: the rule itself, with a heap of pairs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Shared;
use super::section::NONE;

/// A token in a chain of neighbours, by positions of first bytes.
#[derive(Clone, Copy)]
struct Link {
    /// [`NONE`] if it has merged into the one before.
    id: u32,
    previous: u32,
    next: u32,
}

/// The chain, and the pairs in it that merge, by rank and then by position.
#[derive(Default)]
pub(super) struct Heap {
    chain: Vec<Link>,
    pairs: BinaryHeap<Reverse<(u32, u32, u32, u32)>>,
}

/// Before the first and after the last.
const END: u32 = u32::MAX;

impl Heap {
    /// The tokens of one piece; of at most 4 GiB, what is more is not counted.
    pub(super) fn count(&mut self, shared: &Shared<'_>, piece: &[u8]) -> u64 {
        let piece = &piece[..piece.len().min(END as usize - 1)];
        let length = piece.len() as u32;
        self.chain.clear();
        self.pairs.clear();
        self.chain
            .extend(piece.iter().zip(0..).map(|(&byte, at): (_, u32)| Link {
                id: shared.byte_ids[byte as usize],
                previous: at.wrapping_sub(1),
                next: if at + 1 == length { END } else { at + 1 },
            }));
        for at in 1..length {
            self.offer(shared, at - 1, at);
        }
        let mut count = u64::from(length);
        while let Some(Reverse((merged, at, left, right))) = self.pairs.pop() {
            let Link { id, previous, next } = self.chain[at as usize];
            // A pair of which one has merged elsewhere is no pair any more.
            if id != left || next == END || self.chain[next as usize].id != right {
                continue;
            }
            let after = self.chain[next as usize].next;
            self.chain[next as usize].id = NONE;
            self.chain[at as usize] = Link {
                id: merged,
                previous,
                next: after,
            };
            count -= 1;
            if after != END {
                self.chain[after as usize].previous = at;
                self.offer(shared, at, after);
            }
            if previous != END {
                self.offer(shared, previous, at);
            }
        }
        count
    }

    /// Enters two neighbours if they merge.
    fn offer(&mut self, shared: &Shared<'_>, left: u32, right: u32) {
        let ids = (self.chain[left as usize].id, self.chain[right as usize].id);
        let merged = shared.merged(ids.0, ids.1);
        if merged != NONE {
            self.pairs.push(Reverse((merged, left, ids.0, ids.1)));
        }
    }
}
