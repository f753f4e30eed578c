//! Bodies of content-encoding gzip.

use super::{Encoding, Error};
use flate2::write::MultiGzDecoder;
use std::io::{self, Write as _};

/// About what one decoder holds: the inflater's window and its two buffers.
pub(super) const MEMORY_BYTES: usize = 128 * 1024;

pub(super) struct Decoder(MultiGzDecoder<Vec<u8>>);

impl Decoder {
    pub(super) fn new() -> Self {
        Self(MultiGzDecoder::new(Vec::new()))
    }

    pub(super) fn step(&mut self, piece: &mut &[u8]) -> Result<&[u8], Error> {
        self.0.get_mut().clear();
        while !piece.is_empty() && self.0.get_ref().is_empty() {
            // One write takes as much as fills the decoder's own buffer once.
            let written = self.0.write(piece).map_err(broken)?;
            if written == 0 && self.0.get_ref().is_empty() {
                return Err(Error::Broken(Encoding::Gzip));
            }
            *piece = &piece[written..];
        }
        Ok(self.0.get_ref())
    }

    pub(super) fn finish(&mut self) -> Result<&[u8], Error> {
        self.0.get_mut().clear();
        self.0.try_finish().map_err(broken)?;
        Ok(self.0.get_ref())
    }
}

fn broken(_: io::Error) -> Error {
    Error::Broken(Encoding::Gzip)
}
