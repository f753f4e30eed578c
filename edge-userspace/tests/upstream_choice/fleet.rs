//! A simulation of upstreams with a KV cache each, event by event, in simulated time.
//!
//! An upstream reads prompts one after the other at its rate, but for what its cache has, and
//! answers for a fixed time then. Its cache holds parts of prompts, the last used; a prompt
//! finds what is there from its first part on. The edge remembers where each prefix of a
//! prompt went, as its slots do, and what is outstanding where, as [`Load`] says.

use edge_userspace::upstream::UpstreamId;
use edge_userspace::upstream::choose::{Load, Random, Set, Wants, Why, choose};
use edge_userspace::upstream::failures::Failures;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// Microseconds of simulated time.
pub(crate) type Us = u64;
pub(crate) const SECOND: Us = 1_000_000;

/// How an upstream is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// As the edge does.
    Edge,
    /// Any of them.
    Random,
    /// Where the prefix is cached, whatever waits there; else as the edge does.
    AnyPrice,
    /// The same; else the one with the smallest cache.
    SmallestCache,
    /// The same; else the first in the list of those with the fewest requests.
    FirstOfEqual,
}

/// By what the edge remembers where a prompt went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// By every beginning of it.
    Prefixes,
    /// By all of it.
    Whole,
}

/// A prompt: its parts, each known by all before it too, and their tokens.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    pub(crate) parts: Vec<(u64, u32)>,
}

impl Prompt {
    pub(crate) fn tokens(&self) -> u32 {
        self.parts.iter().map(|(_, tokens)| tokens).sum()
    }
}

/// What is simulated.
pub(crate) struct Setting {
    pub(crate) policy: Policy,
    pub(crate) memory: Memory,
    /// How long the edge remembers.
    pub(crate) remember: Us,
    pub(crate) upstreams: usize,
    pub(crate) patience_percent: u32,
    pub(crate) running_percent: u32,
    /// Longer for each token that runs there, nanoseconds.
    pub(crate) slower_ns: u64,
    /// One that fails each request at once.
    pub(crate) failing: Option<usize>,
    /// How long a failure counts.
    pub(crate) failure: Us,
    pub(crate) tokens_per_second: u32,
    pub(crate) cache_tokens: u64,
    pub(crate) answer: Us,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            policy: Policy::Edge,
            memory: Memory::Prefixes,
            remember: 3600 * SECOND,
            upstreams: 8,
            patience_percent: 400,
            running_percent: 10,
            slower_ns: 12_000,
            failing: None,
            failure: 5 * SECOND,
            tokens_per_second: 10_000,
            cache_tokens: 4_000_000,
            answer: 3 * SECOND / 2,
        }
    }
}

/// One request that has been answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) at: Us,
    pub(crate) upstream: usize,
    pub(crate) why: Why,
    pub(crate) tokens: u32,
    pub(crate) cached: u32,
    /// From its arrival to the answer's begin.
    pub(crate) first_token: Us,
    pub(crate) whole: Us,
}

#[derive(Default)]
struct Upstream {
    parts: HashMap<u64, (u32, u64)>,
    by_use: BTreeMap<u64, u64>,
    cached_tokens: u64,
    uses: u64,
    read_at: Us,
    requests: u64,
    tokens: u64,
    waiting_tokens: u64,
    failures: Failures,
}

struct Remembered {
    upstream: UpstreamId,
    tokens: u32,
    until: Us,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives(usize),
    Begins(usize),
    Ends(usize),
}

struct Running {
    prompt: Prompt,
    upstream: usize,
    waiting_tokens: u32,
}

/// The upstreams, the edge before them, and the time.
pub(crate) struct Fleet {
    setting: Setting,
    upstreams: Vec<Upstream>,
    usable: Set,
    remembered: HashMap<u64, Remembered>,
    random: Random,
    events: BinaryHeap<Reverse<(Us, u64, Event)>>,
    order: u64,
    running: Vec<Running>,
    prompts: Vec<Option<Prompt>>,
    fixed: HashMap<usize, usize>,
    pub(crate) now: Us,
    pub(crate) served: Vec<Served>,
    pub(crate) failed: usize,
}

impl Fleet {
    pub(crate) fn new(setting: Setting) -> Self {
        let count = setting.upstreams;
        let ids = (0..u16::try_from(count).unwrap()).map(UpstreamId);
        Self {
            upstreams: (0..count).map(|_| Upstream::default()).collect(),
            usable: ids.collect(),
            remembered: HashMap::new(),
            random: Random::new(2026),
            events: BinaryHeap::new(),
            order: 0,
            running: Vec::new(),
            prompts: Vec::new(),
            fixed: HashMap::new(),
            now: 0,
            served: Vec::new(),
            failed: 0,
            setting,
        }
    }

    /// A prompt will come then.
    pub(crate) fn arrives(&mut self, at: Us, prompt: Prompt) {
        self.prompts.push(Some(prompt));
        self.event(at, Event::Arrives(self.prompts.len() - 1));
    }

    /// A prompt will come then, and go to that upstream whatever the policy.
    pub(crate) fn arrives_at(&mut self, upstream: usize, at: Us, prompt: Prompt) {
        self.fixed.insert(self.prompts.len(), upstream);
        self.arrives(at, prompt);
    }

    /// Goes on until nothing happens any more; whenever an answer has ended, `then` is told
    /// the prompt and may have more come.
    pub(crate) fn run(&mut self, mut then: impl FnMut(&mut Self, Prompt)) {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            self.now = at;
            match event {
                Event::Arrives(number) => {
                    let prompt = self.prompts[number].take().unwrap();
                    self.arrived(prompt, self.fixed.get(&number).copied());
                }
                Event::Begins(number) => self.began(number),
                Event::Ends(number) => {
                    let Running {
                        prompt, upstream, ..
                    } = &self.running[number];
                    let (prompt, upstream) = (prompt.clone(), *upstream);
                    self.upstreams[upstream].requests -= 1;
                    self.upstreams[upstream].tokens -= u64::from(prompt.tokens());
                    then(self, prompt);
                }
            }
        }
        for upstream in &self.upstreams {
            let left = (upstream.requests, upstream.tokens, upstream.waiting_tokens);
            assert_eq!(left, (0, 0, 0));
        }
    }

    /// One is gone, with all that it had cached.
    pub(crate) fn kill(&mut self, upstream: usize) {
        let id = id(upstream);
        self.usable = self.usable.without(id);
        self.remembered
            .retain(|_, remembered| remembered.upstream != id);
        let gone = &mut self.upstreams[upstream];
        gone.parts.clear();
        gone.by_use.clear();
        gone.cached_tokens = 0;
    }

    /// It is back, empty.
    pub(crate) fn revive(&mut self, upstream: usize) {
        self.usable = self.usable.with(id(upstream));
    }

    /// It has read that before.
    pub(crate) fn warm(&mut self, upstream: usize, prompt: &Prompt) {
        self.upstreams[upstream].read(prompt, self.setting.cache_tokens);
    }

    fn event(&mut self, at: Us, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn arrived(&mut self, prompt: Prompt, fixed: Option<usize>) {
        let wants = self.wants(&prompt);
        let (to, why) = match fixed {
            Some(to) => (to, Why::Only),
            None => self.choose(&wants),
        };
        let waiting_tokens = match wants.affinity == Some(id(to)) {
            true => wants.warm_tokens(),
            false => wants.input_tokens,
        };
        let (now, rate) = (self.now, u64::from(self.setting.tokens_per_second));
        let upstream = &mut self.upstreams[to];
        if self.setting.failing == Some(to) {
            let keep_ms = self.setting.failure / 1000;
            (upstream.failures).add(wants.input_tokens, now / 1000, keep_ms);
            self.failed += 1;
            return;
        }
        upstream.requests += 1;
        upstream.tokens += u64::from(wants.input_tokens);
        upstream.waiting_tokens += u64::from(waiting_tokens);
        let cached = upstream.read(&prompt, self.setting.cache_tokens);
        let missing = u64::from(wants.input_tokens - cached);
        let read_at = upstream.read_at.max(now) + missing * SECOND / rate;
        upstream.read_at = read_at;
        let answer = self.setting.answer + upstream.tokens * self.setting.slower_ns / 1000;
        self.served.push(Served {
            at: now,
            upstream: to,
            why,
            tokens: wants.input_tokens,
            cached,
            first_token: read_at - now,
            whole: read_at + answer - now,
        });
        let number = self.running.len();
        self.running.push(Running {
            prompt,
            upstream: to,
            waiting_tokens,
        });
        self.event(read_at, Event::Begins(number));
        self.event(read_at + answer, Event::Ends(number));
    }

    fn wants(&self, prompt: &Prompt) -> Wants {
        let mut tokens = prompt.tokens();
        let mut wants = Wants {
            affinity: None,
            prefix_tokens: 0,
            input_tokens: tokens,
            saving_percent: 90,
            patience_percent: self.setting.patience_percent,
            running_percent: self.setting.running_percent,
        };
        for (hash, of_part) in prompt.parts.iter().rev() {
            let known = self.remembered.get(hash);
            if let Some(known) = known.filter(|known| self.now < known.until) {
                assert_eq!(known.tokens, tokens);
                wants.affinity = Some(known.upstream);
                wants.prefix_tokens = tokens;
                break;
            }
            if self.setting.memory == Memory::Whole {
                break;
            }
            tokens -= of_part;
        }
        wants
    }

    fn load(&self, UpstreamId(number): UpstreamId) -> Load {
        let upstream = &self.upstreams[usize::from(number)];
        let failed = (upstream.failures).tokens(self.now / 1000, self.setting.failure / 1000);
        Load {
            tokens: upstream.tokens,
            waiting_tokens: upstream.waiting_tokens,
            failed_tokens: failed,
            tokens_per_second: self.setting.tokens_per_second,
        }
    }

    fn choose(&self, wants: &Wants) -> (usize, Why) {
        let edge = |wants: &Wants| {
            let (to, why) = choose(wants, self.usable, |id| self.load(id), &self.random).unwrap();
            (usize::from(to.0), why)
        };
        let least_by = |key: &dyn Fn(&Upstream) -> u64| {
            let all = self.upstreams.iter().enumerate();
            all.min_by_key(|(_, one)| key(one)).unwrap().0
        };
        let affine = wants.affinity.map(|UpstreamId(number)| usize::from(number));
        match (self.setting.policy, affine) {
            (Policy::Edge, _) => {
                let (to, why) = edge(wants);
                self.check_price(wants, to);
                (to, why)
            }
            (Policy::Random, _) => {
                let count = u32::try_from(self.upstreams.len()).unwrap();
                (self.random.below(count) as usize, Why::Balanced)
            }
            (_, Some(affine)) => (affine, Why::Affinity),
            (Policy::AnyPrice, None) => edge(wants),
            (Policy::SmallestCache, None) => (least_by(&|one| one.cached_tokens), Why::Balanced),
            (Policy::FirstOfEqual, None) => (least_by(&|one| one.requests), Why::Balanced),
        }
    }

    /// Affinity is never broken at a loss.
    fn check_price(&self, wants: &Wants, to: usize) {
        let affine = wants.affinity.filter(|affine| self.usable.has(*affine));
        let Some(affine) = affine.filter(|affine| *affine != id(to)) else {
            return;
        };
        let saves = u64::from(wants.prefix_tokens) * 90 / 100;
        let worth = saves * u64::from(wants.patience_percent) / 100;
        let waits = |id| {
            let load = self.load(id);
            load.waiting_tokens + load.tokens * u64::from(wants.running_percent) / 100
        };
        // Rounded down three times.
        assert!(waits(affine) + 3 > waits(id(to)) + worth);
    }

    fn began(&mut self, number: usize) {
        let Running {
            prompt,
            upstream,
            waiting_tokens,
        } = &self.running[number];
        self.upstreams[*upstream].waiting_tokens -= u64::from(*waiting_tokens);
        if !self.usable.has(id(*upstream)) {
            return;
        }
        let mut tokens = 0;
        for (i, (hash, of_part)) in prompt.parts.iter().enumerate() {
            tokens += of_part;
            if self.setting.memory == Memory::Whole && i + 1 < prompt.parts.len() {
                continue;
            }
            let remembered = Remembered {
                upstream: id(*upstream),
                tokens,
                until: self.now + self.setting.remember,
            };
            self.remembered.insert(*hash, remembered);
        }
    }
}

impl Upstream {
    /// Reads a prompt; how many of its tokens were cached.
    fn read(&mut self, prompt: &Prompt, capacity: u64) -> u32 {
        let known = |(hash, _): &&(u64, u32)| self.parts.contains_key(hash);
        let cached = prompt.parts.iter().take_while(known);
        let cached = cached.map(|(_, tokens)| tokens).sum();
        for (hash, tokens) in prompt.parts.iter().rev() {
            self.uses += 1;
            match self.parts.insert(*hash, (*tokens, self.uses)) {
                Some((_, used)) => {
                    self.by_use.remove(&used);
                }
                None => self.cached_tokens += u64::from(*tokens),
            }
            self.by_use.insert(self.uses, *hash);
        }
        while self.cached_tokens > capacity {
            let (_, hash) = self.by_use.pop_first().unwrap();
            let (tokens, _) = self.parts.remove(&hash).unwrap();
            self.cached_tokens -= u64::from(tokens);
        }
        cached
    }
}

fn id(number: usize) -> UpstreamId {
    UpstreamId(u16::try_from(number).unwrap())
}
