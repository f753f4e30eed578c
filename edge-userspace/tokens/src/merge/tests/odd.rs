//! Vocabularies that are not proper, and sections that are damaged.

use super::*;

/// Tokens of which one arises only by way of a token of a higher rank.
fn improper() -> Vec<Vec<u8>> {
    let bytes = (0..=255).map(|byte| vec![byte]);
    let words = [
        "abcd", "ab", "cd", "bc", "abab", "ababab", "aab", "bb", "cdcd", "dab",
    ];
    bytes
        .chain(words.map(|word| word.as_bytes().to_vec()))
        .collect()
}

#[test]
fn a_vocabulary_that_is_not_proper_is_counted_by_the_rule_all_the_same() {
    let tokens = improper();
    let section = write(&tokens);
    let shared = Shared::read(&section).unwrap();
    assert!(!shared.is_proper());
    let vocabulary = Vocabulary {
        name: "improper",
        ranks: tokens.iter().cloned().zip(0..).collect(),
        tokens: Vec::new(),
        section: section.clone(),
        reference: bpe_openai::cl100k_base(),
    };
    let mut random = Random(19);
    let mut scratch = Scratch::default();
    for length in (0..=200).cycle().take(4_000) {
        let piece: Vec<u8> = (0..length).map(|_| b'a' + random.below(4) as u8).collect();
        let wanted = vocabulary.by_the_rule(&piece);
        for isa in Isa::available() {
            assert_eq!(
                count(&shared, &piece, isa, &mut scratch),
                wanted,
                "{piece:?}"
            );
            let mut counts = [0];
            let spans = [(0, length as u32)];
            count_pieces(&shared, isa, &piece, &spans, &mut counts, &mut scratch);
            assert_eq!(u64::from(counts[0]), wanted, "{piece:?}");
        }
        let mut endless = Endless::new(&shared);
        endless.push(&shared, &piece);
        assert_eq!(endless.finish(&shared), wanted, "{piece:?}");
    }
}

#[test]
fn a_damaged_section_is_refused_or_gives_some_count() {
    let section = write(&improper());
    for length in [0, 1, section::HEADER_WORDS, section.len() - 1] {
        assert!(Shared::read(&section[..length]).is_err());
    }
    let mut longer = section.clone();
    longer.push(0);
    assert!(Shared::read(&longer).is_err());

    let proper: Vec<Vec<u8>> = (0..=255)
        .map(|byte| vec![byte])
        .chain([b"ab".to_vec(), b"abc".to_vec()])
        .collect();
    let mut random = Random(23);
    let mut scratch = Scratch::default();
    let mut read = 0;
    for section in [section, write(&proper)] {
        for _ in 0..2_000 {
            let mut damaged = section.clone();
            for _ in 0..1 + random.below(40) {
                // Half of it where the pairs are, as most of the rest is never looked at.
                let bound = if random.below(2) == 0 {
                    32
                } else {
                    damaged.len()
                };
                let at = random.below(bound);
                damaged[at] = [
                    random.next(),
                    0,
                    u64::MAX,
                    damaged[at] ^ 1 << random.below(64),
                ][random.below(4)];
            }
            let Ok(shared) = Shared::read(&damaged) else {
                continue;
            };
            read += 1;
            let length = random.below(1_500);
            let piece: Vec<u8> = (0..length).map(|_| b'a' + random.below(4) as u8).collect();
            for isa in Isa::available() {
                let _some = count(&shared, &piece, isa, &mut scratch);
                let _some = count(&shared, &piece[..length.min(40)], isa, &mut scratch);
            }
            let mut endless = Endless::new(&shared);
            endless.push(&shared, &piece);
            let _some = endless.finish(&shared);
        }
    }
    assert!(read > 100, "most were refused: {read}");
}
