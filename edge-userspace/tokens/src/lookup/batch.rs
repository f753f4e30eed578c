//! Pieces on their way from the splitter to the look-up: so many at a time that a look-up's
//! wait for memory is hidden behind the others, so few that all of it stays in the first cache.

/// Pieces of one batch, by size.
pub(crate) const SHORTS: usize = 1024;
pub(crate) const MEDIUMS: usize = 256;
pub(crate) const LONGS: usize = 128;
/// Pieces of which only the place has been noted.
pub(crate) const NOTED: usize = 192;
/// What may be added at once, a block or what has been noted with one more block, and what a
/// vector store may write behind that.
pub(crate) const ROOM: usize = NOTED + 64 + 16;

/// A list for each size. Those of seven and fifteen bytes at most are copied, with zeros behind
/// them; of the others, and of those that hold a NUL, the batch has the place.
#[repr(C, align(64))]
pub(crate) struct Batch {
    pub(crate) short: [u64; SHORTS + ROOM],
    pub(crate) medium: [[u64; 2]; MEDIUMS + ROOM],
    /// Offset in the text, and length.
    pub(crate) long: [(u32, u32); LONGS + ROOM],
    pub(crate) shorts: usize,
    pub(crate) mediums: usize,
    pub(crate) longs: usize,
    /// Where pieces end of which no more is known yet, one behind the other, and where the
    /// first of them starts.
    pub(crate) ends: [u32; ROOM],
    pub(crate) noted: usize,
    pub(crate) from: usize,
    /// Those of them that are no shorts: offset, and length above it.
    pub(crate) longer: [u64; ROOM],
    /// What the look-up of this batch takes notes in.
    pub(crate) found: [u64; SHORTS + ROOM],
    pub(crate) missed: [u64; SHORTS + ROOM],
    pub(crate) middle: [(u32, u32); LONGS + ROOM],
    pub(crate) keys: [[u64; 4]; LONGS + ROOM],
}

impl Batch {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            short: [0; _],
            medium: [[0; 2]; _],
            long: [(0, 0); _],
            shorts: 0,
            mediums: 0,
            longs: 0,
            ends: [0; _],
            noted: 0,
            from: 0,
            longer: [0; _],
            found: [0; _],
            missed: [0; _],
            middle: [(0, 0); _],
            keys: [[0; 4]; _],
        })
    }

    /// Whether there may be no room for a block, or for what is noted.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        (self.shorts > SHORTS) | (self.mediums > MEDIUMS) | (self.longs > LONGS)
    }

    /// Whether a block may find no room among what is noted.
    #[inline(always)]
    pub(crate) fn is_noted_full(&self) -> bool {
        self.noted > NOTED
    }

    /// Whether each list has room for so many.
    #[inline(always)]
    pub(crate) fn has_room(&self, pieces: usize) -> bool {
        self.shorts + pieces <= self.short.len()
            && self.mediums + pieces <= self.medium.len()
            && self.longs + pieces <= self.long.len()
    }

    /// Adds one piece, wherever it came from.
    #[inline]
    pub(crate) fn push(&mut self, text: &[u8], start: usize, end: usize) {
        let piece = &text[start..end];
        if piece.len() > 15 || piece.contains(&0) {
            self.long[self.longs] = (start as u32, piece.len() as u32);
            self.longs += 1;
            return;
        }
        let key = super::padded(piece);
        if piece.len() <= 7 {
            self.short[self.shorts] = key[0];
            self.shorts += 1;
        } else {
            self.medium[self.mediums] = key;
            self.mediums += 1;
        }
    }
}
