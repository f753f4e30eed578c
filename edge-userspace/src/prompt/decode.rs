//! A body that is encoded, decoded while it arrives: to be read, not to be sent on.
//!
//! Step by step: each gives a part of bounded size, so that whoever reads a body that is small
//! encoded and huge decoded can let others have their turn in between.

mod gzip;
mod zstd;

/// The content encodings that are read (RFC 9110 section 8.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// None.
    #[default]
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 8878, with a window as RFC 9659 has it for this use.
    Zstd,
}

impl Encoding {
    /// Every one of them.
    pub const ALL: [Self; 3] = [Self::Identity, Self::Gzip, Self::Zstd];

    /// As headers have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Largest window of a zstd body: what RFC 9659 section 3 lets a sender use.
pub const ZSTD_WINDOW_BYTES: usize = 1 << 23;

/// About what one step gives at most.
const STEP_BYTES: usize = 32 * 1024;

/// What has come so far of an encoded body.
pub struct Decoder {
    way: Way,
    /// Bytes that may still come, decoded.
    left: u64,
}

enum Way {
    Gzip(gzip::Decoder),
    Zstd(zstd::Decoder),
}

/// Why a body cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is not encoded so, or ends too early, or its checksum is another, or its window is
    /// larger than [`ZSTD_WINDOW_BYTES`].
    Broken(Encoding),
    /// Decoded it is larger than allowed.
    TooLarge,
}

impl Decoder {
    /// For a body that has at most `most_bytes` decoded; none for one that is not encoded.
    #[must_use]
    pub fn new(encoding: Encoding, most_bytes: u64) -> Option<Self> {
        let way = match encoding {
            Encoding::Identity => return None,
            Encoding::Gzip => Way::Gzip(gzip::Decoder::new()),
            Encoding::Zstd => Way::Zstd(zstd::Decoder::new()),
        };
        Some(Self {
            way,
            left: most_bytes,
        })
    }

    /// Decodes a part of `piece`, whose beginning it takes off; what came of it, of at most
    /// about 32 KiB. When nothing of `piece` is left, the rest comes with the next piece.
    ///
    /// # Errors
    /// When it cannot be decoded.
    pub fn step(&mut self, piece: &mut &[u8]) -> Result<&[u8], Error> {
        let decoded = match &mut self.way {
            Way::Gzip(gzip) => gzip.step(piece),
            Way::Zstd(zstd) => zstd.step(piece),
        };
        allow(decoded?, &mut self.left)
    }

    /// The body is over: a part of what is left of it; empty when nothing is.
    ///
    /// # Errors
    /// When it should have gone on.
    pub fn finish(&mut self) -> Result<&[u8], Error> {
        let decoded = match &mut self.way {
            Way::Gzip(gzip) => gzip.finish(),
            Way::Zstd(zstd) => zstd.finish(),
        };
        allow(decoded?, &mut self.left)
    }

    /// What it holds in memory now, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match &self.way {
            Way::Gzip(_) => gzip::MEMORY_BYTES,
            Way::Zstd(zstd) => zstd.memory_bytes(),
        }
    }
}

fn allow<'a>(decoded: &'a [u8], left: &mut u64) -> Result<&'a [u8], Error> {
    let after = left.checked_sub(decoded.len() as u64);
    *left = after.ok_or(Error::TooLarge)?;
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    const ENCODINGS: [Encoding; 2] = [Encoding::Gzip, Encoding::Zstd];

    fn encode(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
        if encoding == Encoding::Zstd {
            return zstd::tests::encode(bytes, 20);
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn decode(
        encoding: Encoding,
        body: &[u8],
        size: usize,
        most_bytes: u64,
    ) -> Result<Vec<u8>, Error> {
        let mut decoded = Vec::new();
        let mut decoder = Decoder::new(encoding, most_bytes).unwrap();
        for mut piece in body.chunks(size) {
            while !piece.is_empty() {
                let before = piece.len();
                let part = decoder.step(&mut piece)?;
                assert!(part.len() <= 2 * STEP_BYTES, "{} at once", part.len());
                assert!(piece.len() < before || !part.is_empty(), "it goes on");
                decoded.extend_from_slice(part);
            }
        }
        loop {
            let part = decoder.finish()?;
            assert!(part.len() <= 4 * STEP_BYTES, "{} at once", part.len());
            if part.is_empty() {
                return Ok(decoded);
            }
            decoded.extend_from_slice(part);
        }
    }

    #[test]
    fn what_was_encoded_comes_out_in_any_pieces() {
        let text: Vec<u8> = (0..300_000_u32)
            .flat_map(|n| n.to_string().into_bytes())
            .collect();
        for encoding in ENCODINGS {
            let one = encode(encoding, &text);
            let parts = [&text[..1000], &text[1000..]];
            let two = parts.map(|part| encode(encoding, part)).concat();
            for body in [one, two] {
                for size in [1, 1000, body.len()] {
                    let decoded = decode(encoding, &body, size, 1 << 30);
                    assert!(decoded.as_deref() == Ok(&*text), "{encoding:?} by {size}");
                }
            }
            let empty = encode(encoding, b"");
            assert_eq!(decode(encoding, &empty, 7, 0).as_deref(), Ok(&b""[..]));
        }
    }

    #[test]
    fn bombs_and_broken_bodies_are_refused() {
        for encoding in ENCODINGS {
            let broken = Err(Error::Broken(encoding));
            let bomb = encode(encoding, &vec![b' '; 50 << 20]);
            for size in [1000, bomb.len()] {
                let decoded = decode(encoding, &bomb, size, 1 << 20);
                assert_eq!(decoded, Err(Error::TooLarge), "{encoding:?} by {size}");
            }
            let mut body = encode(encoding, b"some text, some text, some text");
            for end in [0, 1, 5, body.len() - 1] {
                assert_eq!(decode(encoding, &body[..end], 7, 100), broken, "{end}");
            }
            assert_eq!(decode(encoding, b"{\"model\":1}", 7, 100), broken);
            assert_eq!(
                decode(encoding, &[&body[..], b"x"].concat(), 7, 100),
                broken
            );
            // In the checksum.
            let last = body.len() - if encoding == Encoding::Gzip { 5 } else { 1 };
            body[last] ^= 1;
            assert_eq!(decode(encoding, &body, 7, 100), broken);
        }
    }
    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(300))]

        /// A damaged body is refused, or decodes to what it was: some bits say nothing.
        #[test]
        fn no_flipped_bit_passes_as_another_text(at in 0_usize..1000, bit in 0..8_u32, size in 1_usize..50) {
            let text = "some text, some more text, and others. ".repeat(20);
            for encoding in ENCODINGS {
                let mut body = encode(encoding, text.as_bytes());
                let at = at % body.len();
                body[at] ^= 1 << bit;
                let decoded = decode(encoding, &body, size, 1 << 20);
                proptest::prop_assert!(decoded.is_err() || decoded.as_deref() == Ok(text.as_bytes()));
            }
        }

        /// Nor does noise pass, or panic, or give more than it may.
        #[test]
        fn noise_is_refused(mut noise in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200), begin in 0..3) {
            for encoding in ENCODINGS {
                if begin == 1 {
                    noise.splice(0..0, [0x28, 0xb5, 0x2f, 0xfd]);
                } else if begin == 2 {
                    noise.splice(0..0, [0x1f, 0x8b, 8, 0]);
                }
                if let Ok(decoded) = decode(encoding, &noise, 7, 10_000) {
                    proptest::prop_assert!(decoded.len() <= 10_000);
                }
            }
        }
    }
}
