//! The scan against its definition, on every instruction set, in every split; the lower bound
//! against the patterns.

use super::algebra::{BEFORE, Carry, Counts, FEATURES, at};
use super::classes::{HIGH_RUNS, KINDS, RUNS, SETS};
use super::groups::FIRST_BEYOND;
use super::ranges::RANGES;
use super::*;
use crate::Counter;
use crate::pattern::Pattern;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;

/// The features as they are defined, a byte at a time.
fn defined(text: &[u8]) -> Counts {
    let before_text = b'\n';
    let byte = |i: isize| usize::try_from(i).map_or(before_text, |i| text[i]);
    let is = |i: isize, lane: usize| {
        if i < -2 {
            return false; // a new line of two bytes is all that is thought to be before
        }
        let byte = byte(i);
        let flags = match (byte, lane) {
            (0x80.., 0..8) => HIGH_RUNS,
            (0x80.., _) => 0,
            (_, 0..8) => RUNS[usize::from(byte)],
            (_, 8..16) => SETS[usize::from(byte)],
            (_, 16..24) => KINDS[0][usize::from(byte)],
            _ => KINDS[1][usize::from(byte)],
        };
        flags >> (lane % 8) & 1 == 1
    };
    let mut counts = [0; FEATURES];
    for i in 0..text.len().cast_signed() {
        let mut count = |feature: usize, holds: bool| counts[feature] += u64::from(holds);
        let runs_of = |lane: usize, length: isize| (0..length).all(|back| is(i - back, lane));
        for (lane, befores) in (0..8).map(|lane| (lane, BEFORE.map(|lanes| lanes[lane]))) {
            count(at::RUN + lane, is(i, lane));
            count(at::RUN2 + lane, runs_of(lane, 2));
            count(at::RUN4 + lane, runs_of(lane, 4));
            count(at::SET + lane, is(i, 8 + lane));
            count(at::SET2 + lane, runs_of(8 + lane, 2));
            let pair = |i: isize, group: usize| {
                let before = befores[group] + if group == 2 { 8 } else { 0 };
                is(i, lane) && is(i - 1, before)
            };
            for group in 0..3 {
                count(at::PAIR + 8 * group + lane, pair(i, group));
            }
            count(at::TRIPLE + lane, is(i, lane) && pair(i - 1, 2));
            count(at::SAME + lane, is(i, lane) && byte(i) == byte(i - 1));
            count(at::KIND + lane, is(i, 16 + lane));
            count(at::KIND + 8 + lane, is(i, 24 + lane));
        }
        for length in 2..=4 {
            let first = i + 1 - length;
            if characters::length(byte(first)) == length.cast_unsigned() {
                character(
                    &mut counts,
                    &text[first.cast_unsigned()..][..length.cast_unsigned()],
                );
            }
        }
    }
    counts
}

/// Counts a character by its group and by what the vocabularies say of it.
fn character(counts: &mut Counts, bytes: &[u8]) {
    let lead = bytes[0] & (0x7F >> bytes.len());
    let code_point = bytes[1..].iter().fold(u32::from(lead), |code_point, byte| {
        code_point << 6 | u32::from(byte & 0x3F)
    });
    let code_point = code_point.min(FIRST_BEYOND - 1);
    let range = RANGES.iter().rev().find(|range| range.0 <= code_point);
    counts[at::GROUP + range.unwrap().1 as usize] += 1;
    for (i, name) in crate::Vocabulary::EMBEDDED.into_iter().enumerate() {
        let tokens = match char::from_u32(code_point) {
            Some(c) => COUNTERS.with(|counters| {
                let mut counters = counters.borrow_mut();
                let new = || Counter::new(&crate::Vocabulary::embedded(name).unwrap());
                let counter = counters.entry(name).or_insert_with(new);
                counter.count(c.to_string().as_bytes())
            }),
            // Surrogates are no characters.
            None => 3,
        };
        if tokens < 3 {
            counts[at::LEVEL + 2 * i + tokens as usize - 1] += 1;
        }
    }
}

thread_local! {
    static COUNTERS: RefCell<HashMap<&'static str, Counter>> = RefCell::default();
}

fn counted(isa: Isa, text: &[u8]) -> Counts {
    let mut counts = [0; FEATURES];
    let mut carry = Carry::new();
    arch::scan::scan(isa, &mut counts, &mut carry, text);
    counts
}

/// Texts of everything that a feature looks at.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let parts = prop_oneof![
        4 => "[a-zA-Z]{1,20}".prop_map(String::into_bytes),
        2 => "[0-9]{1,8}".prop_map(String::into_bytes),
        4 => "[ \t\n\r]{1,6}".prop_map(String::into_bytes),
        4 => "[!-/:-@\\[-`{-~]{1,5}".prop_map(String::into_bytes),
        1 => "[\0-\x1F\x7F]{1,4}".prop_map(String::into_bytes),
        2 => "(don't|'ll|'S|a''s|\\.\n/\n|//|,'t)".prop_map(String::into_bytes),
        3 => "\\PC{1,6}".prop_map(String::into_bytes),
        2 => "(aa|\"\"|\n\n|  |==|00){1,5}".prop_map(String::into_bytes),
        2 => "[à-ÿа-яА-Я一-十ก-ฮ😀-😏́-̈가-각\u{20000}-\u{20003}]{1,10}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 1..10),
    ];
    prop::collection::vec(parts, 0..60).prop_map(|parts| parts.concat())
}

#[test]
fn every_instruction_set_counts_what_is_defined_at_every_length_and_alignment() {
    let text: Vec<u8> = (0..200)
        .flat_map(|i: u32| format!("{i}x Ab--é\u{4E00}\u{1F600}\n  word_{}'s", i * i).into_bytes())
        .collect();
    for isa in Isa::available() {
        for length in 0..=256 {
            for from in 0..64 {
                let text = &text[from..from + length];
                let expected = if isa == Isa::Scalar && from % 16 == 0 {
                    defined(text)
                } else {
                    counted(Isa::Scalar, text)
                };
                assert_eq!(
                    counted(isa, text),
                    expected,
                    "{isa}, {length} bytes from {from}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_instruction_set_counts_what_is_defined(text in texts()) {
        let expected = defined(&text);
        for isa in Isa::available() {
            prop_assert_eq!(&counted(isa, &text)[..], &expected[..], "{}", isa);
        }
    }

    #[test]
    fn parts_are_as_the_whole(
        text in texts(), repeat in 1..9_usize, cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let text = text.repeat(repeat);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let whole = Features::of(&text);
        prop_assert_eq!(whole.bytes(), text.len() as u64);
        for isa in Isa::available() {
            let mut scan = Scan::with_isa(isa).unwrap();
            for cut in cuts.windows(2) {
                scan.push(&text[cut[0]..cut[1]]);
                prop_assert!(scan.at_least() <= lower_bound(&whole));
                prop_assert_eq!(scan.so_far().bytes(), cut[1] as u64 / 64 * 64);
            }
            prop_assert!(scan.finish() == whole, "{}", isa);
        }
    }

    #[test]
    fn one_scan_of_several_texts_is_the_sum_of_theirs(several in prop::collection::vec(texts(), 0..6)) {
        for isa in Isa::available() {
            let mut scan = Scan::with_isa(isa).unwrap();
            let mut sum = Features::new();
            for text in &several {
                scan.push(text);
                scan.end_text();
                sum += &Features::of(text);
                prop_assert!(scan.so_far() == sum, "{}", isa);
                prop_assert_eq!(scan.at_least(), lower_bound(&sum));
            }
        }
    }

    #[test]
    fn no_pattern_has_fewer_pieces_than_the_lower_bound(text in texts()) {
        let text = String::from_utf8_lossy(&text).into_owned();
        let least = lower_bound(&Features::of(text.as_bytes()));
        for pattern in Pattern::ALL {
            for form in [crate::NormalForm::None, crate::NormalForm::Nfc, crate::NormalForm::Nfkc] {
                let text = form.whole(&text);
                let (mut at, mut pieces) = (0, 0);
                while at < text.len() {
                    at = pattern.piece_end(text.as_bytes(), at);
                    pieces += 1;
                }
                prop_assert!(least <= pieces, "{} has {pieces} of at least {least}", pattern.name());
            }
        }
    }

    #[test]
    fn features_of_texts_add_up(a in texts(), b in texts()) {
        let (mut sum, of_b) = (Features::of(&a), Features::of(&b));
        let least = lower_bound(&sum) + lower_bound(&of_b);
        sum += &of_b;
        prop_assert_eq!(sum.bytes(), (a.len() + b.len()) as u64);
        prop_assert_eq!(lower_bound(&sum), least);
    }
}

/// The bound is of use: most words of a text count.
#[test]
fn the_lower_bound_of_prose_is_near_its_words() {
    let text = b"It's 1,024 o'clock; don't be late -- said nobody. ".repeat(100);
    let pieces_at_least = lower_bound(&Features::of(&text));
    // It be late said nobody o, 1 024, `--`; not s, clock, t.
    assert_eq!(pieces_at_least, 100 * 10);
}

#[test]
fn an_estimate_is_within_its_interval_and_bounds() {
    let estimators = crate::Vocabulary::EMBEDDED.map(|name| Estimator::named(name).unwrap());
    for text in [
        "",
        "a",
        "Hello, world.",
        "\u{FDFA}",
        &"^".repeat(100_000),
        &"zq".repeat(9_999),
    ] {
        let features = Features::of(text.as_bytes());
        for estimator in &estimators {
            let Estimate { tokens, low, high } = estimator.estimate(&features);
            assert!(
                low <= tokens && tokens <= high,
                "{} {text:.9}",
                estimator.vocabulary()
            );
            assert!(lower_bound(&features) <= tokens && tokens <= text.len() as u64);
        }
    }
}
