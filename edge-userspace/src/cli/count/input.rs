//! A text that is read piece by piece, of any size.

use super::progress::Progress;
use crate::prompt::json::utf8::Utf8;
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::path::Path;

/// So much is read at a time, and no more of a text is ever in memory.
const CHUNK_BYTES: usize = 256 << 10;

/// A text.
pub(super) struct Input {
    from: Box<dyn io::Read>,
    /// Bytes, where that is known before.
    length: Option<u64>,
}

/// What there is to say of a text that has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) bytes: u64,
    /// The first byte that is no UTF-8.
    pub(super) not_utf8_at: Option<u64>,
}

impl Input {
    /// `-` is standard input.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self {
                from: Box::new(io::stdin().lock()),
                length: None,
            });
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Self {
            length: metadata.is_file().then_some(metadata.len()),
            from: Box::new(file),
        })
    }

    /// Hands out the text in order.
    pub(super) fn read(&mut self, mut chunk: impl FnMut(&[u8])) -> io::Result<Read> {
        let mut progress = io::stderr()
            .is_terminal()
            .then(|| Progress::new(self.length));
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut utf8 = Utf8::default();
        let mut read = Read {
            bytes: 0,
            not_utf8_at: None,
        };
        loop {
            match self.from.read(&mut buffer) {
                Ok(0) => {
                    // A character that does not come to its end.
                    let begun = utf8.begun_bytes() as u64;
                    let at = (begun > 0).then(|| read.bytes - begun);
                    read.not_utf8_at = read.not_utf8_at.or(at);
                    return Ok(read);
                }
                Ok(got) => {
                    let piece = &buffer[..got];
                    if read.not_utf8_at.is_none() {
                        let at = utf8.check(piece);
                        read.not_utf8_at =
                            at.and_then(|at| read.bytes.checked_add_signed(at as i64));
                    }
                    chunk(piece);
                    read.bytes += got as u64;
                    if let Some(progress) = &mut progress {
                        progress.show(read.bytes);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out a few bytes at a time.
    struct Slow(Vec<u8>, usize);

    impl io::Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let taken = self.1.min(self.0.len()).min(buffer.len());
            buffer[..taken].copy_from_slice(&self.0[..taken]);
            self.0.drain(..taken);
            Ok(taken)
        }
    }

    #[test]
    fn the_first_byte_that_is_no_utf8_is_found_however_the_text_comes() {
        for (text, at) in [
            (&b"plain"[..], None),
            ("Größe 日本語 \u{1f600}".as_bytes(), None),
            (b"a\xffb\xff", Some(1)),
            (b"caf\xc3", Some(3)),
            (b"ab\xe6\x97x", Some(2)),
            (b"abcd\xf0\x9f\x98", Some(4)),
            (b"", None),
        ] {
            for size in 1..=text.len().max(1) {
                let mut input = Input {
                    from: Box::new(Slow(text.to_vec(), size)),
                    length: None,
                };
                let mut came = Vec::new();
                let read = input.read(|piece| came.extend_from_slice(piece)).unwrap();
                assert_eq!(
                    (read.not_utf8_at, read.bytes),
                    (at, text.len() as u64),
                    "{text:?} by {size}"
                );
                assert_eq!(came, text);
            }
        }
    }
}
