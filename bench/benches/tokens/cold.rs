//! The first call in a fresh process: nothing is in caches, nothing learnt, no page of the
//! tables touched. Set-up, what comes before a text can be counted at all, is told apart.

use crate::clock::{Moment, mb_s};
use crate::gigatoken::{Gigatoken, Way, rank_file};
use crate::reference::BpeOpenai;
use crate::reference::texts::start;
use crate::summary::Summary;
use crate::texts::Corpus;
use crate::{Effort, child, ours};
use bench::{figure, figure_exact, median};
use edge_userspace::tokens::Isa;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::ExitCode;

/// What a child process found.
#[derive(Clone, Copy, Default)]
struct First {
    set_up_ns: f64,
    count_ns: f64,
    tokens: u64,
}

/// Prints the times and ratios of first calls on one text of each corpus.
pub(crate) fn run(
    vocabulary: &str,
    corpora: &[Corpus],
    size: (&str, usize),
    effort: Effort,
    summary: &mut Summary,
) {
    let (size, bytes) = size;
    let mut set_up: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for corpus in corpora {
        let text = start(&corpus.text, bytes);
        let mut samples: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for _ in 0..effort.cold_rounds {
            let mut expected = None;
            for (who, first) in firsts(vocabulary, text) {
                let first = match first {
                    Ok(first) => first,
                    Err(why) => {
                        println!(
                            "SKIPPED tokens.cold.{vocabulary}.{}.{who}: {why}",
                            corpus.name
                        );
                        continue;
                    }
                };
                let expected = *expected.get_or_insert(first.tokens);
                assert_eq!(
                    first.tokens, expected,
                    "{vocabulary} {}: {who}",
                    corpus.name
                );
                samples.entry(who).or_default().push(first.count_ns);
                set_up.entry(who).or_default().push(first.set_up_ns);
            }
        }
        print(vocabulary, corpus.name, size, text.len(), &samples, summary);
    }
    for (who, ns) in set_up {
        figure(
            &format!("tokens.set_up.{vocabulary}.{who}.us"),
            median(ns) / 1e3,
            "us",
        );
    }
}

fn print(
    vocabulary: &str,
    corpus: &str,
    size: &str,
    bytes: usize,
    samples: &BTreeMap<&str, Vec<f64>>,
    summary: &mut Summary,
) {
    for (who, ns) in samples {
        let ns = median(ns.clone());
        figure(
            &format!("tokens.cold.{vocabulary}.{corpus}.{size}.{who}.mb_s"),
            mb_s(bytes, ns),
            "MB/s",
        );
        figure(
            &format!("tokens.cold.{vocabulary}.{corpus}.{size}.{who}.ns"),
            ns,
            "ns",
        );
    }
    let ours = &samples["edge"];
    for (who, theirs) in samples.iter().filter(|(who, _)| **who != "edge") {
        let ratios = theirs.iter().zip(ours).map(|(theirs, ours)| theirs / ours);
        let ratio = median(ratios.collect());
        figure_exact(
            &format!("tokens.ratio.{vocabulary}.{corpus}.{size}.vs_{who}_cold"),
            ratio,
            "times",
        );
        let who = who.replace('_', " ");
        summary.put(corpus, &format!("cold {size} / {who}"), ratio);
    }
}

/// One fresh process each.
fn firsts(vocabulary: &str, text: &str) -> Vec<(&'static str, Result<First, String>)> {
    let mut firsts = vec![("edge", fresh("edge", vocabulary, text))];
    if vocabulary != "claude-2" {
        firsts.push(("bpe_openai", fresh("bpe_openai", vocabulary, text)));
    }
    firsts.push(("gigatoken", gigatoken(vocabulary, text)));
    firsts
}

fn gigatoken(vocabulary: &str, text: &str) -> Result<First, String> {
    let (file, pattern) = rank_file(vocabulary)?;
    let mut process = Gigatoken::start(&file, pattern)?;
    let number = process.load(text.as_bytes())?;
    Ok(First {
        count_ns: process.time(number, Way::Encode, 1)?,
        tokens: process.count(number)?,
        set_up_ns: process.load_ns as f64,
    })
}

fn fresh(who: &str, vocabulary: &str, text: &str) -> Result<First, String> {
    let numbers = child::numbers(&format!("cold {who} {vocabulary}"), text)?;
    match numbers[..] {
        [set_up_ns, count_ns, tokens] => Ok(First {
            set_up_ns: set_up_ns as f64,
            count_ns: count_ns as f64,
            tokens,
        }),
        _ => Err(format!("{numbers:?}")),
    }
}

/// What the child process does.
pub(crate) fn as_child(who: &str, vocabulary: &str) -> Option<ExitCode> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).ok()?;
    let began = Moment::now();
    let mut count: Box<dyn FnMut(&str) -> u64> = match who {
        "edge" => {
            let mut counter = ours::counter(vocabulary, Isa::detect());
            Box::new(move |text| counter.count(text.as_bytes()))
        }
        _ => {
            let peer = BpeOpenai::new(vocabulary)?;
            Box::new(move |text| peer.count(text))
        }
    };
    let set_up = began.elapsed();
    let began = Moment::now();
    let tokens = count(&text);
    let took = began.elapsed();
    println!("{} {} {tokens}", set_up.as_nanos(), took.as_nanos());
    Some(ExitCode::SUCCESS)
}
