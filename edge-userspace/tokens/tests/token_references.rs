//! The tokenizers that counts are compared with agree with each other: on traps, on random
//! strings.

#[path = "../../tests/skip/mod.rs"]
mod skip;

mod reference;

use reference::texts::{BROKEN, Random, TRAPS};

/// All of one vocabulary say the same of every text.
fn agree(test: &str, vocabulary: &str, texts: &[Vec<u8>]) {
    let (mut references, missing) = reference::references(vocabulary);
    for why in missing {
        skip::skipped(&format!("{test} ({vocabulary})"), &why);
    }
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let all: Vec<_> = (references.iter_mut())
        .map(|reference| (reference.name(), reference.counts(&texts)))
        .collect();
    for pair in all.windows(2) {
        for (index, text) in texts.iter().enumerate() {
            let [(one, counts), (other, others)] = pair else {
                unreachable!("pairs")
            };
            let (count, another) = (counts[index], others[index]);
            let text = String::from_utf8_lossy(text);
            assert_eq!(count, another, "{vocabulary}: {one}, {other}: {text:?}");
        }
    }
}

#[test]
fn references_agree_on_traps_and_random_strings() {
    fn here() {}
    let mut texts: Vec<Vec<u8>> = TRAPS.iter().map(|text| text.as_bytes().to_vec()).collect();
    texts.extend(BROKEN.iter().map(|text| text.to_vec()));
    let mut random = Random::new(1);
    texts.extend((0..20_000).map(|_| random.text()));
    for vocabulary in ["cl100k_base", "o200k_base"] {
        agree(skip::caller(&here), vocabulary, &texts);
    }
}
