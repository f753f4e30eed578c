//! The product beside the tokenizers of others: the same texts, the same core, the same run,
//! counts compared first, in turn round by round, medians of the rounds' ratios.

use crate::Effort;
use crate::clock::mb_s;
use crate::peers::{Contender, contenders, ours_name};
use crate::summary::Summary;
use crate::texts::Corpus;
use bench::{figure, figure_exact, median};
use edge_userspace::tokens::Isa;
use std::collections::BTreeMap;

/// Of a text that one prompt may be. The longer one beside it is more than a bounded memory
/// of pieces holds, and is counted again and again by those that forget nothing.
const PROMPT_BYTES: usize = 1 << 20;
/// Passes of a round, but for those that are slow.
const PASSES: u32 = 3;

/// Prints `tokens.ratio.*` and the speeds behind them.
pub(crate) fn run(vocabulary: &str, corpora: &[Corpus], effort: Effort, summary: &mut Summary) {
    let (mut all, missing) = contenders(vocabulary);
    for why in missing {
        println!("SKIPPED tokens.ratio.{vocabulary}.*: {why}");
    }
    for corpus in corpora {
        for part in [corpus.start(PROMPT_BYTES), &corpus.text] {
            for contender in &mut all {
                contender.give(part).expect("a contender that runs");
            }
        }
    }
    for (index, corpus) in corpora.iter().enumerate() {
        let prompt = Compared {
            vocabulary,
            corpus: corpus.name.to_owned(),
            text: 2 * index,
            bytes: corpus.start(PROMPT_BYTES).len(),
        };
        compare(&prompt, &mut all, effort, summary);
        if corpus.text.len() > PROMPT_BYTES {
            // The slow have no memory that a longer text could fill.
            let mut fast: Vec<_> = all.iter_mut().filter(|it| !it.is_slow()).collect();
            let whole = Compared {
                corpus: format!("{}.{}mb", corpus.name, corpus.text.len() >> 20),
                text: 2 * index + 1,
                bytes: corpus.text.len(),
                ..prompt
            };
            compare(&whole, &mut fast, effort, summary);
        }
    }
}

/// A text that is counted by all.
struct Compared<'a> {
    vocabulary: &'a str,
    /// As figures name it.
    corpus: String,
    /// Its number with each contender.
    text: usize,
    bytes: usize,
}

fn compare<C: AsMut<dyn Contender>>(
    compared: &Compared<'_>,
    all: &mut [C],
    effort: Effort,
    summary: &mut Summary,
) {
    let Compared {
        vocabulary,
        corpus: name,
        text,
        bytes,
    } = compared;
    let mut expected = None;
    for contender in all.iter_mut() {
        let contender = contender.as_mut();
        let count = contender.count(*text).expect("a contender that runs");
        let expected = *expected.get_or_insert(count);
        let who = contender.name();
        assert!(
            count > 0 && count == expected,
            "{vocabulary} {name}: {count} by {who}, not {expected}"
        );
    }
    let mut samples: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for round in 0..effort.rounds {
        for contender in all.iter_mut() {
            let contender = contender.as_mut();
            if contender.is_slow() && round >= effort.slow_rounds {
                continue;
            }
            let passes = if contender.is_slow() { 1 } else { PASSES };
            if !contender.is_slow() {
                // The one before it has filled the caches with its own.
                contender.time(*text, 1).expect("a contender that runs");
            }
            let ns = contender.time(*text, passes);
            let ns = ns.expect("a contender that runs");
            samples.entry(contender.name()).or_default().push(ns);
        }
    }
    let isas: Vec<Isa> = Isa::available().collect();
    for isa in isas.iter().rev() {
        let speed = mb_s(*bytes, median(samples[&ours_name(*isa)].clone()));
        summary.put(name, &format!("{isa}, MB/s"), speed);
    }
    for (contender, ns) in &samples {
        let speed = mb_s(*bytes, median(ns.clone()));
        figure(
            &format!("tokens.warm.{vocabulary}.{name}.{contender}.mb_s"),
            speed,
            "MB/s",
        );
        if contender.starts_with("edge") {
            continue;
        }
        for isa in isas.iter().rev() {
            let ratio = ratio(ns, &samples[&ours_name(*isa)]);
            let of = match *isa == Isa::best() {
                true => String::new(),
                false => format!("{isa}."),
            };
            figure_exact(
                &format!("tokens.ratio.{vocabulary}.{name}.{of}vs_{contender}"),
                ratio,
                "times",
            );
            if contender != "gigatoken_list" {
                let column = format!("{isa} / {}", contender.replace('_', " "));
                summary.put(name, &column, ratio);
            }
        }
    }
    if let (Some(with), Some(without)) = (
        samples.get("gigatoken"),
        samples.get("gigatoken_without_ids"),
    ) {
        let share = 100.0 * (1.0 - ratio(without, with));
        figure(
            &format!("tokens.peer.gigatoken.{vocabulary}.{name}.ids_to_python_pct"),
            share,
            "%",
        );
    }
}

/// How many times as long as ours theirs takes: the median over the rounds that both have.
fn ratio(theirs: &[f64], ours: &[f64]) -> f64 {
    median(
        theirs
            .iter()
            .zip(ours)
            .map(|(theirs, ours)| theirs / ours)
            .collect(),
    )
}
