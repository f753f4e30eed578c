use std::collections::HashMap;
use std::sync::OnceLock;

use super::*;
use crate::arch::Isa;

mod odd;

/// A vocabulary's tokens, its section, and the rule to compare with.
struct Vocabulary {
    name: &'static str,
    ranks: HashMap<Vec<u8>, u32>,
    tokens: Vec<Vec<u8>>,
    section: Vec<u64>,
    reference: &'static bpe_openai::Tokenizer,
}

impl Vocabulary {
    fn new(name: &'static str, reference: &'static bpe_openai::Tokenizer) -> Self {
        let tokens: Vec<Vec<u8>> = (0..reference.bpe.num_tokens() as u32)
            .map(|id| reference.bpe.token_bytes(id).to_vec())
            .collect();
        let ranks = tokens.iter().cloned().zip(0..).collect();
        Self {
            name,
            ranks,
            section: write(&tokens),
            tokens,
            reference,
        }
    }

    fn shared(&self) -> Shared<'_> {
        Shared::read(&self.section).unwrap()
    }

    /// The rule, as it is written down: no tables of pairs, no shortcuts.
    fn by_the_rule(&self, piece: &[u8]) -> u64 {
        let mut starts: Vec<usize> = (0..=piece.len()).collect();
        loop {
            let rank = |at: usize| {
                let both = piece.get(*starts.get(at)?..*starts.get(at + 2)?)?;
                self.ranks.get(both).map(|&rank| (rank, at))
            };
            let Some((_, at)) = (0..starts.len()).filter_map(rank).min() else {
                return starts.len() as u64 - 1;
            };
            starts.remove(at + 1);
        }
    }
}

fn vocabularies() -> &'static [Vocabulary] {
    static MADE: OnceLock<Vec<Vocabulary>> = OnceLock::new();
    MADE.get_or_init(|| {
        vec![
            Vocabulary::new("cl100k_base", bpe_openai::cl100k_base()),
            Vocabulary::new("o200k_base", bpe_openai::o200k_base()),
        ]
    })
}

/// Numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A piece of this length in one of the kinds that merging meets or fears.
    fn piece(&mut self, length: usize, tokens: &[Vec<u8>]) -> Vec<u8> {
        const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let kind = self.below(8);
        let few: Vec<u8> = (0..1 + self.below(3))
            .map(|_| b'a' + self.below(26) as u8)
            .collect();
        let mut piece = Vec::with_capacity(length + 128);
        while piece.len() < length {
            match kind {
                0 => piece.push(b'a' + self.below(26) as u8),
                1 => piece.push(BASE64[self.below(64)]),
                2 => piece.push(self.next() as u8),
                3 => piece.push(few[self.below(few.len())]),
                4 => {
                    let code = 0x80 + self.below(0x780) as u32;
                    let mut utf8 = [0; 4];
                    let character = char::from_u32(code).unwrap_or('a');
                    piece.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
                }
                5 => {
                    let one = [
                        &b"a"[..],
                        b" ",
                        b"^",
                        b"_",
                        b"=",
                        b"ab",
                        "\u{1f600}".as_bytes(),
                    ];
                    let one = [one[self.below(7)], one[few[0] as usize % 7]]
                        [usize::from(self.below(9) > 0)];
                    piece.extend_from_slice(one);
                }
                // Tokens, whole or cut, the common ones more often.
                _ => {
                    let bound = tokens.len() >> self.below(9);
                    let token = &tokens[self.below(bound)];
                    let cut = if self.below(3) == 0 {
                        self.below(token.len() + 1)
                    } else {
                        0
                    };
                    piece.extend_from_slice(&token[cut..]);
                }
            }
        }
        piece.truncate(length);
        piece
    }
}

#[test]
fn the_embedded_vocabularies_are_proper_and_small() {
    for name in crate::Vocabulary::EMBEDDED {
        let vocabulary = crate::Vocabulary::embedded(name).unwrap();
        let ranks = vocabulary.ranks();
        let token = |rank| ranks.get(rank).unwrap_or_default();
        let tokens: Vec<&[u8]> = (0..ranks.end()).map(token).collect();
        let section = write(&tokens);
        let shared = Shared::read(&section).unwrap();
        assert!(shared.is_proper(), "{name}");
        assert!(shared.bytes() < 6 << 20, "{name}: {}", shared.bytes());
        assert_eq!(shared.longest_token_bytes(), ranks.longest_token_bytes());
    }
}

#[test]
fn each_token_is_one_but_those_that_merging_cannot_reach() {
    for vocabulary in vocabularies() {
        let mut scratch = Scratch::default();
        let shared = vocabulary.shared();
        let mut unreached = 0;
        for token in &vocabulary.tokens {
            let count = count(&shared, token, Isa::Scalar, &mut scratch);
            if count != 1 {
                assert_eq!(count, vocabulary.by_the_rule(token));
                unreached += 1;
            }
        }
        println!("{}: {unreached} tokens are not reached", vocabulary.name);
        assert!(unreached < 100);
    }
}

#[test]
fn random_pieces_of_each_length_are_merged_by_the_rule() {
    // As in the tests of whole texts: more by this variable.
    let texts = std::env::var("EDGE_TOKENS_FUZZ_TEXTS")
        .map_or(12_000, |texts| texts.parse().expect("a number of texts"));
    for vocabulary in vocabularies() {
        let mut random = Random(7);
        let shared = vocabulary.shared();
        let mut scratch = Scratch::default();
        for length in (0..=300).cycle().take(texts) {
            let piece = random.piece(length, &vocabulary.tokens);
            let wanted = vocabulary.reference.bpe.count(&piece) as u64;
            // Which takes the square of the length.
            if length <= 64 || random.below(8) == 0 {
                assert_eq!(vocabulary.by_the_rule(&piece), wanted, "{piece:x?}");
            }
            for isa in Isa::available() {
                let count = count(&shared, &piece, isa, &mut scratch);
                assert_eq!(count, wanted, "{} {isa} {piece:x?}", vocabulary.name);
            }
            assert_eq!(scratch.heap.count(&shared, &piece), wanted, "{piece:x?}");
            let mut endless = Endless::new(&shared);
            let (front, back) = piece.split_at(random.below(length + 1));
            endless.push(&shared, front);
            endless.push(&shared, back);
            assert_eq!(endless.finish(&shared), wanted, "{piece:x?}");
        }
    }
    not_run();
}

/// Says which instruction sets were not tried.
fn not_run() {
    for isa in Isa::ALL.iter().filter(|isa| !isa.is_available()) {
        println!("skipped: {isa}, which this machine does not have");
    }
}

#[test]
fn pieces_in_batches_count_as_they_do_one_by_one() {
    for vocabulary in vocabularies() {
        let mut random = Random(11);
        let shared = vocabulary.shared();
        let mut scratch = Scratch::default();
        for round in 0..400 {
            let (mut text, mut spans, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
            let (mut keys8, mut keys16) = (vec![0], vec![[0; 2]]);
            let (mut wanted8, mut wanted16) = (vec![0], vec![0]);
            for _ in 0..random.below(round + 2) {
                let most = [9, 17, 33, 65, 150, 3000][random.below(6)];
                let length = random.below(most);
                let piece = random.piece(length, &vocabulary.tokens);
                let count = vocabulary.reference.bpe.count(&piece);
                if length <= 16 && !piece.contains(&0) {
                    let mut key = [0; 16];
                    key[..length].copy_from_slice(&piece);
                    let (low, high) = key.split_at(8);
                    let word = |half: &[u8]| u64::from_le_bytes(half.try_into().unwrap());
                    keys16.push([word(low), word(high)]);
                    wanted16.push(count as u8);
                    if length <= 8 {
                        keys8.push(word(low));
                        wanted8.push(count as u8);
                    }
                }
                spans.push((text.len() as u32, length as u32));
                text.extend_from_slice(&piece);
                wanted.push(count as u32);
            }
            for isa in Isa::available() {
                let mut counts = vec![7; wanted.len()];
                count_pieces(&shared, isa, &text, &spans, &mut counts, &mut scratch);
                assert_eq!(counts, wanted, "{isa} {text:x?}");
                let mut counts = vec![7; wanted8.len()];
                count_keys8(&shared, isa, &keys8, &mut counts);
                assert_eq!(counts, wanted8, "{isa} {keys8:x?}");
                let mut counts = vec![7; wanted16.len()];
                count_keys16(&shared, isa, &keys16, &mut counts);
                assert_eq!(counts, wanted16, "{isa} {keys16:x?}");
            }
        }
    }
    not_run();
}

#[test]
fn long_pieces_count_as_the_reference_counts_them() {
    let ones = [
        "a",
        "^",
        "_",
        "=",
        " ",
        "\n",
        "\0",
        "\u{1f600}",
        "\u{301}",
        "\u{200d}",
    ];
    for vocabulary in vocabularies() {
        let mut random = Random(13);
        let shared = vocabulary.shared();
        let mut scratch = Scratch::default();
        let mut pieces: Vec<Vec<u8>> = ones
            .iter()
            .flat_map(|one| [one.repeat(30_001), one.repeat(1_000_000 / one.len())])
            .map(String::into_bytes)
            .collect();
        for length in [1_000, 1_023, 1_024, 1_025, 2_000, 33_000, 40_000, 1_000_000] {
            pieces.extend((0..12).map(|_| random.piece(length, &vocabulary.tokens)));
        }
        for piece in &pieces {
            let wanted = vocabulary.reference.bpe.count(piece) as u64;
            let about = || (vocabulary.name, piece.len(), piece[..40].to_vec());
            let mut endless = Endless::new(&shared);
            for chunk in piece.chunks(1 + random.below(2_000)) {
                endless.push(&shared, chunk);
            }
            assert_eq!(endless.finish(&shared), wanted, "{:x?}", about());
            for isa in Isa::available() {
                let count = count(&shared, piece, isa, &mut scratch);
                assert_eq!(count, wanted, "{isa} {:x?}", about());
            }
        }
    }
    not_run();
}

#[test]
fn pieces_in_parts_count_as_they_do_whole_wherever_they_end() {
    for vocabulary in vocabularies() {
        let mut random = Random(29);
        let shared = vocabulary.shared();
        for round in 0..150 {
            // Kinds in turn, so that runs, windows and single steps follow each other.
            let mut piece = Vec::new();
            while piece.len() < 30_000 {
                let most = [70, 700, 6_000, 40_000][random.below(4)];
                let length = 1 + random.below(most);
                piece.extend(random.piece(length, &vocabulary.tokens));
            }
            let most_chunk = [300, 1_400, 9_000, 70_000][round % 4];
            let cut = random.below(piece.len());
            let behind = random.below(5).min(cut);
            let (mut whole, mut shorter) = (Endless::new(&shared), Endless::new(&shared));
            let mut at = 0;
            let mut marked = 0;
            while at < piece.len() {
                let end = piece.len().min(at + 1 + random.below(most_chunk));
                whole.push(&shared, &piece[at..end]);
                if at < cut {
                    shorter.push(&shared, &piece[at..end.min(cut)]);
                }
                if random.below(9) == 0 {
                    whole.mark(&shared);
                    shorter.mark(&shared);
                    marked = end;
                }
                at = end;
            }
            let wanted = |end: usize| vocabulary.reference.bpe.count(&piece[..end]) as u64;
            let about = format!("{} {round}", vocabulary.name);
            assert_eq!(
                shorter.finish_before(&shared, behind),
                wanted(cut - behind),
                "{about}"
            );
            if round % 2 == 0 {
                assert_eq!(whole.finish(&shared), wanted(piece.len()), "{about}");
            } else {
                assert_eq!(whole.finish_at_mark(&shared), wanted(marked), "{about}");
            }
        }
    }
}

#[test]
fn random_letters_in_parts_are_mostly_merged_in_windows() {
    for vocabulary in vocabularies() {
        let mut random = Random(31);
        let shared = vocabulary.shared();
        for chunk in [100, 1_400, 65_536] {
            let mut endless = Endless::new(&shared);
            let mut piece = Vec::new();
            while piece.len() < 300_000 {
                piece.extend((0..chunk).map(|_| b'a' + random.below(26) as u8));
                endless.push(&shared, &piece[piece.len() - chunk..]);
            }
            let steps = endless.steps();
            assert!(steps < 30_000, "{} {chunk}: {steps}", vocabulary.name);
            let wanted = vocabulary.reference.bpe.count(&piece) as u64;
            assert_eq!(
                endless.finish(&shared),
                wanted,
                "{} {chunk}",
                vocabulary.name
            );
        }
    }
}

#[test]
fn a_piece_counts_as_tiktoken_counts_it() {
    let reference = tiktoken_rs::cl100k_base_singleton();
    let vocabulary = &vocabularies()[0];
    let shared = vocabulary.shared();
    let mut random = Random(17);
    let mut scratch = Scratch::default();
    for length in (1..=200).cycle().take(2_000) {
        // Letters are one piece, so the pattern has no say.
        let piece: String = (0..length)
            .map(|_| char::from(b'a' + random.below(26) as u8))
            .collect();
        let wanted = reference.encode_ordinary(&piece).len() as u64;
        for isa in Isa::available() {
            assert_eq!(
                count(&shared, piece.as_bytes(), isa, &mut scratch),
                wanted,
                "{piece}"
            );
        }
    }
}
