//! Four upstreams that simulate a KV cache each, and what they counted themselves.

use super::conversations::{ANSWER_TOKENS, VOCABULARY};
use edge_userspace::demo_model::{DemoModel, Options, Stats};
use edge_userspace::tokens::Vocabulary;
use std::net::SocketAddr;
use std::time::Duration;

/// How many there are.
pub(crate) const UPSTREAMS: usize = 4;
/// What one reads in a millisecond.
pub(crate) const TOKENS_PER_MS: u64 = 20;
/// What a slow one reads.
const SLOW_TOKENS_PER_MS: u64 = TOKENS_PER_MS / 2;
/// Tokens in the cache of each: all four hold what goes on at a time, one does not.
const KV_CACHE_TOKENS: u64 = 150_000;

/// The upstreams of one run. Dropping it ends them.
pub(crate) struct Fleet {
    models: Vec<Option<DemoModel>>,
    addresses: Vec<SocketAddr>,
    /// Of each, one for every time that it was started.
    stats: Vec<Vec<Stats>>,
    has_slow: bool,
}

/// What one upstream did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) prompts: u64,
    pub(crate) tokens: u64,
    pub(crate) cached: u64,
}

impl Fleet {
    /// Starts them; `has_slow`: the last one reads half as fast.
    pub(crate) fn new(has_slow: bool) -> Self {
        let mut fleet = Self {
            models: Vec::new(),
            addresses: Vec::new(),
            stats: vec![Vec::new(); UPSTREAMS],
            has_slow,
        };
        for number in 0..UPSTREAMS {
            // Addresses of their own: nothing else takes the port while one is away.
            let listen = SocketAddr::from(([127, 77, 0, number as u8 + 1], 0));
            let model = fleet.start(number, listen);
            fleet.addresses.push(model.address());
            fleet.models.push(Some(model));
        }
        fleet
    }

    /// Where they listen.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Kills the last one: its connections break off.
    pub(crate) fn kill_last(&mut self) {
        self.models[UPSTREAMS - 1] = None;
    }

    /// Starts it anew, with nothing in its cache.
    pub(crate) fn restart_last(&mut self) {
        let last = UPSTREAMS - 1;
        self.models[last] = Some(self.start(last, self.addresses[last]));
    }

    /// What each did, over all its lives.
    pub(crate) fn work(&self) -> Vec<Work> {
        let of = |stats: &Vec<Stats>| {
            stats.iter().fold(Work::default(), |sum, stats| {
                let figures = stats.figures();
                Work {
                    prompts: sum.prompts + figures.prompts,
                    tokens: sum.tokens + figures.prompt_tokens,
                    cached: sum.cached + figures.cached_tokens,
                }
            })
        };
        self.stats.iter().map(of).collect()
    }

    fn start(&mut self, number: usize, listen: SocketAddr) -> DemoModel {
        let is_slow = self.has_slow && number == UPSTREAMS - 1;
        let options = Options {
            listen,
            first_token: Duration::ZERO,
            inter_token: Duration::from_millis(10),
            tokens: ANSWER_TOKENS,
            kv_cache_tokens: KV_CACHE_TOKENS,
            prefill_tokens_per_ms: if is_slow {
                SLOW_TOKENS_PER_MS
            } else {
                TOKENS_PER_MS
            },
            vocabulary: Vocabulary::embedded(VOCABULARY),
            ..Options::default()
        };
        let model = DemoModel::start(options).expect("a demo model");
        self.stats[number].push(model.stats().clone());
        model
    }
}
