//! The scan against its definition, on every instruction set, in every split; the lower bound
//! against the patterns.

use super::algebra::{Counts, FEATURES, Masks, PAIRS, TRIPLES, at};
use super::classes::{HIGH_RUNS, LEADS, RUNS, SECONDS, SETS, run};
use super::*;
use crate::pattern::Pattern;
use proptest::prelude::*;

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
            _ => SETS[usize::from(byte)],
        };
        flags >> (lane % 8) & 1 == 1
    };
    let mut counts = [0; FEATURES];
    for i in 0..text.len().cast_signed() {
        let mut count = |feature: usize, holds: bool| counts[feature] += u64::from(holds);
        let runs_of = |lane: usize, length: isize| (0..length).all(|back| is(i - back, lane));
        for lane in 0..8 {
            let behind_high = is(i - 1, run::HIGH) && lane != run::WORD && lane != run::HIGH;
            count(at::RUN + lane, is(i, lane));
            count(
                at::START + lane,
                is(i, lane) && !is(i - 1, lane) && !behind_high,
            );
            count(at::RUN3 + lane, runs_of(lane, 3));
            count(at::RUN5 + lane, runs_of(lane, 5));
            count(at::RUN8 + lane, runs_of(lane, 8));
            count(at::RUN12 + lane, runs_of(lane, 12));
            count(at::SET + lane, is(i, 8 + lane));
            count(
                at::SET_START + lane,
                is(i, 8 + lane) && !is(i - 1, 8 + lane),
            );
            count(at::SET3 + lane, runs_of(8 + lane, 3));
            for (group, pairs) in PAIRS.iter().enumerate() {
                let (before, here) = pairs[lane];
                count(
                    at::PAIR + 8 * group + lane,
                    is(i, here) && is(i - 1, before),
                );
            }
            let (before, here) = TRIPLES[lane];
            count(at::TRIPLE + lane, runs_of(here, 2) && is(i - 2, before));
            let within = |at: isize, (first, last): (u8, u8)| (first..=last).contains(&byte(at));
            for (group, leads) in LEADS.iter().enumerate() {
                count(at::LEAD + 8 * group + lane, within(i, leads[lane]));
            }
            let led = within(i - 1, LEADS[0][lane]);
            for (set, seconds) in SECONDS.iter().enumerate() {
                count(at::SECOND + 8 * set + lane, led && within(i, seconds[lane]));
            }
        }
    }
    counts
}

fn counted(isa: Isa, text: &[u8]) -> Counts {
    let mut counts = [0; FEATURES];
    let mut carry = Masks::START;
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
        2 => "(don't|'ll|'S|a''s|\\.\n/\n|//|,'t)".prop_map(String::into_bytes),
        3 => "\\PC{1,6}".prop_map(String::into_bytes),
        2 => "[à-ÿа-яА-Я一-十ก-ฮ😀-😏́-̈]{1,10}".prop_map(String::into_bytes),
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
