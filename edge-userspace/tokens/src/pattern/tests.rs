//! Pieces written out by hand: the traps. Against the reference tokenizers: `tests/oracle.rs`.

use super::Pattern;

fn pieces(pattern: Pattern, text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let end = pattern.piece_end(text.as_bytes(), at);
        pieces.push(&text[at..end]);
        at = end;
    }
    pieces
}

#[test]
fn names_are_read_back() {
    for pattern in Pattern::ALL {
        assert_eq!(Pattern::named(pattern.name()), Some(pattern));
    }
    assert_eq!(Pattern::named("p99k"), None);
}

#[test]
fn contractions() {
    for pattern in [Pattern::Cl100k, Pattern::Llama3, Pattern::Qwen2] {
        assert_eq!(pieces(pattern, "I'LL'sab"), ["I", "'LL", "'s", "ab"]);
        assert_eq!(pieces(pattern, "a'\u{17f}x"), ["a", "'\u{17f}", "x"]);
        assert_eq!(pieces(pattern, "a'\u{212a}"), ["a", "'\u{212a}"]);
    }
    assert_eq!(pieces(Pattern::O200k, "I'LL'sab"), ["I'LL", "'sab"]);
    assert_eq!(pieces(Pattern::O200k, "a'\u{17f}x"), ["a'\u{17f}", "x"]);
    assert_eq!(pieces(Pattern::Gpt2, "I'LL've"), ["I", "'", "LL", "'ve"]);
}

#[test]
fn digits() {
    assert_eq!(pieces(Pattern::Cl100k, " 12345"), [" ", "123", "45"]);
    assert_eq!(pieces(Pattern::O200k, "1٢३4"), ["1٢३", "4"]);
    assert_eq!(pieces(Pattern::Gpt2, " 12345"), [" 12345"]);
    assert_eq!(pieces(Pattern::Qwen2, " 12"), [" ", "1", "2"]);
}

#[test]
fn white_space_before_and_behind() {
    let text = "a  b\n \n  c\t\u{a0}d\u{3000}e \n ";
    let first = [
        "a",
        " ",
        " b",
        "\n \n",
        " ",
        " c",
        "\t",
        "\u{a0}d",
        "\u{3000}e",
    ];
    for pattern in [Pattern::Llama3, Pattern::Qwen2, Pattern::O200k] {
        assert_eq!(pieces(pattern, text), [&first[..], &[" \n", " "]].concat());
    }
    assert_eq!(
        pieces(Pattern::Cl100k, text),
        [&first[..], &[" \n "]].concat()
    );
    assert_eq!(
        pieces(Pattern::Gpt2, "a\n b\u{a0}c "),
        ["a", "\n", " b", "\u{a0}", "c", " "]
    );
}

#[test]
fn marks_and_slashes() {
    assert_eq!(pieces(Pattern::Cl100k, "ae\u{301}b"), ["ae", "\u{301}b"]);
    assert_eq!(pieces(Pattern::O200k, "ae\u{301}b"), ["ae\u{301}b"]);
    assert_eq!(pieces(Pattern::Cl100k, ".\n/\n"), [".\n", "/\n"]);
    assert_eq!(pieces(Pattern::O200k, ".\n/\n"), [".\n/\n"]);
}

#[test]
fn case_in_words_of_o200k() {
    let o200k = |text| pieces(Pattern::O200k, text);
    assert_eq!(
        o200k("camelCase HTTPServer"),
        ["camel", "Case", " HTTPServer"]
    );
    assert_eq!(o200k("中A"), ["中", "A"]);
    assert_eq!(o200k("A中BC"), ["A中", "BC"]);
    assert_eq!(o200k("\u{301}ABC"), ["\u{301}", "ABC"]);
    assert_eq!(o200k("!\u{301}abc"), ["!\u{301}abc"]);
    assert_eq!(o200k("!!\u{301}abc"), ["!!\u{301}", "abc"]);
    assert_eq!(o200k("\u{1c5}x"), ["\u{1c5}x"]);
}

#[test]
fn an_invalid_part_is_a_replacement_character() {
    for pattern in Pattern::ALL {
        for (bytes, text) in [
            (
                &b"a\xffb \xe4\xb8 \xed\xa0\x80"[..],
                "a\u{fffd}b \u{fffd} \u{fffd}\u{fffd}\u{fffd}",
            ),
            (b"\xf0\x9f\x98", "\u{fffd}"),
        ] {
            let mut ours = Vec::new();
            let mut at = 0;
            while at < bytes.len() {
                let end = pattern.piece_end(bytes, at);
                ours.push(String::from_utf8_lossy(&bytes[at..end]).into_owned());
                at = end;
            }
            assert_eq!(ours, pieces(pattern, text));
        }
    }
}
