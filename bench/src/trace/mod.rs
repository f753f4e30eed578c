//! Requests of two hours as the table of slots sees them, for replay: who asks at which
//! second, and which prefixes the request has.
//!
//! Four kinds: plug-ins (a fixed system prompt, each time a new question), chats (histories
//! that grow, now and then edited or answered anew), agents (loops of tool calls with
//! sub-agents), and a thousand tenants of all kinds, of whom few ask most (Zipf). What they
//! do is in [`actors`], as fixed numbers; the seeds are here. Both were set before any policy
//! of the table was tuned, and are not to be changed to suit one.
//!
//! Not here: any table.

mod actors;
pub mod random;

use actors::{Kind, World};
use random::Random;

/// How long a trace is, milliseconds.
const DURATION_MS: u64 = 2 * 3600 * 1000;

/// Between conversations of the tenant of [`Trace::fleet`] that asks as often as all others.
const FAVOURITE_GAP_MS: f64 = 3_700.0;

/// Requests in the order of their time, and the tree of their prefixes.
pub struct Trace {
    /// In order.
    pub requests: Vec<Request>,
    /// Of each prefix the one that is a message pair shorter; [`NONE`]: it is a head (tools
    /// and system prompt).
    parents: Vec<u32>,
}

const NONE: u32 = u32::MAX;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Seconds since the trace's start.
    pub at_s: u32,
    /// Whose, by number.
    pub tenant: u32,
    /// All of its messages. What it is found by next time.
    pub prefix: u32,
    /// Its prefix is to be kept for an hour, not for five minutes.
    pub long: bool,
}

impl Trace {
    /// Fifty plug-ins, each with its own system prompt: a question and, of every fifth, a few
    /// more turns.
    #[must_use]
    pub fn plugin() -> Self {
        let mut random = Random::new(0x706c_7567);
        let mut world = World::default();
        for tenant in 0..50 {
            let gap_ms = 1000.0 * 20_f64.powf(random.unit());
            world.source(&mut random, tenant, Kind::Plugin, gap_ms);
        }
        world.run(&mut random, DURATION_MS)
    }

    /// Fifty tenants' chats, five new ones a second.
    #[must_use]
    pub fn chat() -> Self {
        let mut random = Random::new(0x6368_6174);
        let mut world = World::default();
        for tenant in 0..50 {
            world.source(&mut random, tenant, Kind::Chat, 10_000.0);
        }
        world.run(&mut random, DURATION_MS)
    }

    /// Fifty tenants' agents, a new task every two seconds.
    #[must_use]
    pub fn agents() -> Self {
        let mut random = Random::new(0x6167_656e);
        let mut world = World::default();
        for tenant in 0..50 {
            world.source(&mut random, tenant, Kind::Agent, 100_000.0);
        }
        world.run(&mut random, DURATION_MS)
    }

    /// A thousand tenants: four of ten with a plug-in, four with chats, two with agents. The
    /// n-th asks 1/n as often as the first.
    #[must_use]
    pub fn tenants() -> Self {
        let mut random = Random::new(0x7465_6e61);
        let mut world = World::default();
        for tenant in 0..1000_u32 {
            let (kind, first_gap_ms) = match random.below(10) {
                0..4 => (Kind::Plugin, 100.0),
                4..8 => (Kind::Chat, 1_000.0),
                _ => (Kind::Agent, 5_000.0),
            };
            let gap_ms = first_gap_ms * f64::from(tenant + 1);
            world.source(&mut random, tenant, kind, gap_ms);
        }
        world.run(&mut random, DURATION_MS)
    }

    /// Ten minutes of twenty tenants: plug-ins, chats and agents. `has_favourite`: a
    /// twenty-first, whose chats all begin alike, asks as often as all of them, who ask half
    /// as often.
    #[must_use]
    pub fn fleet(has_favourite: bool) -> Self {
        let mut random = Random::new(0x666c_6565);
        let mut world = World::default();
        let slower = if has_favourite { 2.0 } else { 1.0 };
        let kinds = [
            (Kind::Plugin, 8, 12_000.0),
            (Kind::Chat, 8, 40_000.0),
            (Kind::Agent, 4, 150_000.0),
        ];
        let mut tenant = 0;
        for (kind, tenants, gap_ms) in kinds {
            for _ in 0..tenants {
                world.source(&mut random, tenant, kind, gap_ms * slower);
                tenant += 1;
            }
        }
        if has_favourite {
            world.source(&mut random, tenant, Kind::Chat, FAVOURITE_GAP_MS);
        }
        world.run(&mut random, 600 * 1000)
    }

    /// How many prefixes there are; they are numbered from 0.
    #[must_use]
    pub fn prefixes(&self) -> usize {
        self.parents.len()
    }

    /// What a request looks for, in that order: all of its messages (the same was asked
    /// before), what was asked a turn before, and so on to the head.
    pub fn probes(&self, request: Request) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(request.prefix), |prefix| self.parent(*prefix))
    }

    /// The head of a prefix: tools and system prompt alone.
    #[must_use]
    pub fn head(&self, prefix: u32) -> u32 {
        let mut head = prefix;
        while let Some(parent) = self.parent(head) {
            head = parent;
        }
        head
    }

    /// The prefix that is a message pair shorter; none of a head.
    #[must_use]
    pub fn parent(&self, prefix: u32) -> Option<u32> {
        let parent = self.parents[prefix as usize];
        (parent != NONE).then_some(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traces_are_what_they_were_when_the_policy_was_tuned() {
        // What logarithms and cosines are in the last digit is the platform's affair.
        let traces = [
            ("plugin", Trace::plugin(), 0xfb9d_1cc6_fb17_a379_u64),
            ("chat", Trace::chat(), 0x7460_eaea_d216_eb84),
            ("agents", Trace::agents(), 0xf964_514b_8770_f3e0),
            ("tenants", Trace::tenants(), 0x9fda_0ce9_1a44_4855),
        ];
        for (name, trace, expected) in &traces {
            let mut sum = 0;
            for (place, request) in trace.requests.iter().enumerate() {
                let words = [request.at_s, request.tenant, request.prefix];
                for word in words {
                    sum = random::mix(sum ^ u64::from(word)).wrapping_add(place as u64);
                }
                assert!(trace.probes(*request).count() >= 2, "{name}");
                let head = trace.probes(*request).last();
                assert_eq!(head, Some(trace.head(request.prefix)));
            }
            let times = trace.requests.iter().map(|request| request.at_s);
            assert!(times.is_sorted(), "{name}");
            let known = cfg!(all(target_os = "linux", target_arch = "x86_64"));
            assert!(!known || sum == *expected, "{name}: {sum:#x}");
        }
    }
}
