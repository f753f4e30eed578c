//! Integers, which begin in the low bits of a byte and go on in further ones (RFC 7541, section 5.1).

use super::Error;

/// More bytes than that after the first are refused: they would only pad.
const MOST_BYTES: u32 = 5;

/// Reads the integer that begins in the low `prefix` bits of `first` and goes on in `input`.
///
/// # Errors
///
/// [`Error::Truncated`], and [`Error::Integer`] when it takes more than five bytes beside the first.
#[inline]
pub(super) fn read(first: u8, prefix: u32, input: &mut &[u8]) -> Result<usize, Error> {
    let most = ((1_u32 << prefix) - 1) as u8;
    let low = first & most;
    if low < most {
        Ok(usize::from(low))
    } else {
        read_on(most, input)
    }
}

#[cold]
fn read_on(most: u8, input: &mut &[u8]) -> Result<usize, Error> {
    let mut value = u64::from(most);
    for nth in 0..MOST_BYTES {
        let (&byte, rest) = input.split_first().ok_or(Error::Truncated)?;
        *input = rest;
        value += u64::from(byte & 0x7f) << (7 * nth);
        if byte < 0x80 {
            return usize::try_from(value).map_err(|_| Error::Integer);
        }
    }
    Err(Error::Integer)
}

/// Appends `value` with a prefix of `prefix` bits, the byte's higher ones as in `first`.
#[inline]
pub(super) fn write(first: u8, prefix: u32, value: usize, out: &mut Vec<u8>) {
    let most = (1_usize << prefix) - 1;
    if value < most {
        out.push(first | value as u8);
        return;
    }
    out.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541, appendix C.1.
    #[test]
    fn the_examples_of_the_rfc() {
        for (value, prefix, bytes) in [
            (10, 5, &[0x0a][..]),
            (1337, 5, &[0x1f, 0x9a, 0x0a]),
            (42, 8, &[0x2a]),
        ] {
            let mut out = Vec::new();
            write(0, prefix, value, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(read_all(bytes, prefix), Ok(value));
        }
    }

    #[test]
    fn what_is_written_is_read_at_every_edge() {
        for prefix in 4..=7 {
            for value in (0..70_000).chain((17..33).flat_map(|it| (1 << it) - 2..(1 << it) + 2)) {
                let mut out = Vec::new();
                write(0, prefix, value, &mut out);
                assert_eq!(read_all(&out, prefix), Ok(value));
            }
        }
    }

    #[test]
    fn too_long_and_too_short() {
        assert_eq!(read_all(&[0x7f], 7), Err(Error::Truncated));
        assert_eq!(read_all(&[0x7f, 0x80, 0x80], 7), Err(Error::Truncated));
        assert_eq!(read_all(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x00], 7), Ok(0x7f));
        assert_eq!(
            read_all(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], 7),
            Err(Error::Integer)
        );
        assert_eq!(read_all(&[0x7f; 16], 7), Ok(0x7f + 0x7f));
        assert_eq!(read_all(&[0xff; 16], 7), Err(Error::Integer));
    }

    fn read_all(bytes: &[u8], prefix: u32) -> Result<usize, Error> {
        let mut input = &bytes[1..];
        read(bytes[0], prefix, &mut input)
    }
}
