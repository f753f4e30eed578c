//! A body that is encoded, decoded while it arrives: to be read, not to be sent on.

use flate2::write::MultiGzDecoder;
use std::io::{self, Write};

/// What has come so far of an encoded body.
pub struct Decoder {
    gzip: MultiGzDecoder<Decoded>,
}

/// Decoded bytes that have not been taken yet.
struct Decoded {
    bytes: Vec<u8>,
    /// Bytes that may still come.
    left: u64,
}

/// Why a body cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is no gzip (RFC 1952), or ends too early.
    Gzip,
    /// Decoded it is larger than allowed.
    TooLarge,
}

impl Decoder {
    /// For a body of content-encoding gzip that has at most `most_bytes` decoded.
    #[must_use]
    pub fn gzip(most_bytes: u64) -> Self {
        Self {
            gzip: MultiGzDecoder::new(Decoded {
                bytes: Vec::new(),
                left: most_bytes,
            }),
        }
    }

    /// Decodes a piece, and gives what comes of it to `take` part by part.
    ///
    /// # Errors
    /// When it cannot be decoded, or when `take` says so.
    pub fn push<E: From<Error>>(
        &mut self,
        mut piece: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while !piece.is_empty() {
            // One write takes as much as fills the decoder's own buffer once.
            let written = self.gzip.write(piece).map_err(Error::from)?;
            let decoded = self.gzip.get_mut();
            if written == 0 && decoded.bytes.is_empty() {
                return Err(Error::Gzip.into());
            }
            piece = &piece[written..];
            let bytes = std::mem::take(&mut decoded.bytes);
            let taken = take(&bytes);
            let mut bytes = bytes;
            bytes.clear();
            self.gzip.get_mut().bytes = bytes;
            taken?;
        }
        Ok(())
    }

    /// The body is over; what is left of it.
    ///
    /// # Errors
    /// When it should have gone on, or when `take` says so.
    pub fn finish<E: From<Error>>(
        mut self,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.gzip.try_finish().map_err(Error::from)?;
        take(&self.gzip.get_ref().bytes)
    }
}

impl Write for Decoded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::FileTooLarge => Self::TooLarge,
            _ => Self::Gzip,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn decode(body: &[u8], size: usize, most_bytes: u64) -> Result<Vec<u8>, Error> {
        let mut decoded = Vec::new();
        let mut largest = 0;
        let mut decoder = Decoder::gzip(most_bytes);
        for piece in body.chunks(size) {
            decoder.push::<Error>(piece, |bytes| {
                largest = largest.max(bytes.len());
                decoded.extend_from_slice(bytes);
                Ok(())
            })?;
        }
        decoder.finish::<Error>(|bytes| {
            decoded.extend_from_slice(bytes);
            Ok(())
        })?;
        assert!(largest <= 256 * 1024, "{largest} bytes at once");
        Ok(decoded)
    }

    #[test]
    fn what_was_encoded_comes_out_in_any_pieces() {
        let text: Vec<u8> = (0..300_000_u32)
            .flat_map(|n| n.to_string().into_bytes())
            .collect();
        let two = [gzip(&text[..1000]), gzip(&text[1000..])].concat();
        for body in [gzip(&text), two] {
            for size in [1, 1000, body.len()] {
                assert_eq!(decode(&body, size, 1 << 30).as_deref(), Ok(&*text));
            }
        }
        assert_eq!(decode(&gzip(b""), 7, 0).as_deref(), Ok(&b""[..]));
    }

    #[test]
    fn bombs_and_broken_bodies_are_refused() {
        let bomb = gzip(&vec![b' '; 50 << 20]);
        assert_eq!(decode(&bomb, 1000, 1 << 20), Err(Error::TooLarge));
        assert_eq!(decode(&bomb, bomb.len(), 1 << 20), Err(Error::TooLarge));
        let mut body = gzip(b"some text, some text, some text");
        assert_eq!(decode(&body[..body.len() - 1], 7, 100), Err(Error::Gzip));
        assert_eq!(decode(b"{\"model\":1}", 7, 100), Err(Error::Gzip));
        let last = body.len() - 5;
        body[last] ^= 1;
        assert_eq!(decode(&body, 7, 100), Err(Error::Gzip));
    }
}
