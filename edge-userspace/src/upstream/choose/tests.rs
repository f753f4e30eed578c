use super::*;

const A: UpstreamId = UpstreamId(0);
const B: UpstreamId = UpstreamId(1);
const C: UpstreamId = UpstreamId(2);

fn load(tokens: u64, waiting_tokens: u64) -> Load {
    Load {
        tokens,
        waiting_tokens,
        failed_tokens: 0,
        tokens_per_second: 10_000,
    }
}

/// A request of 10,000 tokens of which 8,000 are cached at the first upstream.
fn warm() -> Wants {
    Wants {
        affinity: Some(A),
        prefix_tokens: 8000,
        input_tokens: 10_000,
        saving_percent: 90,
        patience_percent: 400,
        running_percent: 10,
    }
}

fn all(count: u16) -> Set {
    (0..count).map(UpstreamId).collect()
}

/// How often each is chosen.
fn shares(wants: &Wants, usable: Set, loads: &[Load]) -> Vec<u32> {
    let random = Random::new(7);
    let mut shares = vec![0; loads.len()];
    for _ in 0..10_000 {
        let of = |id: UpstreamId| loads[usize::from(id.0)];
        let (id, _) = choose(wants, usable, of, &random).unwrap();
        shares[usize::from(id.0)] += 1;
    }
    shares
}

fn why(wants: &Wants, usable: Set, loads: &[Load]) -> (UpstreamId, Why) {
    let of = |id: UpstreamId| loads[usize::from(id.0)];
    choose(wants, usable, of, &Random::new(3)).unwrap()
}

#[test]
fn a_request_waits_for_its_cache_up_to_its_patience() {
    // 8,000 cached tokens save 7,200, and are waited for four times as long.
    for (waiting, expected) in [
        (0, (A, Why::Affinity)),
        (28_800, (A, Why::Affinity)),
        (28_801, (B, Why::BrokenAffinity)),
        (1 << 40, (B, Why::BrokenAffinity)),
        (u64::MAX, (B, Why::BrokenAffinity)),
    ] {
        let loads = [load(0, waiting), load(0, 0)];
        assert_eq!(why(&warm(), all(2), &loads), expected, "{waiting}");
        // What both have does not matter.
        let loads = [load(0, waiting.saturating_add(5000)), load(0, 5000)];
        assert_eq!(why(&warm(), all(2), &loads), expected, "{waiting} more");
    }
    // Of running requests a tenth counts.
    let loads = |tokens| [load(tokens, 0), load(0, 0)];
    assert_eq!(why(&warm(), all(2), &loads(288_000)).1, Why::Affinity);
    let broken = why(&warm(), all(2), &loads(288_010));
    assert_eq!(broken, (B, Why::BrokenAffinity));
}

#[test]
fn patience_may_be_none_and_more_than_time_is_worth() {
    let loads = [load(0, 20_000), load(0, 0)];
    let of = |patience_percent| {
        let wants = Wants {
            patience_percent,
            ..warm()
        };
        why(&wants, all(2), &loads).1
    };
    assert_eq!(of(0), Why::BrokenAffinity);
    assert_eq!(of(100), Why::BrokenAffinity);
    assert_eq!(of(300), Why::Affinity);
    let worthless = Wants {
        saving_percent: 0,
        ..warm()
    };
    let equal = [load(0, 0); 2];
    assert_eq!(why(&worthless, all(2), &equal), (A, Why::Affinity));
    let all_of_it = Wants {
        saving_percent: 1000,
        prefix_tokens: u32::MAX,
        ..warm()
    };
    let tokens = [warm(), worthless, all_of_it].map(|wants| wants.warm_tokens());
    assert_eq!(tokens, [2800, 10_000, 0]);
}

#[test]
fn what_breaks_away_goes_only_where_it_is_cheaper() {
    // One of the others is as dear; with it alone drawn, the affinity is kept.
    let loads = [
        load(0, 90_000),
        load(950_000, 80_000),
        load(500, 1000),
        load(900, 1500),
    ];
    let shares = shares(&warm(), all(4), &loads);
    assert_eq!(
        (shares[0], shares[1]),
        (0, 0),
        "two are drawn, one is always cheap"
    );
    assert!(
        shares[2] > 2 * shares[3] * 9 / 10,
        "mostly the least busy: {shares:?}"
    );
    let loads = [load(0, 90_000), load(950_000, 80_000)];
    assert_eq!(why(&warm(), all(2), &loads), (A, Why::Affinity));
}

#[test]
fn many_others_do_not_break_more_affinities_than_few() {
    // One is idle, all others are as busy as the affine one.
    let mut loads = vec![load(0, 30_000); 64];
    loads[63] = load(0, 0);
    let kept = shares(&warm(), all(64), &loads)[0];
    assert!((9500..9900).contains(&kept), "{kept}");
}

#[test]
fn what_an_upstream_fails_keeps_new_ones_away_and_drives_nobody_from_a_cache() {
    let random = Random::new(1);
    let loads = |id| Load {
        failed_tokens: if id == A { 10_000_000 } else { 0 },
        ..load(0, 0)
    };
    let cold = Wants {
        affinity: None,
        ..warm()
    };
    for _ in 0..100 {
        assert_eq!(
            choose(&cold, all(2), loads, &random),
            Some((B, Why::Balanced))
        );
        assert_eq!(
            choose(&warm(), all(2), loads, &random),
            Some((A, Why::Affinity))
        );
    }
    // Nor does it take those who would break away from another.
    let loads = |id| match id {
        A => load(1_000_000, 1_000_000),
        _ => Load {
            failed_tokens: 10_000_000,
            ..load(0, 0)
        },
    };
    assert_eq!(
        choose(&warm(), all(2), loads, &random),
        Some((A, Why::Affinity))
    );
}

#[test]
fn a_faster_upstream_has_less_to_wait_for() {
    let slow = load(40_000, 40_000);
    let fast = Load {
        tokens_per_second: 100_000,
        ..slow
    };
    let cold = Wants {
        affinity: None,
        ..warm()
    };
    assert_eq!(shares(&cold, all(2), &[slow, fast]), [0, 10_000]);
    let busy = load(40_000, 80_000);
    assert_eq!(
        why(&warm(), all(2), &[busy, fast]),
        (B, Why::BrokenAffinity)
    );
    assert_eq!(why(&warm(), all(2), &[busy, busy]), (A, Why::Affinity));
}

#[test]
fn equal_upstreams_are_drawn_equally_and_the_busiest_of_all_never() {
    let cold = Wants::default();
    for count in [2, 3, 8, 64] {
        let mut loads = vec![load(0, 0); count.into()];
        let drawn = shares(&cold, all(count), &loads);
        let mean = 10_000 / u32::from(count);
        for share in &drawn {
            assert!(
                (mean * 7 / 10..mean * 13 / 10 + 1).contains(share),
                "{count}: {drawn:?}"
            );
        }
        loads[1] = load(1, 0);
        assert_eq!(shares(&cold, all(count), &loads)[1], 0);
    }
}

#[test]
fn who_takes_nothing_is_never_chosen() {
    let loads = [load(0, 0); 3];
    let cold = Wants::default();
    assert_eq!(
        choose(&cold, Set::default(), |_| loads[0], &Random::new(1)),
        None
    );
    assert_eq!(
        choose(&warm(), Set::default(), |_| loads[0], &Random::new(1)),
        None
    );
    assert_eq!(
        why(&cold, all(3).without(A).without(B), &loads),
        (C, Why::Only)
    );
    let (id, reason) = why(&warm(), all(3).without(A), &loads);
    assert!(id != A && reason == Why::LostAffinity);
    assert_eq!(why(&warm(), all(1), &loads), (A, Why::Affinity));
    assert_eq!(shares(&cold, all(3).without(B), &loads)[1], 0);
}

#[test]
fn sets_hold_what_was_put_in() {
    let set = Set::default().with(A).with(UpstreamId(63)).with(A);
    assert_eq!(set.iter().collect::<Vec<_>>(), [A, UpstreamId(63)]);
    assert_eq!(set.len(), 2);
    assert!(set.has(A) && !set.has(B) && !set.has(UpstreamId(64)));
    assert_eq!(set.with(UpstreamId(64)), set, "there is no such number");
    assert!(set.without(A).without(UpstreamId(63)).is_empty());
}

#[test]
fn reasons_are_numbered_in_their_order() {
    for (number, why) in Why::ALL.into_iter().enumerate() {
        assert_eq!(why as usize, number);
    }
}
