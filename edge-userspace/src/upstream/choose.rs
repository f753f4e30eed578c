//! Which of several upstreams a request goes to: a pure function of what is outstanding at
//! each, so that it can be simulated.
//!
//! A request goes to where its beginning is cached. It breaks away when another, the less busy
//! of two that are drawn, would have read it so much earlier that it is more than the request's
//! patience: a multiple of what the cache saves, because what is read anew elsewhere keeps
//! others waiting there, who then break away too. Without such a place the less busy of two
//! that are drawn gets it. The reasons, with figures, are in docs/context.md. Not here: who
//! takes requests at all ([`super::Upstreams`]).

use super::UpstreamId;
use std::cell::Cell;

/// What is outstanding at an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Tokens of the prompts of all running requests.
    pub tokens: u64,
    /// Those of them that are believed to be still read before an answer begins: what is in
    /// the upstream's cache is not among them.
    pub waiting_tokens: u64,
    /// Tokens of requests that it failed a little while ago. They count where a request is to
    /// be read anew, not where its beginning is cached: who is there is told by its own
    /// requests whether they are answered, and must not be driven away by another's.
    pub failed_tokens: u64,
    /// How many it reads in a second; not 0.
    pub tokens_per_second: u32,
}

/// What a request asks of the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Wants {
    /// Where its beginning is cached.
    pub affinity: Option<UpstreamId>,
    /// How many of its tokens that beginning has.
    pub prefix_tokens: u32,
    /// How many it has in all.
    pub input_tokens: u32,
    /// What a cached token saves, per cent of one that must be read; at most 100.
    pub saving_percent: u32,
    /// How long a request waits for its cache, per cent of what that saves.
    pub patience_percent: u32,
    /// What a token of a running request costs a new one, per cent of one that waits.
    pub running_percent: u32,
}

/// Why a request goes where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its beginning is cached there, and the wait is within its patience.
    Affinity,
    /// Of two that were drawn this one had less outstanding.
    Balanced,
    /// The wait where its beginning is cached is beyond its patience.
    BrokenAffinity,
    /// Where its beginning was cached, nothing is taken now.
    LostAffinity,
    /// No other takes it.
    Only,
    /// It is to find out whether an ejected one takes connections again.
    Probe,
    /// Another could not be connected to.
    Retry,
}

impl Why {
    /// All of them, in order of their number.
    pub const ALL: [Self; 7] = [
        Self::Affinity,
        Self::Balanced,
        Self::BrokenAffinity,
        Self::LostAffinity,
        Self::Only,
        Self::Probe,
        Self::Retry,
    ];

    /// As metrics have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Affinity => "affinity",
            Self::Balanced => "balanced",
            Self::BrokenAffinity => "broken_affinity",
            Self::LostAffinity => "lost_affinity",
            Self::Only => "only",
            Self::Probe => "probe",
            Self::Retry => "retry",
        }
    }
}

/// Some of the upstreams, of which there are at most 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Set(u64);

impl Set {
    /// With one more.
    #[must_use]
    pub fn with(self, id: UpstreamId) -> Self {
        Self(self.0 | Self::bit(id))
    }

    /// Without one.
    #[must_use]
    pub fn without(self, id: UpstreamId) -> Self {
        Self(self.0 & !Self::bit(id))
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn has(self, id: UpstreamId) -> bool {
        self.0 & Self::bit(id) != 0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many.
    #[must_use]
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Each of them, the first of the list first.
    pub fn iter(self) -> impl Iterator<Item = UpstreamId> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let first = u16::try_from(rest.trailing_zeros()).ok();
            let first = first.filter(|_| rest != 0)?;
            rest &= rest - 1;
            Some(UpstreamId(first))
        })
    }

    fn bit(id: UpstreamId) -> u64 {
        1_u64.checked_shl(id.0.into()).unwrap_or(0)
    }

    /// One of them, each as likely.
    fn draw(self, random: &Random) -> Option<UpstreamId> {
        (!self.is_empty()).then(|| self.iter().nth(random.below(self.len()) as usize))?
    }
}

impl FromIterator<UpstreamId> for Set {
    fn from_iter<T: IntoIterator<Item = UpstreamId>>(ids: T) -> Self {
        ids.into_iter().fold(Self::default(), Self::with)
    }
}

/// A cheap generator for draws among upstreams (SplitMix64); nothing secret hangs on it.
#[derive(Debug)]
pub struct Random(Cell<u64>);

impl Random {
    /// The same seed gives the same numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    /// The next one.
    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One below `end`, which is not 0; each is as likely but for one in 2^32.
    pub fn below(&self, end: u32) -> u32 {
        (((self.next() >> 32) * u64::from(end)) >> 32) as u32
    }
}

/// Chooses among `usable`; none when that is empty.
pub fn choose(
    wants: &Wants,
    usable: Set,
    loads: impl Fn(UpstreamId) -> Load,
    random: &Random,
) -> Option<(UpstreamId, Why)> {
    let Some(affine) = wants.affinity else {
        let why = match usable.len() {
            1 => Why::Only,
            _ => Why::Balanced,
        };
        return Some((balanced(usable, &loads, random)?, why));
    };
    if !usable.has(affine) {
        return Some((balanced(usable, &loads, random)?, Why::LostAffinity));
    }
    let (warm_us, saved_us) = wants.warm_us(&loads(affine));
    // What must be read anew elsewhere keeps others waiting there.
    let more_us = saved_us * (i64::from(wants.patience_percent) - 100) / 100;
    // Two that are drawn stand for the others: with the cheapest of all for a measure, many
    // upstreams would break affinities by chance that few keep.
    let other = balanced(usable.without(affine), &loads, random);
    let is_cheaper = |other: &UpstreamId| {
        let load = loads(*other);
        let failed_us = us(load.failed_tokens, load.tokens_per_second);
        wants.cold_us(&load) + failed_us + more_us < warm_us
    };
    Some(match other.filter(is_cheaper) {
        Some(other) => (other, Why::BrokenAffinity),
        None => (affine, Why::Affinity),
    })
}

/// Of two that are drawn the one with less outstanding, measured by its rate.
fn balanced(
    among: Set,
    loads: &impl Fn(UpstreamId) -> Load,
    random: &Random,
) -> Option<UpstreamId> {
    let one = among.draw(random)?;
    let Some(other) = among.without(one).draw(random) else {
        return Some(one);
    };
    let busy = |id| {
        let load = loads(id);
        let tokens = load.tokens.saturating_add(load.failed_tokens);
        us(tokens, load.tokens_per_second)
    };
    // Equal ones: the first that was drawn, so none is preferred.
    Some(if busy(other) < busy(one) { other } else { one })
}

impl Wants {
    /// Tokens that are to be read where the beginning is cached.
    #[must_use]
    pub fn warm_tokens(&self) -> u32 {
        self.input_tokens - self.saved_tokens()
    }

    fn saved_tokens(&self) -> u32 {
        let cached = self.prefix_tokens.min(self.input_tokens);
        let saved = u64::from(cached) * u64::from(self.saving_percent.min(100)) / 100;
        u32::try_from(saved).unwrap_or(cached)
    }

    /// When it would have been read where the beginning is cached, and what that saves there.
    fn warm_us(&self, load: &Load) -> (i64, i64) {
        let saved_us = us(self.saved_tokens().into(), load.tokens_per_second);
        (self.cold_us(load) - saved_us, saved_us)
    }

    /// The same elsewhere.
    fn cold_us(&self, load: &Load) -> i64 {
        let running = load.tokens.saturating_mul(self.running_percent.into()) / 100;
        let before = load.waiting_tokens.saturating_add(running);
        let tokens = before.saturating_add(self.input_tokens.into());
        us(tokens, load.tokens_per_second)
    }
}

/// About 3,000 years.
const MOST_US: i64 = i64::MAX / 100;

/// How long `tokens` take.
fn us(tokens: u64, per_second: u32) -> i64 {
    let us = u128::from(tokens) * 1_000_000 / u128::from(per_second.max(1));
    // A part of the range, so that sums and products with per cents fit too.
    i64::try_from(us).unwrap_or(i64::MAX).min(MOST_US)
}

#[cfg(test)]
mod tests;
