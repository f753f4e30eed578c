//! A merge section, read: the tables of one vocabulary, shared by all threads.

use super::section::{
    HEADER_WORDS, ID_BITS, KEY, LINE, MAGIC, NONE, PROBES, PROPER, SMALL_BYTE_IDS, WHOLE, key,
    line_of, words,
};

/// Why a merge section cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the merge tables are damaged or of another version ({0}): make the vocabulary's tables again"
)]
pub struct Damaged(&'static str);

/// The tables of one vocabulary. Two words to copy; the tables stay where they are.
///
/// Reading checks sizes, not contents: a section with other contents gives other counts, never
/// an access out of bounds and never an endless loop.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    lines: &'a [[u64; LINE]],
    /// 64 less the bits of a line's index.
    shift: u32,
    pub(crate) byte_pairs: &'a [u32; 65_536],
    pub(crate) byte_ids: &'a [u32; 256],
    /// The same in a byte each, if they have eight bits.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for AVX-512"))]
    pub(crate) small_byte_ids: Option<&'a [u8; 256]>,
    halves: &'a [u32],
    longest_bytes: usize,
    proper: bool,
}

impl<'a> Shared<'a> {
    /// Reads what [`write`](super::write()) wrote.
    ///
    /// # Errors
    /// If the section is of another version, or not as long as it says.
    pub fn read(section: &'a [u64]) -> Result<Self, Damaged> {
        let header = section.get(..HEADER_WORDS).ok_or(Damaged("no header"))?;
        if header[0] != MAGIC {
            return Err(Damaged("no magic number"));
        }
        let (lines, ids) = (header[1] as u32, (header[1] >> 32) as u32);
        let longest_bytes = (header[2] >> 32) as usize;
        if !lines.is_power_of_two()
            || !(2..1 << 24).contains(&lines)
            || !(256..NONE).contains(&ids)
            || longest_bytes > 1 << 20
        {
            return Err(Damaged("impossible sizes"));
        }
        let length = words(lines as usize, ids as usize);
        if section.len() != length || header[3] != length as u64 {
            return Err(Damaged("wrong length"));
        }
        let (pairs, rest) = section[HEADER_WORDS..].split_at(lines as usize * LINE);
        let (lines, _) = pairs.as_chunks();
        let rest: &[u32] = bytemuck::cast_slice(rest);
        let (byte_pairs, rest) = rest.split_first_chunk().ok_or(Damaged("wrong length"))?;
        let (byte_ids, rest) = rest.split_first_chunk().ok_or(Damaged("wrong length"))?;
        let (small, rest) = rest
            .split_first_chunk::<64>()
            .ok_or(Damaged("wrong length"))?;
        let small: &[u8; 256] = bytemuck::cast_ref(small);
        Ok(Self {
            lines,
            shift: 64 - lines.len().trailing_zeros(),
            byte_pairs,
            byte_ids,
            small_byte_ids: (header[2] & SMALL_BYTE_IDS != 0).then_some(small),
            halves: rest,
            longest_bytes,
            proper: header[2] & PROPER != 0,
        })
    }

    /// Whether each token that merging reaches arises from one pair of tokens of lower rank.
    /// If not, pieces of more than [`WINDOW_BYTES`](super::WINDOW_BYTES) take n log n time, and
    /// memory for the whole piece.
    #[must_use]
    pub fn is_proper(&self) -> bool {
        self.proper
    }

    /// The longest token, in bytes.
    #[must_use]
    pub fn longest_token_bytes(&self) -> usize {
        self.longest_bytes
    }

    /// What the tables take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        words(self.lines.len(), self.halves.len()) * 8
    }

    /// The line where the look-up of a key starts.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn line(&self, key: u64) -> &'a [u64; LINE] {
        &self.lines[line_of(key, self.shift)]
    }

    /// What two tokens merge to; [`NONE`] if they do not.
    #[inline(always)]
    pub(crate) fn merged(&self, left: u32, right: u32) -> u32 {
        let key = key(left, right);
        let (before, from) = self.lines.split_at(line_of(key, self.shift));
        for line in from.iter().chain(before).take(PROBES) {
            if let Some(entry) = line.iter().find(|&&entry| (entry ^ key) & KEY == 0) {
                return *entry as u32 & NONE;
            }
            if line[LINE - 1] & WHOLE != 0 {
                break;
            }
        }
        NONE
    }

    /// As [`merged`](Self::merged), where a full first line is the rare case.
    #[cfg(target_arch = "x86_64")]
    #[cold]
    #[inline(never)]
    pub(crate) fn merged_beyond(&self, left: u32, right: u32) -> u32 {
        self.merged(left, right)
    }

    /// The right one of the two tokens that merged to this one; itself if it is a byte.
    #[inline(always)]
    pub(crate) fn right_half(&self, id: u32) -> u32 {
        self.halves.get(id as usize).map_or(id, |half| half & NONE)
    }

    /// The length of a token that merging reaches, in bytes.
    #[inline(always)]
    pub(crate) fn token_bytes(&self, id: u32) -> u32 {
        self.halves
            .get(id as usize)
            .map_or(1, |half| half >> ID_BITS)
    }
}
