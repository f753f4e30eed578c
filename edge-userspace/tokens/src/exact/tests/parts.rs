//! Texts that arrive in parts.

use super::*;

/// The tokens of a text that arrives in parts of these sizes, again and again.
fn in_parts(counter: &mut Counter, text: &[u8], sizes: &[usize]) -> u64 {
    let mut parts = Text::new(counter);
    let mut rest = text;
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let (part, behind) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
        parts.push(counter, part);
        assert!(parts.open_bytes() <= Text::CARRY_BYTES);
        rest = behind;
    }
    let at_least = parts.at_least();
    let tokens = parts.finish(counter);
    assert!(at_least <= tokens);
    tokens
}

#[test]
fn every_split_of_a_text_counts_the_same() {
    for name in Vocabulary::EMBEDDED {
        let vocabulary = Vocabulary::embedded(name).unwrap();
        let mut counter = Counter::new(&vocabulary);
        let mut texts = 0;
        fuzz::texts(11, |text| {
            texts += 1;
            if texts > 350 {
                return;
            }
            let text = text.as_bytes();
            let whole = plain::count(&vocabulary, text);
            for at in 0..=text.len() {
                let mut parts = Text::new(&counter);
                parts.push(&mut counter, &text[..at]);
                parts.push(&mut counter, &text[at..]);
                assert_eq!(parts.finish(&mut counter), whole, "{name}, {at}: {text:?}");
            }
        });
    }
}

#[test]
fn long_texts_in_parts_count_the_same() {
    for name in Vocabulary::EMBEDDED {
        let vocabulary = Vocabulary::embedded(name).unwrap();
        let mut counter = Counter::new(&vocabulary);
        let mut long = String::new();
        let mut seed = 1;
        fuzz::texts(13, |text| {
            long.push_str(text);
            seed = (seed * 31 + 7) % 1009;
            if long.len() > 300 + seed * 4 {
                let whole = plain::count(&vocabulary, long.as_bytes());
                for sizes in [&[1][..], &[7, 300, 2, 64], &[255, 256, 257], &[1000, 3]] {
                    let tokens = in_parts(&mut counter, long.as_bytes(), sizes);
                    assert_eq!(tokens, whole, "{name}, {sizes:?}: {long:?}");
                }
                long.clear();
            }
        });
    }
}

#[test]
fn runs_without_an_end_count_the_same() {
    let runs = [
        "a", "A", "aB", "中", "中A", "中Ab", "ẞ中", "\u{301}", "a\u{301}", " ", "\n", " \n", "\t",
        "\r\n", "\u{a0}", "\u{3000}", "=", "(/", "\n/", "^", "😀", "\u{200d}", "7", "٣", "a's",
        "'s", "a'", "'", "(\u{301}", "½", "\0", "x\0", "/\n",
    ];
    let befores = ["", " ", "(", "\n", "x ", " \n", "1"];
    let behinds = [
        "", "a", "b'll", " ", "\n", "(", "9", "B", "'s b", "'S", "'vE", "'x", "中", "\u{301}",
        "\n\n  x", " (", "  9", "/",
    ];
    for name in Vocabulary::EMBEDDED {
        let vocabulary = Vocabulary::embedded(name).unwrap();
        let mut counter = Counter::new(&vocabulary);
        for (i, run) in runs.iter().enumerate() {
            for (j, behind) in behinds.iter().enumerate() {
                let before = befores[(i + j) % befores.len()];
                let length = [1500, 4500, 6000, 9001][(i * 7 + j) % 4];
                let text = format!("{before}{}{behind}", run.repeat(length / run.len()));
                let whole = plain::count(&vocabulary, text.as_bytes());
                assert_eq!(
                    counter.count(text.as_bytes()),
                    whole,
                    "{name}: {before:?} {run:?} {behind:?}"
                );
                for sizes in [&[1][..], &[4097, 5], &[300]] {
                    let tokens = in_parts(&mut counter, text.as_bytes(), sizes);
                    assert_eq!(
                        tokens, whole,
                        "{name}, {sizes:?}: {before:?} {run:?} x {length} {behind:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn invalid_parts_are_replacement_characters() {
    let vocabulary = Vocabulary::embedded("cl100k_base").unwrap();
    let mut counter = Counter::new(&vocabulary);
    let mut seed = 1_u64;
    let mut byte = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 56) as u8
    };
    for round in 0..20_000 {
        let length = usize::from(byte());
        let text: Vec<u8> = (0..length)
            .map(|_| match byte() % 8 {
                0 if round % 3 != 0 => byte() | 0x80,
                1 if round % 5 == 0 => byte(),
                2 => b' ',
                _ => b'a' + byte() % 26,
            })
            .collect();
        let whole = plain::count(&vocabulary, &text);
        assert_eq!(counter.count(&text), whole, "{text:x?}");
        assert_eq!(
            in_parts(&mut counter, &text, &[3, 1, 100]),
            whole,
            "{text:x?}"
        );
    }
}
