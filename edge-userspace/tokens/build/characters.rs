//! The class of each character above ASCII: its script, and what it costs alone under each of
//! the built-in vocabularies.

use std::collections::HashMap;
use unicode_normalization::UnicodeNormalization as _;

use crate::groups::{BLOCK, FIRST_BEYOND};
use crate::ranges::RANGES;

/// What a character costs alone under each of three vocabularies: 1, 2 or more tokens, as one
/// number.
const COSTS: usize = 27;

/// A vocabulary's tokens by rank, and whether its texts are brought into NFKC.
pub(crate) type Vocabulary<'a> = (&'a [&'a [u8]], bool);

/// As `src/estimate/characters.rs` reads it.
pub(crate) fn table(vocabularies: [Vocabulary<'_>; 3]) -> Vec<u8> {
    let ranks = vocabularies.map(|(tokens, compose)| {
        let ranks = tokens.iter().zip(0..).map(|(token, rank)| (*token, rank));
        (ranks.collect::<HashMap<&[u8], u32>>(), compose)
    });
    let key = |code_point: u32| {
        let range = RANGES.partition_point(|range| range.0 <= code_point) - 1;
        let cost = |(ranks, compose): &(HashMap<&[u8], u32>, bool)| {
            // Surrogates are no characters.
            let tokens = char::from_u32(code_point).map_or(3, |c| tokens(ranks, c, *compose));
            tokens.clamp(1, 3) - 1
        };
        let costs = ranks.iter().fold(0, |costs, ranks| 3 * costs + cost(ranks));
        RANGES[range].1 as usize * COSTS + costs
    };
    let keys: Vec<usize> = (0..FIRST_BEYOND).map(key).collect();
    let mut classes = keys.clone();
    classes.sort_unstable();
    classes.dedup();
    assert!(classes.len() <= 256, "a class is a byte");

    let byte = |number: usize| u8::try_from(number).expect("small");
    let mut table = vec![0; 512];
    for (class, key) in classes.iter().enumerate() {
        table[class] = byte(key / COSTS);
        table[256 + class] = byte(key % COSTS);
    }
    let class = |key: &usize| byte(classes.binary_search(key).expect("it is one of them"));
    let of: Vec<u8> = keys.iter().map(class).collect();
    let mut blocks: HashMap<&[u8], u16> = HashMap::new();
    let mut laid_out = Vec::new();
    for block in of.chunks(BLOCK) {
        let next = u16::try_from(blocks.len()).expect("fewer than there are");
        let index = *blocks.entry(block).or_insert_with(|| {
            laid_out.extend_from_slice(block);
            next
        });
        table.extend(index.to_le_bytes());
    }
    table.extend(laid_out);
    table
}

/// Into how many tokens a character merges: two neighbours whose bytes together are a token,
/// the lowest rank first, the leftmost first.
fn tokens(ranks: &HashMap<&[u8], u32>, c: char, compose: bool) -> usize {
    let text: String = match compose {
        true => [c].into_iter().nfkc().collect(),
        false => c.to_string(),
    };
    let bytes = text.as_bytes();
    if ranks.contains_key(bytes) {
        return 1;
    }
    let mut ends: Vec<usize> = (0..=bytes.len()).collect();
    loop {
        let pairs = ends.windows(3).enumerate().filter_map(|(i, part)| {
            let rank = ranks.get(&bytes[part[0]..part[2]])?;
            Some((*rank, i))
        });
        match pairs.min() {
            Some((_, i)) => ends.remove(i + 1),
            None => return ends.len() - 1,
        };
    }
}
