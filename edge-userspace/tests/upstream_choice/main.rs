//! How upstreams are chosen, over hours of simulated load: conversations find their cache,
//! misses spread, and nobody waits for a cache longer than it saves. What other balancers were
//! reported to do is simulated too, so that the tests are seen to tell the two apart.

mod fleet;

use edge_userspace::upstream::Why;
use edge_userspace::upstream::choose::Random;
use fleet::{Fleet, Memory, Policy, Prompt, SECOND, Served, Setting, Us};

/// Conversations: when they begin, how they grow, how long people think.
struct Chat {
    conversations: u64,
    /// Between two beginnings on average.
    every: Us,
    turns: usize,
    /// Tokens that all conversations begin with.
    system: u32,
    /// Tokens of a message, and up to as many more.
    message: u32,
    /// Between an answer's end and the next turn, and up to as much more.
    think: Us,
}

const CHAT: Chat = Chat {
    conversations: 1500,
    every: SECOND / 4,
    turns: 8,
    system: 0,
    message: 1000,
    think: 10 * SECOND,
};

impl Chat {
    /// What each policy does with the same conversations.
    fn with(&self, setting: Setting) -> Vec<Served> {
        let random = Random::new(1);
        let mut fleet = Fleet::new(setting);
        self.begin(&mut fleet, &random);
        let thinking = Random::new(2);
        fleet.run(|fleet, prompt| self.next(fleet, prompt, &thinking));
        fleet.served
    }

    fn begin(&self, fleet: &mut Fleet, random: &Random) {
        let mut at = 0;
        for conversation in 0..self.conversations {
            at += up_to(random, 2 * self.every);
            let mut parts = vec![(conversation << 16 | 1, self.message_tokens(conversation, 1))];
            if self.system > 0 {
                parts.insert(0, (u64::MAX, self.system));
            }
            fleet.arrives(at, Prompt { parts });
        }
    }

    /// The answer and the next question.
    fn next(&self, fleet: &mut Fleet, mut prompt: Prompt, random: &Random) {
        let (last, _) = *prompt.parts.last().unwrap();
        let (conversation, turn) = (last >> 16, last & 0xffff);
        if turn as usize >= self.turns {
            return;
        }
        let tokens = self.message_tokens(conversation, turn + 1);
        prompt.parts.push((last + 1, tokens));
        fleet.arrives(fleet.now + self.think + up_to(random, self.think), prompt);
    }

    /// The same whatever the policy, and whenever it comes.
    fn message_tokens(&self, conversation: u64, turn: u64) -> u32 {
        let random = Random::new(conversation << 16 | turn);
        self.message + random.below(self.message)
    }
}

fn up_to(random: &Random, most: Us) -> Us {
    u64::from(random.below(u32::try_from(most).unwrap()))
}

/// Per cent of all tokens that were cached.
fn cached_percent(served: &[Served]) -> u64 {
    let all: u64 = served.iter().map(|one| u64::from(one.tokens)).sum();
    let cached: u64 = served.iter().map(|one| u64::from(one.cached)).sum();
    cached * 100 / all
}

/// Milliseconds from arrival to the answer's begin: the mean, and what one in a hundred
/// exceeds.
fn first_token_ms(served: &[Served]) -> (u64, u64) {
    mean_and_worst(served, |one| one.first_token)
}

fn mean_and_worst(served: &[Served], of: fn(&Served) -> Us) -> (u64, u64) {
    let mut all: Vec<_> = served.iter().map(|one| of(one) / 1000).collect();
    all.sort_unstable();
    let mean = all.iter().sum::<u64>() / all.len() as u64;
    (mean, all[all.len() * 99 / 100])
}

/// The same to the answer's end.
fn whole_ms(served: &[Served]) -> (u64, u64) {
    mean_and_worst(served, |one| one.whole)
}

/// How many each upstream got.
fn shares(served: &[Served], upstreams: usize) -> Vec<usize> {
    let mut shares = vec![0; upstreams];
    for one in served {
        shares[one.upstream] += 1;
    }
    shares
}

fn are_even(shares: &[usize], tolerance_percent: usize) -> bool {
    let mean = shares.iter().sum::<usize>() / shares.len();
    let off = |share: &usize| share.abs_diff(mean) * 100 <= mean * tolerance_percent;
    shares.iter().all(off)
}

fn with(policy: Policy) -> Setting {
    Setting {
        policy,
        ..Setting::default()
    }
}

#[test]
fn conversations_find_their_cache_at_any_load_in_fleets_of_any_size() {
    for upstreams in [2, 8, 24] {
        // From half to nine tenths of what they can do when everything is found.
        for every_ms in [330, 170] {
            let chat = Chat {
                every: every_ms * 8000 / upstreams as u64,
                conversations: 200 * upstreams as u64,
                ..CHAT
            };
            let of = |policy| {
                chat.with(Setting {
                    upstreams,
                    ..with(policy)
                })
            };
            let [edge, any_price] = [Policy::Edge, Policy::AnyPrice].map(of);
            let all = cached_percent(&any_price);
            let cached = cached_percent(&edge);
            assert!(all >= 76 && cached >= all - 3, "{cached} of {all} %");
            let [edge_ms, any_price_ms] = [&edge, &any_price].map(|served| first_token_ms(served));
            let seen = format!("{upstreams}, {every_ms} ms: {edge_ms:?}, {any_price_ms:?}");
            assert!(edge_ms.0 * 10 <= any_price_ms.0 * 15, "{seen}");
            let [whole, any_price] = [&edge, &any_price].map(|served| whole_ms(served).1);
            assert!(whole * 10 <= any_price * 11, "{seen}: {whole} {any_price}");
            if upstreams == 8 {
                let random_ms = first_token_ms(&of(Policy::Random));
                assert!(edge_ms.0 * 20 < random_ms.0, "{seen}, {random_ms:?}");
            }
            let shares = shares(&edge, upstreams);
            assert!(are_even(&shares, 20), "{seen}, {shares:?}");
        }
    }
}

/// The obvious rule: to break away as soon as the wait is longer than what the cache saves.
/// Whoever breaks away has more read, so that more break away.
#[test]
fn to_wait_no_longer_than_the_cache_saves_is_a_death_spiral() {
    let chat = Chat {
        every: 220_000,
        ..CHAT
    };
    let hasty = chat.with(Setting {
        patience_percent: 100,
        ..Setting::default()
    });
    let edge = chat.with(Setting::default());
    let (hasty_ms, edge_ms) = (first_token_ms(&hasty), first_token_ms(&edge));
    assert!(hasty_ms.0 > 5 * edge_ms.0, "{hasty_ms:?} {edge_ms:?}");
    assert!(cached_percent(&hasty) + 10 < cached_percent(&edge));
}

/// One beginning that all share, such as a plug-in's instructions, and no two turns.
#[test]
fn what_all_begin_with_is_no_reason_to_crowd_one_upstream() {
    for every_ms in [100, 50, 20] {
        let plug_in = Chat {
            conversations: 5000,
            every: every_ms * 1000,
            turns: 1,
            system: 8000,
            message: 100,
            think: 0,
        };
        let edge = plug_in.with(with(Policy::Edge));
        let crowd = plug_in.with(with(Policy::AnyPrice));
        assert!(cached_percent(&edge) >= 97);
        let most = |served: &[Served]| shares(served, 8).into_iter().max().unwrap();
        assert!(most(&edge) < 5000 / 4, "{:?}", shares(&edge, 8));
        assert!(most(&crowd) > 4000, "the simulation tells them apart");
        assert!(whole_ms(&edge).1 * 5 < whole_ms(&crowd).1);
    }
}

/// Reported of a balancer (sglang 32983): every miss went to the same replica.
#[test]
fn misses_spread_also_when_all_are_idle() {
    for every_ms in [2000, 150, 100] {
        let misses = Chat {
            conversations: 3000,
            every: every_ms * 1000,
            turns: 1,
            system: 0,
            message: 4000,
            think: 0,
        };
        let edge = shares(&misses.with(with(Policy::Edge)), 8);
        assert!(are_even(&edge, 15), "{every_ms}: {edge:?}");
        if every_ms == 2000 {
            let first = shares(&misses.with(with(Policy::FirstOfEqual)), 8);
            assert!(first[0] > 1500 && first[7] == 0, "{first:?}");
        }
    }
}

/// Reported of a balancer (sglang 14305): a replica that is stuck with long prompts of its own
/// has little in its cache, and got every miss for that.
#[test]
fn a_busy_upstream_gets_no_misses_for_its_small_cache() {
    let stuck = |policy| {
        let mut fleet = Fleet::new(with(policy));
        // Everyone but the first has much in its cache, and rests.
        for number in 1..8 {
            let parts = vec![(1 << 40 | number as u64, 2_000_000)];
            fleet.warm(number, &Prompt { parts });
        }
        // The first reads for 50 seconds.
        for number in 0..5 {
            let parts = vec![(1 << 41 | number, 100_000)];
            fleet.arrives_at(0, 0, Prompt { parts });
        }
        for number in 0..1000 {
            let parts = vec![(number, 200)];
            fleet.arrives(10_000 * number + 1, Prompt { parts });
        }
        fleet.run(|_, _| {});
        let misses: Vec<_> = fleet
            .served
            .into_iter()
            .filter(|one| one.tokens == 200)
            .collect();
        shares(&misses, 8)
    };
    let edge = stuck(Policy::Edge);
    assert_eq!(edge[0], 0, "{edge:?}");
    assert!(are_even(&edge[1..], 30), "{edge:?}");
    assert_eq!(stuck(Policy::SmallestCache)[0], 1000);
}

/// Reported of a gateway (litellm 16951): by all messages together no next turn is known.
#[test]
fn the_next_turn_is_known_by_its_beginning() {
    let chat = Chat {
        conversations: 300,
        ..CHAT
    };
    let known = |memory| {
        let served = chat.with(Setting {
            memory,
            ..Setting::default()
        });
        let later = served.len() - 300;
        let known = served
            .iter()
            .filter(|one| matches!(one.why, Why::Affinity | Why::BrokenAffinity));
        (known.count(), later)
    };
    let (with_prefixes, later) = known(Memory::Prefixes);
    assert_eq!(with_prefixes, later);
    assert_eq!(known(Memory::Whole).0, 0);
}

/// Reported of a gateway (litellm 28427): what is cached for an hour was forgotten after five
/// minutes.
#[test]
fn what_is_cached_for_an_hour_is_known_after_ten_minutes() {
    let chat = Chat {
        conversations: 300,
        think: 600 * SECOND,
        ..CHAT
    };
    let cached = |remember| {
        cached_percent(&chat.with(Setting {
            remember,
            ..Setting::default()
        }))
    };
    assert!(cached(3600 * SECOND) > 70);
    assert!(cached(300 * SECOND) < 30);
}

/// One that fails each request at once has nothing outstanding.
#[test]
fn one_that_fails_at_once_does_not_draw_all_requests() {
    let misses = Chat {
        conversations: 3000,
        every: 150_000,
        turns: 1,
        system: 0,
        message: 4000,
        think: 0,
    };
    let failed = |failure| {
        let mut fleet = Fleet::new(Setting {
            failing: Some(5),
            failure,
            ..Setting::default()
        });
        misses.begin(&mut fleet, &Random::new(1));
        fleet.run(|_, _| {});
        assert_eq!(fleet.failed + fleet.served.len(), 3000);
        fleet.failed
    };
    assert!(failed(5 * SECOND) < 3000 / 8, "{}", failed(5 * SECOND));
    assert!(failed(0) > 3000 / 5, "{}", failed(0));
}

#[test]
fn contexts_of_one_that_goes_move_and_it_is_not_overrun_when_it_comes_back() {
    let chat = Chat {
        conversations: 3000,
        ..CHAT
    };
    let mut fleet = Fleet::new(Setting::default());
    chat.begin(&mut fleet, &Random::new(1));
    let thinking = Random::new(2);
    let (gone, back) = (200 * SECOND, 400 * SECOND);
    let mut turns = [false; 2];
    fleet.run(|fleet, prompt| {
        if fleet.now >= gone && !std::mem::replace(&mut turns[0], true) {
            fleet.kill(3);
        }
        if fleet.now >= back && !std::mem::replace(&mut turns[1], true) {
            fleet.revive(3);
        }
        chat.next(fleet, prompt, &thinking);
    });
    // The first answer that ended after the moment has moved it by a little.
    let between = |from: Us, to: Us| -> Vec<_> {
        let all = fleet.served.iter().copied();
        all.filter(|one| one.at > from + SECOND && one.at < to)
            .collect()
    };
    let away = between(gone, back);
    assert_eq!(shares(&away, 8)[3], 0);
    assert!(cached_percent(&between(gone + 60 * SECOND, back)) > 70);
    let soon = shares(&between(back, back + 20 * SECOND), 8);
    let mean = soon.iter().sum::<usize>() / 8;
    assert!(soon[3] > 0 && soon[3] < 2 * mean, "{soon:?}");
    let later = shares(&between(back + 120 * SECOND, 700 * SECOND), 8);
    assert!(are_even(&later, 25), "{later:?}");
}
