//! Lays out the tables of a vocabulary's tokens: at build time, or when a file is loaded. Used
//! by the build script too.

use super::keys::{HEADER, MAGIC, hash_long, hash_medium, hash_short, padded};

/// The section of these tokens, which `Shared::read` reads.
///
/// `tokens` are the bytes of each, in any order, each once.
pub(crate) fn write<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Vec<u64> {
    let (mut short, mut medium, mut long) = (Vec::new(), Vec::new(), Vec::new());
    for token in tokens {
        match token.len() {
            0 => {}
            _ if token.contains(&0) => long.push(token),
            1..=7 => short.push(padded(token)[0]),
            8..=15 => medium.push(padded(token)),
            _ => long.push(token),
        }
    }
    // Lines of eight words, a little over half full.
    let short_bits = bits_for(short.len(), 8);
    let medium_bits = bits_for(medium.len(), 4);
    let long_bits = bits_for(long.len(), 1) + 1;
    let mut section = vec![0; HEADER];
    let place = |bits: u32, hash: u64, key: &[u64], table: &mut [u64]| {
        let mask = (1_usize << bits) - 1;
        let mut line = (hash >> (64 - bits)) as usize;
        loop {
            let words = &mut table[line * 8..][..8];
            if let Some(free) = words
                .chunks_mut(key.len())
                .find(|w| w.iter().all(|&w| w == 0))
            {
                free.copy_from_slice(key);
                return;
            }
            line = (line + 1) & mask;
        }
    };
    let mut table = vec![0; 8 << short_bits];
    for key in short {
        place(short_bits, hash_short(key), &[key | 1 << 56], &mut table);
    }
    section.append(&mut table);
    table = vec![0; 8 << medium_bits];
    for key in medium {
        place(
            medium_bits,
            hash_medium(key),
            &[key[0], key[1] | 1 << 56],
            &mut table,
        );
    }
    section.append(&mut table);
    table = vec![0; 1 << long_bits];
    let mut bytes = Vec::new();
    for token in long {
        let hash = hash_long(token);
        let mut slot = (hash >> (64 - long_bits)) as usize;
        while table[slot] != 0 {
            slot = (slot + 1) & ((1 << long_bits) - 1);
        }
        table[slot] = (hash & 0xffff_ffff) << 32 | (bytes.len() as u64 + 1);
        bytes.extend(
            u32::try_from(token.len())
                .expect("a token is short")
                .to_le_bytes(),
        );
        bytes.extend(token);
    }
    section.append(&mut table);
    bytes.resize(bytes.len().next_multiple_of(8) + 8, 0);
    let words = bytes.as_chunks::<8>().0;
    section.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
    let sizes = [
        MAGIC,
        short_bits.into(),
        medium_bits.into(),
        long_bits.into(),
        words.len() as u64,
    ];
    section[..sizes.len()].copy_from_slice(&sizes);
    section
}

/// The bits of a number of lines that hold so many entries with room.
fn bits_for(entries: usize, a_line: usize) -> u32 {
    let lines = (entries * 8 / 5 / a_line).max(2);
    lines.next_power_of_two().trailing_zeros()
}
