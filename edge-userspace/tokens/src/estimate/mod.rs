//! The estimate: how many tokens a text has about, from one pass at memory speed.
//!
//! The pass counts [features](Features): of bytes their classes, how often one follows another
//! and how often a byte is repeated; of characters above ASCII the script and what they cost
//! alone. Every [`BLOCK_BYTES`] it decides by a few comparisons of what kind the text is
//! ([`Segment`]). Weights for each kind, fitted on texts whose counts are known, turn that into
//! tokens with an interval. Which features a text has depends on no vocabulary that is asked
//! for: so a text can be scanned before its model is known, and features add up.
//!
//! Not for billing or refusing where a vocabulary is known: that is what
//! [`Counter`](crate::Counter) is for.

pub(crate) mod algebra;
mod bound;
pub mod calibrate;
pub(crate) mod characters;
pub(crate) mod classes;
#[cfg(test)]
mod deceiving_tests;
mod estimator;
mod groups;
#[cfg(test)]
mod ranges;
mod segment;
#[cfg(test)]
mod tests;
pub mod weights;

use std::fmt;
use std::ops::AddAssign;

use crate::arch::{self, Isa};
use algebra::{Carry, Counts, FEATURES};

pub use bound::lower_bound;
pub use estimator::{Estimate, Estimator, estimate};
pub use segment::Segment;

/// So many bytes are taken to be of one kind.
pub const BLOCK_BYTES: usize = 2048;

/// What was counted of texts: by the kind of the stretch, how often each property held.
#[derive(Clone, PartialEq, Eq)]
pub struct Features {
    /// Of each segment that has some, in their order: most texts have few.
    sums: Vec<(Segment, Counts)>,
}

impl Features {
    /// Of no text.
    #[must_use]
    pub const fn new() -> Self {
        Self { sums: Vec::new() }
    }

    /// Of a whole text.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        let mut scan = Scan::new();
        scan.push(text);
        scan.finish()
    }

    /// How many bytes were scanned.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts().map(|(_, counts)| bytes_of(counts)).sum()
    }

    /// How many bytes were taken to be of that kind.
    #[must_use]
    pub fn bytes_of(&self, segment: Segment) -> u64 {
        let of = self.sums.iter().find(|part| part.0 == segment);
        of.map_or(0, |(_, counts)| bytes_of(counts))
    }

    /// The segments that have counts, with them.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Segment, &Counts)> {
        self.sums.iter().map(|(segment, counts)| (*segment, counts))
    }

    /// The counts of that segment.
    fn sum(&mut self, segment: Segment) -> &mut Counts {
        let at = self.sums.iter().position(|part| part.0 >= segment);
        let at = at.unwrap_or(self.sums.len());
        if self.sums.get(at).is_none_or(|part| part.0 != segment) {
            self.sums.insert(at, (segment, [0; FEATURES]));
        }
        &mut self.sums[at].1
    }

    fn add(&mut self, segment: Segment, counts: &Counts) {
        for (sum, count) in self.sum(segment).iter_mut().zip(counts) {
            *sum += count;
        }
    }
}

impl Default for Features {
    fn default() -> Self {
        Self::new()
    }
}

impl AddAssign<&Self> for Features {
    fn add_assign(&mut self, other: &Self) {
        for (segment, counts) in other.parts() {
            self.add(segment, counts);
        }
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self
            .parts()
            .map(|(segment, sums)| (segment, bytes_of(sums)));
        f.debug_map().entries(bytes).finish()
    }
}

/// Every byte is of exactly one of these run classes.
fn bytes_of(counts: &Counts) -> u64 {
    use classes::run::{DIGIT, NEWLINE, PUNCTUATION, SPACE, WORD};
    let classes = [DIGIT, NEWLINE, PUNCTUATION, SPACE, WORD];
    classes
        .into_iter()
        .map(|class| counts[algebra::at::RUN + class])
        .sum()
}

/// The scan of one text that may still be arriving: gives the same features in however many
/// parts it comes.
#[derive(Clone, Debug)]
pub struct Scan {
    isa: Isa,
    features: Features,
    /// Of the block that is not full yet.
    block: Box<Counts>,
    block_bytes: usize,
    carry: Box<Carry>,
    /// Bytes that do not fill a mask yet.
    pending: [u8; 64],
    pending_bytes: usize,
}

impl Scan {
    /// Of a text of which nothing is there yet, by the best instructions of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self::by(Isa::detect())
    }

    /// By these instructions, if the machine has them.
    #[must_use]
    pub fn with_isa(isa: Isa) -> Option<Self> {
        isa.is_available().then(|| Self::by(isa))
    }

    fn by(isa: Isa) -> Self {
        Self {
            isa,
            features: Features::new(),
            block: Box::new([0; FEATURES]),
            block_bytes: 0,
            carry: Box::new(Carry::new()),
            pending: [0; 64],
            pending_bytes: 0,
        }
    }

    /// The next part of the text.
    pub fn push(&mut self, mut part: &[u8]) {
        if self.pending_bytes > 0 {
            let taken = part.len().min(64 - self.pending_bytes);
            let end = self.pending_bytes + taken;
            self.pending[self.pending_bytes..end].copy_from_slice(&part[..taken]);
            self.pending_bytes = end;
            part = &part[taken..];
            if end < 64 {
                return;
            }
            self.pending_bytes = 0;
            let pending = self.pending;
            self.whole(&pending);
        }
        let (whole, rest) = part.split_at(part.len() / 64 * 64);
        self.whole(whole);
        self.pending[..rest.len()].copy_from_slice(rest);
        self.pending_bytes = rest.len();
    }

    /// The text is all there.
    #[must_use]
    pub fn finish(mut self) -> Features {
        self.end_text();
        self.features
    }

    /// The text is all there, and what is pushed from now on is another one. The features are
    /// those of both texts, each scanned by itself.
    pub fn end_text(&mut self) {
        let pending = self.pending;
        self.counted(&pending[..self.pending_bytes]);
        self.pending_bytes = 0;
        self.end_block();
        self.carry.start_again();
    }

    /// The features of what is there already, but for up to 63 bytes that are not counted yet.
    #[must_use]
    pub fn so_far(&self) -> Features {
        let mut features = self.features.clone();
        if self.block_bytes > 0 {
            features.add(Segment::of(&self.block), &self.block);
        }
        features
    }

    /// At least so many tokens has what is there already, by any vocabulary: see
    /// [`lower_bound`].
    #[must_use]
    pub fn at_least(&self) -> u64 {
        lower_bound(&self.features) + bound::of_counts(&self.block)
    }

    /// Bytes of a length that is a multiple of 64.
    fn whole(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.block_bytes));
            self.counted(now);
            if self.block_bytes == BLOCK_BYTES {
                self.end_block();
            }
            bytes = later;
        }
    }

    fn counted(&mut self, bytes: &[u8]) {
        arch::scan::scan(self.isa, &mut self.block, &mut self.carry, bytes);
        self.block_bytes += bytes.len();
    }

    fn end_block(&mut self) {
        if self.block_bytes > 0 {
            let sums = self.features.sum(Segment::of(&self.block));
            arch::scan::settle(self.isa, sums, &mut self.block);
            self.block_bytes = 0;
        }
    }
}

impl Default for Scan {
    fn default() -> Self {
        Self::new()
    }
}

/// The kind and the counts of each block of a text, as the fit of the weights wants them.
#[doc(hidden)]
#[must_use]
pub fn blocks(text: &[u8]) -> Vec<(Segment, [u64; FEATURES])> {
    let mut carry = Carry::new();
    let counted = |block: &[u8]| {
        let mut counts = [0; FEATURES];
        arch::scan::scan(Isa::detect(), &mut counts, &mut carry, block);
        (Segment::of(&counts), counts)
    };
    text.chunks(BLOCK_BYTES).map(counted).collect()
}
