//! A byte for each code point, in two stages; the build script lays them out.

/// Code points of one block.
const BLOCK: usize = 128;
const BLOCKS: usize = 0x11_0000 / BLOCK;

/// The index of the block of each 128 code points, then the blocks.
pub(crate) struct CodePoints(pub(crate) &'static [u8]);

impl CodePoints {
    /// The bytes of ASCII by themselves.
    pub(crate) const fn ascii(bytes: &[u8]) -> [u8; BLOCK] {
        let block = BLOCKS + bytes[0] as usize * BLOCK;
        let mut ascii = [0; BLOCK];
        let mut at = 0;
        while at < BLOCK {
            ascii[at] = bytes[block + at];
            at += 1;
        }
        ascii
    }

    /// The byte of a code point; of what is none, 0.
    pub(crate) fn get(&self, code_point: u32) -> u8 {
        let code_point = code_point as usize;
        let Some(&block) = self.0[..BLOCKS].get(code_point / BLOCK) else {
            return 0;
        };
        self.0[BLOCKS + usize::from(block) * BLOCK + code_point % BLOCK]
    }
}
