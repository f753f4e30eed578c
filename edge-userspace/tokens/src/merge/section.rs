//! The words of a merge section: what the writer puts where, and the reader looks for.
//!
//! Apart from both so that a build script can take it without the rest of the package.
//!
//! ```text
//! 0         MAGIC
//! 1         lines of the pair table, a power of two | number of ids << 32
//! 2         flags | longest token, bytes << 32
//! 3         words in the section
//! 4..8      zero
//! 8..       pair table: lines of eight entries, one cache line each
//!           65,536 u32: the merge of two bytes, by the bytes' little-endian u16
//!           256 u32: the id of each byte
//!           256 u8: its lowest eight bits
//!           u32 per id: right half | bytes << 20; padded to a word
//! ```

/// First word of a section, with the version of the layout.
pub const MAGIC: u64 = 0x0003_4547_5245_4d54; // "TMERGE", 3
/// Words before the pair table.
pub const HEADER_WORDS: usize = 8;
/// Entries in a line of the pair table.
pub const LINE: usize = 8;
/// Bits of an id.
pub const ID_BITS: u32 = 20;
/// No id, and the rank of two tokens that do not merge. More than any id.
pub const NONE: u32 = (1 << ID_BITS) - 1;
/// An entry of the pair table that holds nothing: no id is as high as [`NONE`].
pub const EMPTY: u64 = u64::MAX;
/// The bits of an entry above its two ids and what they merge to. They are set, but in the last
/// entry of a line that was too small: then more of it is in the next line.
pub const WHOLE: u64 = u64::MAX << (3 * ID_BITS);
/// The bits of an entry that are its key.
pub const KEY: u64 = !WHOLE & (u64::MAX << ID_BITS);
/// How many lines a look-up reads at most. The writer makes the table so large that this holds.
pub const PROBES: usize = 4;
/// Flag: merging in order of rank can be undone and continued locally (see the writer).
pub const PROPER: u64 = 1;
/// Flag: the ids of all bytes have eight bits.
pub const SMALL_BYTE_IDS: u64 = 2;
/// The longest token of a proper vocabulary: its length has 12 bits.
pub const LONGEST_BYTES: usize = (1 << (32 - ID_BITS)) - 1;

/// Two ids as the key of the pair table.
#[inline(always)]
#[must_use]
pub const fn key(left: u32, right: u32) -> u64 {
    ((left as u64) << (2 * ID_BITS)) | ((right as u64) << ID_BITS)
}

/// The line where the look-up of a key starts; `shift` is 64 less the bits of a line's index.
#[inline(always)]
#[must_use]
pub const fn line_of(key: u64, shift: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

/// Words of a section with so many lines and ids.
#[must_use]
pub const fn words(lines: usize, ids: usize) -> usize {
    HEADER_WORDS + lines * LINE + 65_536 / 2 + 256 / 2 + 256 / 8 + ids.div_ceil(2)
}
