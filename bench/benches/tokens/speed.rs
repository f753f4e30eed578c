//! How fast the product is by itself: every set of instructions, every size, each kind of
//! text. `tokens.<exact|estimate>.<vocabulary>.<corpus>.<size>.<isa>.<mb_s|ns>`.

use crate::clock::{mb_s, mean_ns};
use crate::reference::texts::start;
use crate::texts::Corpus;
use crate::{Effort, ceilings, ours};
use bench::{figure, figure_exact, median};
use edge_userspace::tokens::Isa;
use std::hint::black_box;

/// Half of the smallest second-level cache that a server has.
const CACHED_BYTES: usize = 256 << 10;
/// No kind of text is to be counted slower than this; `cargo xtask bench tokens` says where
/// one is.
const FLOOR_MB_S: f64 = 20.0;

/// Exact counts of all corpora in all sizes.
pub(crate) fn exact(vocabulary: &str, corpora: &[Corpus], sizes: &[(&str, usize)], effort: Effort) {
    for corpus in corpora {
        for (size, bytes) in sizes {
            let parts = corpus.parts(*bytes);
            let mut expected = None;
            for isa in Isa::available() {
                let mut counter = ours::counter(vocabulary, isa);
                let count = |part: &str| counter.count(part.as_bytes());
                let took = part_ns(&parts, &mut expected, effort, count);
                let name = format!("tokens.exact.{vocabulary}.{}.{size}.{isa}", corpus.name);
                told(&name, &parts, took);
            }
        }
    }
}

/// Texts that are hard on purpose, each whole, by the best instructions and the plainest.
pub(crate) fn adversarial(vocabulary: &str, corpora: &[Corpus], size: &str, effort: Effort) {
    let sizes = [(size, corpora.first().map_or(0, |corpus| corpus.text.len()))];
    let mut slowest = f64::INFINITY;
    for corpus in corpora {
        let parts = [corpus.text.clone()];
        let mut expected = None;
        for isa in Isa::available() {
            let mut counter = ours::counter(vocabulary, isa);
            let count = |part: &str| counter.count(part.as_bytes());
            let took = part_ns(&parts, &mut expected, effort, count);
            let (name, [(size, _)]) = (corpus.name, sizes);
            told(
                &format!("tokens.exact.{vocabulary}.adversarial_{name}.{size}.{isa}"),
                &parts,
                took,
            );
            let speed = mb_s(corpus.text.len(), took);
            slowest = slowest.min(speed);
            if speed < FLOOR_MB_S {
                println!("BELOW {FLOOR_MB_S} MB/s: {vocabulary} {name} {isa}: {speed:.1}");
            }
        }
    }
    figure(
        &format!("tokens.exact.{vocabulary}.adversarial_slowest.mb_s"),
        slowest,
        "MB/s",
    );
}

/// Estimates, and beside them simdutf's count of characters, which is as fast as a look at
/// every byte can be. (The trivial competitor by bytes times a constant takes no time; how
/// far off it is, the errors say.)
pub(crate) fn estimate(
    vocabulary: &str,
    corpora: &[Corpus],
    sizes: &[(&str, usize)],
    effort: Effort,
) {
    let estimator = ours::estimator(vocabulary);
    for corpus in corpora {
        for (size, bytes) in sizes {
            let parts = corpus.parts(*bytes);
            let mut expected = None;
            let mut best = f64::NAN;
            for isa in Isa::available() {
                let estimate = |part: &str| ours::estimate(&estimator, isa, part.as_bytes());
                let took = part_ns(&parts, &mut expected, effort, estimate);
                let name = format!("tokens.estimate.{vocabulary}.{}.{size}.{isa}", corpus.name);
                told(&name, &parts, took);
                best = took;
            }
            let mut ceiling = None;
            let characters = |part: &str| ceilings::count_utf8(part.as_bytes()) as u64;
            let took = part_ns(&parts, &mut ceiling, effort, characters);
            figure_exact(
                &format!(
                    "tokens.ratio.estimate.{vocabulary}.{}.{size}.vs_simdutf_count_utf8",
                    corpus.name
                ),
                took / best,
                "times",
            );
        }
    }
}

/// Estimates of a text of ASCII alone that stays in the second-level cache: how fast the
/// scan itself is.
pub(crate) fn estimate_in_cache(text: &str, effort: Effort) {
    let text: String = text.chars().filter(char::is_ascii).collect();
    let parts = [start(&text, CACHED_BYTES).to_owned()];
    let estimator = ours::estimator("cl100k_base");
    let mut expected = None;
    for isa in Isa::available() {
        let estimate = |part: &str| ours::estimate(&estimator, isa, part.as_bytes());
        let took = part_ns(&parts, &mut expected, effort, estimate);
        let speed = mb_s(parts[0].len(), took) / 1e3;
        figure_exact(
            &format!("tokens.estimate.ascii_in_cache.{isa}.gb_s"),
            speed,
            "GB/s",
        );
    }
}

/// Nanoseconds for one part, all of them in turn; the answers are the same each time, and
/// the same as `expected` if that is known.
fn part_ns(
    parts: &[String],
    expected: &mut Option<u64>,
    effort: Effort,
    mut count: impl FnMut(&str) -> u64,
) -> f64 {
    let mut all = || parts.iter().map(|part| count(black_box(part))).sum::<u64>();
    let expected = *expected.get_or_insert_with(&mut all);
    assert!(parts.is_empty() || expected > 0);
    // Once more for what the first has learnt to be used, and for others' answers.
    assert_eq!(all(), expected, "the same text, another count");
    let samples = (0..effort.speed_rounds).map(|_| {
        let pass = mean_ns(effort.least, || assert_eq!(all(), expected));
        pass / parts.len() as f64
    });
    median(samples.collect())
}

fn told(name: &str, parts: &[String], ns: f64) {
    let bytes = parts.iter().map(String::len).sum::<usize>() / parts.len();
    figure(&format!("{name}.mb_s"), mb_s(bytes, ns), "MB/s");
    figure(&format!("{name}.ns"), ns, "ns");
}
