//! Strings in HPACK's Huffman code are read here (RFC 7541, section 5.2).
//!
//! The code is canonical: within a length the codes rise with the symbols, and each length goes on
//! where the shorter ones end. So the lengths of appendix B are all that has to be written down.
//! Symbols of at most 8 bits (letters, digits, and what else headers are made of) are found by the
//! next 8 bits in a table of 512 bytes, which a request that comes after others' work does not have
//! to fetch from far; the rest by its length.
//!
//! Nothing is written in this code: see [`encoder`](super::encoder).

use super::Error;

/// How many bits each symbol takes (appendix B); the last is EOS.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
    30,
];

const EOS: u16 = 256;
const LONGEST: usize = 30;
/// The longest code that [`SHORT`] knows, in bits.
const WINDOW: usize = 8;

/// By the next 8 bits: a symbol and its length, or length 0 where more bits have to be seen.
static SHORT: [Short; 1 << WINDOW] = short();
/// All other codes.
static LONG: Long = long();

#[derive(Clone, Copy)]
struct Short {
    symbol: u8,
    bits: u8,
}

struct Long {
    /// The symbols in the order of their codes.
    symbols: [u16; 257],
    /// By length: what the next 32 bits are below when the code is of this length or less.
    below: [u64; LONGEST + 1],
    /// By length: the first code, and where its symbol lies in `symbols`.
    first: [(u32, u32); LONGEST + 1],
}

const fn long() -> Long {
    let mut long = Long {
        symbols: [0; 257],
        below: [0; LONGEST + 1],
        first: [(0, 0); LONGEST + 1],
    };
    let (mut bits, mut code, mut place) = (1, 0_u32, 0);
    while bits <= LONGEST {
        code <<= 1;
        long.first[bits] = (code, place as u32);
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == bits {
                long.symbols[place] = symbol as u16;
                place += 1;
                code += 1;
            }
            symbol += 1;
        }
        long.below[bits] = (code as u64) << (32 - bits);
        bits += 1;
    }
    long
}

const fn short() -> [Short; 1 << WINDOW] {
    let long = long();
    let mut short = [Short { symbol: 0, bits: 0 }; 1 << WINDOW];
    let mut window = 0;
    while window < short.len() {
        let ahead = (window as u64) << (32 - WINDOW);
        let mut bits = 1;
        while bits <= WINDOW {
            if ahead < long.below[bits] {
                let (code, place) = long.first[bits];
                let symbol = long.symbols[(place + (ahead >> (32 - bits)) as u32 - code) as usize];
                short[window] = Short {
                    symbol: symbol as u8,
                    bits: bits as u8,
                };
                break;
            }
            bits += 1;
        }
        window += 1;
    }
    short
}

/// How many bytes `encoded` bytes can become: the shortest code has 5 bits.
pub(super) const fn most_bytes(encoded: usize) -> usize {
    encoded.saturating_mul(8) / 5
}

/// Writes what `encoded` stands for to the beginning of `out`, which has room for
/// [the most](most_bytes) that it can be, and returns it.
///
/// # Errors
///
/// [`Error::Huffman`]: EOS is in it, or its end is not padded with up to 7 ones.
pub(super) fn decode<'out>(mut encoded: &[u8], out: &'out mut [u8]) -> Result<&'out [u8], Error> {
    let mut ahead = Ahead { word: 0, bits: 0 };
    let mut written = 0;
    // Each round fills the word up to 56 bits or more, enough for any code.
    while let Some(eight) = encoded.first_chunk() {
        ahead.word |= u64::from_be_bytes(*eight) >> ahead.bits;
        encoded = &encoded[(63 - ahead.bits as usize) / 8..];
        ahead.bits |= 56;
        while ahead.bits >= LONGEST as u32 {
            let (symbol, bits) = ahead.look()?;
            ahead.skip(bits);
            *out.get_mut(written).ok_or(Error::Huffman)? = symbol;
            written += 1;
        }
    }
    loop {
        while ahead.bits <= 56
            && let Some((&byte, rest)) = encoded.split_first()
        {
            ahead.word |= u64::from(byte) << (56 - ahead.bits);
            ahead.bits += 8;
            encoded = rest;
        }
        // Past the end the word is filled with zeros: a code that reaches into them is none.
        match ahead.look() {
            Ok((symbol, bits)) if bits <= ahead.bits => {
                ahead.skip(bits);
                *out.get_mut(written).ok_or(Error::Huffman)? = symbol;
                written += 1;
            }
            _ => break,
        }
    }
    // The end of EOS, and less than a byte of it.
    let padding = !(u64::MAX.checked_shr(ahead.bits).unwrap_or(0));
    if ahead.bits < 8 && ahead.word == padding {
        Ok(&out[..written])
    } else {
        Err(Error::Huffman)
    }
}

/// The next bits of a string, from the word's highest on.
struct Ahead {
    word: u64,
    bits: u32,
}

impl Ahead {
    /// The next symbol and how many bits it takes.
    #[inline]
    fn look(&self) -> Result<(u8, u32), Error> {
        let short = SHORT[(self.word >> (64 - WINDOW)) as usize];
        if short.bits > 0 {
            return Ok((short.symbol, u32::from(short.bits)));
        }
        self.look_long()
    }

    #[cold]
    fn look_long(&self) -> Result<(u8, u32), Error> {
        let ahead = self.word >> 32;
        for bits in WINDOW + 1..=LONGEST {
            if ahead < LONG.below[bits] {
                let (code, place) = LONG.first[bits];
                let symbol = LONG.symbols[(place + (ahead >> (32 - bits)) as u32 - code) as usize];
                return if symbol == EOS {
                    Err(Error::Huffman)
                } else {
                    Ok((symbol as u8, bits as u32))
                };
            }
        }
        Err(Error::Huffman)
    }

    #[inline]
    fn skip(&mut self, bits: u32) {
        self.word <<= bits;
        self.bits -= bits;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// `bytes` in Huffman's code.
    pub(in crate::hpack) fn encode(bytes: &[u8]) -> Vec<u8> {
        write(
            &bytes
                .iter()
                .map(|it| code_of(u16::from(*it)))
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn the_code_is_complete() {
        assert_eq!(LONG.below[LONGEST], 1 << 32);
        assert_eq!(LONG.symbols[256], EOS);
    }

    #[test]
    fn every_symbol_is_read_back_from_its_code() {
        for symbol in 0..=255_u8 {
            for times in 0..20 {
                let symbols = vec![symbol; times];
                assert_eq!(read(&encode(&symbols)), Ok(symbols), "symbol {symbol}");
            }
        }
    }

    #[test]
    fn padding_is_less_than_a_byte_and_all_ones() {
        let a = 0b00011_u8 << 3; // "a", 5 bits
        assert_eq!(read(&[a | 0b111]), Ok(b"a".to_vec()));
        for wrong in 0..0b111 {
            assert_ne!(read(&[a | wrong]), Ok(b"a".to_vec()), "padding {wrong:03b}");
        }
        assert_eq!(read(&[a | 0b111, 0xff]), Err(Error::Huffman));
        assert_eq!(
            read(&[0xff]),
            Err(Error::Huffman),
            "a byte of padding alone"
        );
        assert_eq!(read(&[0xff; 9]), Err(Error::Huffman), "more than EOS");
        assert_eq!(read(&[]), Ok(Vec::new()));
    }

    #[test]
    fn eos_is_refused_wherever_it_stands() {
        let (a, eos) = (code_of(u16::from(b'a')), code_of(EOS));
        for codes in [
            vec![eos],
            vec![a, eos],
            vec![eos, a],
            [vec![a; 20], vec![eos, a]].concat(),
        ] {
            assert_eq!(read(&write(&codes)), Err(Error::Huffman));
        }
    }

    pub(in crate::hpack) fn read(encoded: &[u8]) -> Result<Vec<u8>, Error> {
        let mut out = vec![0; most_bytes(encoded.len())];
        decode(encoded, &mut out).map(<[u8]>::to_vec)
    }

    /// A symbol's code and its length.
    fn code_of(symbol: u16) -> (u32, usize) {
        let bits = usize::from(LENGTHS[usize::from(symbol)]);
        let place = LONG.symbols.iter().position(|it| *it == symbol).unwrap() as u32;
        let (code, first) = LONG.first[bits];
        (code + place - first, bits)
    }

    fn write(codes: &[(u32, usize)]) -> Vec<u8> {
        let mut bits: String = codes
            .iter()
            .map(|(code, bits)| format!("{code:0bits$b}"))
            .collect();
        while !bits.len().is_multiple_of(8) {
            bits.push('1');
        }
        let bytes = bits.as_bytes().chunks(8);
        bytes
            .map(|it| u8::from_str_radix(str::from_utf8(it).unwrap(), 2).unwrap())
            .collect()
    }
}
