//! Bodies of content-encoding zstd.

use super::{Encoding, Error, STEP_BYTES, ZSTD_WINDOW_BYTES};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

pub(super) struct Decoder {
    context: DCtx<'static>,
    decoded: Vec<u8>,
    /// Whether the last frame has come to its end; none has before the first.
    is_whole: bool,
}

impl Decoder {
    pub(super) fn new() -> Self {
        let mut context = DCtx::create();
        let window = DParameter::WindowLogMax(ZSTD_WINDOW_BYTES.ilog2());
        (context.set_parameter(window)).expect("a window that every decoder takes");
        Self {
            context,
            decoded: Vec::with_capacity(STEP_BYTES),
            is_whole: false,
        }
    }

    pub(super) fn step(&mut self, piece: &mut &[u8]) -> Result<&[u8], Error> {
        self.decoded.clear();
        let mut input = InBuffer::around(piece);
        let mut output = OutBuffer::around(&mut self.decoded);
        let hint = (self.context)
            .decompress_stream(&mut output, &mut input)
            .map_err(|_| Error::Broken(Encoding::Zstd))?;
        *piece = &piece[input.pos()..];
        self.is_whole = hint == 0;
        Ok(&self.decoded)
    }

    pub(super) fn finish(&mut self) -> Result<&[u8], Error> {
        // A frame that is whole is not asked: that would begin another.
        if self.is_whole {
            self.decoded.clear();
            return Ok(&self.decoded);
        }
        self.step(&mut &[][..])?;
        if self.decoded.is_empty() && !self.is_whole {
            return Err(Error::Broken(Encoding::Zstd));
        }
        Ok(&self.decoded)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.context.sizeof() + self.decoded.capacity()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use zstd_safe::{CCtx, CParameter, compress_bound};

    /// A frame with a checksum, made for a window of so many bits.
    pub(in crate::prompt::decode) fn encode(bytes: &[u8], window_log: u32) -> Vec<u8> {
        let mut context = CCtx::create();
        for parameter in [
            CParameter::WindowLog(window_log),
            CParameter::ChecksumFlag(true),
            CParameter::ContentSizeFlag(false),
        ] {
            context.set_parameter(parameter).unwrap();
        }
        let mut encoded = Vec::with_capacity(compress_bound(bytes.len()));
        context.compress2(&mut encoded, bytes).unwrap();
        encoded
    }

    #[test]
    fn a_window_is_as_large_as_the_standard_has_it_and_counts_as_memory() {
        let text: Vec<u8> = (0..3_000_000_u32)
            .flat_map(|n| n.to_string().into_bytes())
            .collect();
        let mut decoder = Decoder::new();
        let before = decoder.memory_bytes();
        let body = encode(&text, 23);
        let mut piece = &body[..];
        while !piece.is_empty() {
            decoder.step(&mut piece).unwrap();
        }
        let memory = decoder.memory_bytes();
        let window = ZSTD_WINDOW_BYTES;
        assert!((window..window + (1 << 20)).contains(&memory), "{memory}");
        assert!(before < 1 << 20, "{before} before the window is known");
        let body = encode(&text, 24);
        let refused = Decoder::new().step(&mut &body[..]).map(<[u8]>::len);
        assert_eq!(refused, Err(Error::Broken(Encoding::Zstd)));
    }
}
