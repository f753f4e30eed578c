use std::collections::HashMap;
use std::sync::OnceLock;

use super::*;
use crate::arch::Isa;

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
fn the_vocabularies_are_proper_and_small() {
    for vocabulary in vocabularies() {
        let shared = vocabulary.shared();
        assert!(shared.is_proper(), "{}", vocabulary.name);
        assert!(
            shared.bytes() < 48 * vocabulary.tokens.len(),
            "{}",
            shared.bytes()
        );
        let longest = vocabulary.tokens.iter().map(Vec::len).max().unwrap();
        assert_eq!(shared.longest_token_bytes(), longest);
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
    let rounds = 40;
    for vocabulary in vocabularies() {
        let mut random = Random(7);
        let shared = vocabulary.shared();
        let mut scratch = Scratch::default();
        for length in (0..=300).cycle().take(301 * rounds) {
            let piece = random.piece(length, &vocabulary.tokens);
            let wanted = vocabulary.by_the_rule(&piece);
            assert_eq!(vocabulary.reference.bpe.count(&piece) as u64, wanted);
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
}
