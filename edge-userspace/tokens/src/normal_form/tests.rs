//! Against unicode-normalization's whole-text forms, which know no parts.

use super::*;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::canonical_combining_class;

const FORMS: [NormalForm; 2] = [NormalForm::Nfc, NormalForm::Nfkc];

fn expected(form: NormalForm, text: &str) -> String {
    match form {
        NormalForm::None => text.to_owned(),
        NormalForm::Nfc => text.nfc().collect(),
        NormalForm::Nfkc => text.nfkc().collect(),
    }
}

fn in_parts<'a>(form: NormalForm, parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::new();
    let mut normalizer = Normalizer::new(form);
    for part in parts {
        normalizer.push(part, |part| out.push_str(part));
    }
    normalizer.finish(|part| out.push_str(part));
    out
}

#[test]
fn every_character_between_others() {
    let before = [
        "a", "", "\u{301}", "\u{ac00}", "\u{1100}", "\u{1161}", "\u{9c7}",
    ];
    let after = ["\u{338}", "", "\u{327}", "\u{1161}", "\u{11a8}", "\u{9be}"];
    let mut text = String::new();
    for c in (0..0x11_0000).filter_map(char::from_u32) {
        // Those that do not combine, nearly all, meet one each.
        let plain = std::iter::once(c).nfkd().eq([c])
            && canonical_combining_class(c) == 0
            && u32::from(c) > 0x3100;
        let met = if plain { 1 } else { usize::MAX };
        for before in before.iter().take(met) {
            for after in after.iter().take(met) {
                text.clear();
                text.push_str(before);
                text.push(c);
                text.push_str(after);
                for form in FORMS {
                    let whole = expected(form, &text);
                    assert_eq!(form.whole(&text), whole, "{form:?} of {text:?}");
                }
            }
        }
    }
}

#[test]
fn every_split_of_texts_that_combine() {
    let texts = [
        "a\u{301}\u{327}b \u{ff21}\u{301}\u{ff22}ﬁ\u{fdfa}\u{1100}\u{1161}\u{11a8}\u{11a8}x",
        "caf\u{e9} cafe\u{301} \u{30ab}\u{3099}\u{ff76}\u{ff9e} \u{212b}\u{2126} \u{1e9b}\u{323}",
        "\u{301}\u{301}\u{315}\u{300}\u{5ae}b \u{32ff} \u{a0}\u{2003}x \u{fb1d}\u{5b4}",
        "\u{9c7}\u{9be}\u{9c7}\u{9d7} \u{b47}\u{b56} \u{1025}\u{102e} \u{110a5}\u{110ba}",
    ];
    for text in texts {
        for form in FORMS {
            let whole = expected(form, text);
            for (at, _) in text.char_indices() {
                assert_eq!(in_parts(form, [&text[..at], &text[at..]]), whole);
            }
            let chars = text
                .char_indices()
                .map(|(at, c)| &text[at..at + c.len_utf8()]);
            assert_eq!(in_parts(form, chars), whole);
        }
    }
}

#[test]
fn long_plain_text_is_passed_on_as_it_is() {
    let text = "plain ".repeat(100) + &"слово 日本語 ".repeat(100);
    for form in FORMS {
        assert!(matches!(form.whole(&text), Cow::Borrowed(_)));
        assert_eq!(in_parts(form, [&text[..]]), text);
    }
    assert!(matches!(
        NormalForm::None.whole("\u{fb01}"),
        Cow::Borrowed(_)
    ));
}

#[test]
fn a_run_of_marks_is_exact_up_to_the_limit_and_bounded_beyond_it() {
    let run = |chars: usize| {
        let marks = ["\u{301}", "\u{327}"].into_iter().cycle();
        "a".to_owned() + &marks.take(chars - 1).collect::<String>()
    };
    let most = NormalForm::MOST_COMBINING;
    for form in FORMS {
        assert_eq!(form.whole(&run(most)), expected(form, &run(most)));
        let long = run(most + 1);
        assert_ne!(form.whole(&long), expected(form, &long));
        let chars = long
            .char_indices()
            .map(|(at, c)| &long[at..at + c.len_utf8()]);
        assert_eq!(
            in_parts(form, chars),
            form.whole(&long),
            "in parts as whole"
        );
        let mut normalizer = Normalizer::new(form);
        normalizer.push(&run(1_000_000), |_| ());
        assert!(normalizer.open.capacity() <= 8 << 10);
        assert!(normalizer.scratch.capacity() <= 16 << 10);
    }
}

#[test]
fn runs_that_are_cut_are_cut_alike_in_any_parts() {
    let most = NormalForm::MOST_COMBINING;
    // Marks of classes 10, 14, 30 and 220, which stay where they are in order, and one that
    // composes.
    let marks = [
        "\u{5b0}", "\u{5b4}", "\u{64e}", "\u{327}", "\u{316}", "\u{301}",
    ];
    for (one, other) in marks
        .iter()
        .flat_map(|one| marks.map(|other| (*one, other)))
    {
        for before in [
            5,
            most - 2,
            most - 1,
            most,
            2 * most - 1,
            2 * most,
            2 * most + 1,
        ] {
            for start in ["a", "\u{ff21}", ""] {
                let text = [start, &one.repeat(before), other, one, "b"].concat();
                for form in FORMS {
                    let whole = form.whole(&text);
                    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
                    let ends: Vec<usize> = ends.collect();
                    for size in [1, 7, most - 1, most, most + 1] {
                        let mut parts = Vec::new();
                        let mut from = 0;
                        for &end in ends.chunks(size).map(|chunk| &chunk[chunk.len() - 1]) {
                            parts.push(&text[from..end]);
                            from = end;
                        }
                        assert!(in_parts(form, parts) == whole, "{one:?} {before} {other:?}");
                    }
                    if before + 4 <= most {
                        assert_eq!(whole, expected(form, &text));
                    }
                }
            }
        }
    }
}
