//! Hit rates on the traces, beside a table without an end and one that forgets what was not
//! used for longest.
//!
//! A turn is a hit when it finds the longest prefix of it that was ever asked: what a client
//! went on from. Turns of which nothing was asked before cannot hit and do not count. All
//! tables forget after the same times.

use bench::trace::random::mix;
use bench::trace::{Request, Trace};
use bench::{figure, figure_exact};
use edge_userspace::context::slots::{Sizes, Slots};
use edge_userspace::context::{ContextId, Entry, Fingerprint, Key, Tenant};
use edge_userspace::upstream::UpstreamId;
use std::collections::{BTreeMap, HashMap};

/// Assumed lengths, of which "what affinity saved" is made.
const HEAD_TOKENS: u64 = 2_000;
const TURN_TOKENS: u64 = 400;

/// Prints hit rates.
pub(crate) fn run(all: bool) {
    type Make = fn() -> Trace;
    let traces: [(&str, Make); 4] = [
        ("plugin", Trace::plugin),
        ("chat", Trace::chat),
        ("agents", Trace::agents),
        ("tenants", Trace::tenants),
    ];
    for (name, make) in traces.into_iter().take(if all { 4 } else { 1 }) {
        one(name, &make());
    }
}

fn one(name: &str, trace: &Trace) {
    let infinite = Replay::new(trace, Lru::new(usize::MAX));
    let working_set = infinite.cache.most;
    let name = |what: &str| format!("slots.trace.{name}.{what}");
    let default = Sizes::default().bytes / 64;
    figure(&name("working_set"), working_set as f64, "slots");
    let (rate, saved) = infinite.rates();
    figure_exact(&name("infinite_pct"), rate, "%");
    figure_exact(&name("infinite_saved_pct"), saved, "%");
    let (rate, saved) = Replay::new(trace, slots(default)).rates();
    figure_exact(&name("hit_pct"), rate, "%");
    figure_exact(&name("saved_pct"), saved, "%");
    let (rate, _) = Replay::new(trace, Lru::new(default)).rates();
    figure_exact(&name("lru_pct"), rate, "%");
    // The nearest size that the table can have.
    let tenth = 1 << (working_set as f64 / 10.0).log2().round() as u32;
    let share = tenth as f64 * 100.0 / working_set as f64;
    figure(&name("tenth.size_pct"), share, "%");
    let (ours, _) = Replay::new(trace, slots(tenth)).rates();
    let (lru, _) = Replay::new(trace, Lru::new(tenth)).rates();
    figure_exact(&name("tenth.hit_pct"), ours, "%");
    figure_exact(&name("tenth.lru_pct"), lru, "%");
    figure_exact(&name("tenth.vs_lru"), ours / lru, "times");
}

fn slots(number: usize) -> Slots {
    let sizes = Sizes {
        bytes: number * 64,
        ..Sizes::default()
    };
    Slots::new(&sizes, 1).expect("memory")
}

/// What is replayed against.
trait Cache {
    fn find(&mut self, tenant: u32, prefix: u32, now_s: u32) -> bool;
    /// Whether it is there, without a use.
    fn has(&self, tenant: u32, prefix: u32, now_s: u32) -> bool;
    fn put(&mut self, tenant: u32, prefix: u32, long: bool, now_s: u32);
}

/// A trace that was replayed.
struct Replay<C> {
    cache: C,
    turns: u64,
    hits: u64,
    tokens: u64,
    tokens_found: u64,
}

impl<C: Cache> Replay<C> {
    fn new(trace: &Trace, cache: C) -> Self {
        let mut replay = Self {
            cache,
            turns: 0,
            hits: 0,
            tokens: 0,
            tokens_found: 0,
        };
        let mut asked = vec![false; trace.prefixes()];
        for request in &trace.requests {
            replay.request(trace, *request, &mut asked);
        }
        replay
    }

    fn request(&mut self, trace: &Trace, request: Request, asked: &mut [bool]) {
        let Request {
            tenant,
            prefix,
            at_s,
            long,
        } = request;
        let longest = trace.probes(request).find(|prefix| asked[*prefix as usize]);
        let found = (trace.probes(request)).find(|prefix| self.cache.find(tenant, *prefix, at_s));
        let head = trace.head(prefix);
        if longest.is_some() {
            self.turns += 1;
            self.hits += u64::from(found == longest);
            let tokens = |from| {
                let of = Request {
                    prefix: from,
                    ..request
                };
                let turns = trace.probes(of).count() as u64 - 1;
                HEAD_TOKENS + turns * TURN_TOKENS
            };
            self.tokens += tokens(prefix);
            self.tokens_found += found.map_or(0, tokens);
        }
        // The head is kept again only when it is no longer there.
        for kept in [prefix, head] {
            asked[kept as usize] = true;
            if kept == prefix || !self.cache.has(tenant, kept, at_s) {
                self.cache.put(tenant, kept, long, at_s);
            }
        }
    }

    /// Hits of all turns that could hit, and prompt tokens found of all, per cent.
    fn rates(&self) -> (f64, f64) {
        let per_cent = |part: u64, whole: u64| 100.0 * part as f64 / whole as f64;
        let hits = per_cent(self.hits, self.turns);
        (hits, per_cent(self.tokens_found, self.tokens))
    }
}

impl Cache for Slots {
    fn find(&mut self, tenant: u32, prefix: u32, now_s: u32) -> bool {
        Self::find(self, &key(tenant, prefix), now_s).is_some()
    }

    fn has(&self, tenant: u32, prefix: u32, now_s: u32) -> bool {
        self.peek(&key(tenant, prefix), now_s).is_some()
    }

    fn put(&mut self, tenant: u32, prefix: u32, long: bool, now_s: u32) {
        let entry = Entry {
            upstream: UpstreamId(0),
            tokens: prefix,
            exact: 0,
            long,
        };
        self.commit(&key(tenant, prefix), entry, now_s);
    }
}

fn key(tenant: u32, prefix: u32) -> Key {
    let prefix = u64::from(prefix);
    Key {
        tenant: Tenant(mix(u64::from(tenant) + 1)),
        context: ContextId::NONE,
        fingerprint: Fingerprint::new([mix(2 * prefix + 1), mix(2 * prefix + 2)]),
    }
}

/// Keeps what was used last.
struct Lru {
    capacity: usize,
    /// Of a prefix: when it was used, by the count of uses, when it expires and after how long.
    held: HashMap<u32, (u64, u32, u32)>,
    by_use: BTreeMap<u64, u32>,
    uses: u64,
    /// Most that were live at a time; looked at every minute.
    most: usize,
    looked_s: u32,
}

impl Lru {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            held: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            most: 0,
            looked_s: 0,
        }
    }

    fn keep(&mut self, prefix: u32, ttl_s: u32, now_s: u32) {
        self.uses += 1;
        self.by_use.insert(self.uses, prefix);
        let before = (self.held).insert(prefix, (self.uses, now_s + ttl_s, ttl_s));
        if let Some((use_before, ..)) = before {
            self.by_use.remove(&use_before);
        }
    }
}

impl Cache for Lru {
    fn find(&mut self, tenant: u32, prefix: u32, now_s: u32) -> bool {
        let found = self.has(tenant, prefix, now_s);
        if found {
            let ttl_s = self.held[&prefix].2;
            self.keep(prefix, ttl_s, now_s);
        }
        found
    }

    fn has(&self, _: u32, prefix: u32, now_s: u32) -> bool {
        (self.held.get(&prefix)).is_some_and(|(_, expires_s, _)| now_s < *expires_s)
    }

    fn put(&mut self, _: u32, prefix: u32, long: bool, now_s: u32) {
        self.keep(prefix, if long { 3600 } else { 300 }, now_s);
        if self.held.len() > self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.held.remove(&oldest);
        }
        if self.capacity == usize::MAX && now_s >= self.looked_s + 60 {
            self.looked_s = now_s;
            let by_use = &mut self.by_use;
            self.held.retain(|_, (used, expires_s, _)| {
                let live = now_s < *expires_s;
                if !live {
                    by_use.remove(used);
                }
                live
            });
            self.most = self.most.max(self.held.len());
        }
    }
}
