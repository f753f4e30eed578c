//! Lays out the tables of a vocabulary's tokens: at build time, or when a file is loaded. Used
//! by the build script too.

use super::keys::{HEADER, MAGIC, hash_long, hash_medium, hash_short, line_of, padded};

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
    // Lines of eight words, three fifths full: a full line is the rare case.
    let short_lines = lines_for(short.len(), 8);
    let medium_lines = lines_for(medium.len(), 4);
    let long_slots = lines_for(long.len(), 1);
    let mut section = vec![0; HEADER];
    let place = |lines: usize, hash: u64, key: &[u64], table: &mut [u64]| {
        let mut line = line_of(hash, lines);
        loop {
            let words = &mut table[line * 8..][..8];
            if let Some(free) = words
                .chunks_mut(key.len())
                .find(|w| w.iter().all(|&w| w == 0))
            {
                free.copy_from_slice(key);
                return;
            }
            line = (line + 1) % lines;
        }
    };
    let mut table = vec![0; 8 * short_lines];
    for key in short {
        place(short_lines, hash_short(key), &[key | 1 << 56], &mut table);
    }
    section.append(&mut table);
    table = vec![0; 8 * medium_lines];
    for key in medium {
        place(
            medium_lines,
            hash_medium(key),
            &[key[0], key[1] | 1 << 56],
            &mut table,
        );
    }
    section.append(&mut table);
    table = vec![0; long_slots];
    let mut bytes = Vec::new();
    for token in long {
        let hash = hash_long(token);
        let mut slot = line_of(hash, long_slots);
        while table[slot] != 0 {
            slot = (slot + 1) % long_slots;
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
        short_lines as u64,
        medium_lines as u64,
        long_slots as u64,
        words.len() as u64,
    ];
    section[..sizes.len()].copy_from_slice(&sizes);
    section
}

/// So many lines hold so many entries with room.
fn lines_for(entries: usize, a_line: usize) -> usize {
    (entries * 5 / 3).div_ceil(a_line).max(2)
}
