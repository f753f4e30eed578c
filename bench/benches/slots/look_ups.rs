//! One thread that looks up.

use crate::contexts::{AHEAD, Contexts, Hashed, each, entry};
use crate::tables::{DashMap, Direct, Moka, Papaya, QuickCache, Table};
use crate::{Effort, allocations};
use bench::{figure, figure_exact, median};
use edge_userspace::context::slots::Slots;
use edge_userspace::context::{Entry, Fingerprint, Key};
use std::collections::BTreeMap;

/// Prints what a look-up takes with these contexts.
pub(crate) fn run(size: &str, contexts: &Contexts, effort: Effort) {
    let mut memory = Vec::new();
    let ours = weighed::<Slots>(contexts, &mut memory);
    let papaya = weighed::<Papaya>(contexts, &mut memory);
    let quick_cache = weighed::<QuickCache>(contexts, &mut memory);
    let dashmap = weighed::<DashMap>(contexts, &mut memory);
    let moka = weighed::<Moka>(contexts, &mut memory);
    let direct = Direct::full(contexts);
    let in_direct = (contexts.keys.iter()).filter(|key| direct.find(key).is_some());
    let all = contexts.keys.len();
    println!(
        "{size}: {all} contexts; in `direct` {}; bytes of others a context: {}",
        in_direct.count(),
        memory.join(", ")
    );

    let mut samples: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut ratios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 0..effort.rounds {
        let order = contexts.order(effort.look_ups + AHEAD, round as u64);
        let run = Run { contexts, order };
        let mut note = |name, ns| {
            samples.entry(name).or_default().push(ns);
        };
        note("null", run.time::<true>(|key| Some(null(key))));
        let before = allocations::calls();
        let hit = run.of::<Slots, true>(&ours);
        let independent = run.of::<Slots, false>(&ours);
        let miss = run.misses(&ours);
        assert_eq!(allocations::calls(), before, "a look-up allocated");
        note("slots", hit);
        note("independent", independent);
        note("miss", miss);
        note("direct", run.of_direct(&direct));
        let peers = [
            ("papaya", run.of::<Papaya, true>(&papaya)),
            ("quick_cache", run.of::<QuickCache, true>(&quick_cache)),
            ("dashmap", run.of::<DashMap, true>(&dashmap)),
            ("moka", run.of::<Moka, true>(&moka)),
        ];
        for (name, ns) in peers {
            note(name, ns);
            ratios.entry(name).or_default().push(ns / hit);
        }
    }
    for (name, samples) in samples {
        let ns = median(samples);
        match (name, size) {
            ("slots", "1m") => figure("slots.hit_dram_ns", ns, "ns"),
            ("slots", _) => figure(&format!("slots.hit_{size}_ns"), ns, "ns"),
            ("miss", "l1") => figure("slots.miss_ns", ns, "ns"),
            _ => figure(&format!("slots.{size}.{name}_ns"), ns, "ns"),
        }
    }
    for (peer, ratios) in ratios {
        let name = format!("slots.ratio.{size}.vs_{peer}");
        figure_exact(&name, median(ratios), "times");
    }
}

/// A full table; what it allocated is noted. (Ours is mapped, and as large as it says.)
fn weighed<T: Table>(contexts: &Contexts, memory: &mut Vec<String>) -> T {
    let before = allocations::bytes();
    let table = T::full(contexts);
    let bytes = allocations::bytes().saturating_sub(before);
    if T::NAME != <Slots as Table>::NAME {
        memory.push(format!("{} {}", T::NAME, bytes / contexts.keys.len()));
    }
    for (number, key) in contexts.keys.iter().enumerate() {
        assert_eq!(table.find(key), Some(entry(number)), "{}", T::NAME);
    }
    table
}

/// What comes before the table: the key's word, made dependent on the one before.
fn null(key: &Hashed) -> Entry {
    Entry {
        exact: key.0.fingerprint.words()[0] >> 24,
        ..entry(0)
    }
}

/// The look-ups of a round.
struct Run<'contexts> {
    contexts: &'contexts Contexts,
    order: Vec<u32>,
}

impl Run<'_> {
    fn of<T: Table, const DEPENDENT: bool>(&self, table: &T) -> f64 {
        // What the table before left in the caches is no part of it.
        let warm = self.order.len().min(4 * self.contexts.keys.len());
        let found = (self.order[..warm].iter())
            .filter_map(|number| table.find(&self.contexts.keys[*number as usize]));
        assert_eq!(found.count(), warm);
        let (ns, sum) = each::<DEPENDENT>(self.contexts, &self.order, |key| table.find(key));
        assert_eq!(sum, self.sum(|_| true), "{} found something else", T::NAME);
        ns
    }

    /// Of one that does not have all.
    fn of_direct(&self, table: &Direct) -> f64 {
        let expected = self.sum(|key| table.find(key).is_some());
        let (ns, sum) = each::<true>(self.contexts, &self.order, |key| table.find(key));
        assert_eq!(sum, expected, "direct found something else");
        ns
    }

    /// What finding those that are there must add up to.
    fn sum(&self, is_there: impl Fn(&Hashed) -> bool) -> u64 {
        let numbers = &self.order[..self.order.len() - AHEAD];
        let found =
            (numbers.iter()).filter(|number| is_there(&self.contexts.keys[**number as usize]));
        found.map(|number| u64::from(*number) + 1).sum()
    }

    fn time<const DEPENDENT: bool>(&self, find: impl Fn(&Hashed) -> Option<Entry>) -> f64 {
        each::<DEPENDENT>(self.contexts, &self.order, find).0
    }

    /// Keys that were never put in.
    fn misses(&self, table: &Slots) -> f64 {
        let (ns, sum) = each::<false>(self.contexts, &self.order, |key| {
            let [first, second] = key.0.fingerprint.words();
            let absent = Hashed(Key {
                fingerprint: Fingerprint::new([first ^ (1 << 40), second]),
                ..key.0
            });
            Table::find(table, &absent)
        });
        assert_eq!(sum, 0);
        ns
    }
}
