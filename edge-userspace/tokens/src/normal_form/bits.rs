//! The bits of a character in the table of `super`; the build script works them out.

/// What precedes the character cannot change it, nor it what precedes: NFC may be cut there.
pub(crate) const NFC_BOUNDARY: u8 = 1;
/// Alone it is its own NFC.
pub(crate) const NFC_ITSELF: u8 = 2;
/// As [`NFC_BOUNDARY`] for NFKC.
pub(crate) const NFKC_BOUNDARY: u8 = 4;
/// As [`NFC_ITSELF`] for NFKC.
pub(crate) const NFKC_ITSELF: u8 = 8;
