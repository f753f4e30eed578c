use super::super::flows::tests::{flow, judged, table};
use super::*;

/// Reasons of the kernel that say something of the hello, each with what else says the same.
/// Written out, so that a new reason needs a thought.
const SAME: &[(Reason, &[Reason])] = {
    use Reason::*;
    &[
        (Accepted, &[Accepted, Replayed, KeyRateExceeded]),
        (Replayed, &[Accepted, Replayed, KeyRateExceeded]),
        (KeyRateExceeded, &[Accepted, Replayed, KeyRateExceeded]),
        (
            NoToken,
            &[
                NoToken,
                LegacyDenied,
                LegacyRateExceeded,
                LegacyTotalExceeded,
            ],
        ),
        (
            AcmeChallenge,
            &[
                AcmeChallenge,
                LegacyDenied,
                LegacyRateExceeded,
                LegacyTotalExceeded,
            ],
        ),
        (
            LegacyDenied,
            &[
                NoToken,
                AcmeChallenge,
                LegacyDenied,
                LegacyRateExceeded,
                LegacyTotalExceeded,
            ],
        ),
        (
            LegacyTotalExceeded,
            &[
                NoToken,
                AcmeChallenge,
                LegacyDenied,
                LegacyRateExceeded,
                LegacyTotalExceeded,
            ],
        ),
        (
            LegacyRateExceeded,
            &[
                NoToken,
                AcmeChallenge,
                LegacyDenied,
                LegacyRateExceeded,
                LegacyTotalExceeded,
            ],
        ),
        (TokenMalformed, &[TokenMalformed]),
        (TokenDuplicate, &[TokenDuplicate]),
        (KeyUnknown, &[KeyUnknown]),
        (TagWrong, &[TagWrong]),
        (KeyRevoked, &[KeyRevoked]),
        (KeyNotYetValid, &[KeyNotYetValid]),
        (KeyExpired, &[KeyExpired]),
        (TokenExpired, &[TokenExpired]),
        (TokenFromFuture, &[TokenFromFuture]),
    ]
};

#[test]
fn all_pairs_of_reasons() {
    for kernel in Reason::ALL {
        let same = SAME.iter().find(|(reason, _)| reason == kernel);
        for userspace in Reason::ALL {
            // What says nothing of the hello alone contradicts nobody.
            let silent = matches!(userspace, Reason::ClientDenied | Reason::ReplayTableFull);
            let expected = same.is_some_and(|(_, same)| !same.contains(userspace) && !silent);
            assert_eq!(
                differ(*kernel, *userspace),
                expected,
                "{kernel:?} and {userspace:?}"
            );
        }
    }
    let decided = [Verdict::Accept, Verdict::Legacy, Verdict::Reject];
    for reason in Reason::ALL
        .iter()
        .filter(|reason| decided.contains(&reason.verdict()))
    {
        let is_known = SAME.iter().any(|(known, _)| known == reason);
        let silent = matches!(reason, Reason::ClientDenied | Reason::NotTls);
        assert!(is_known || silent, "{reason:?}");
    }
}

struct World {
    agreement: Agreement,
    followed: Arc<Followed>,
    now_ns: u64,
}

/// Unix time less CLOCK_MONOTONIC: a Unix second begins where a second of ours does.
const OFFSET_NS: u64 = 1_800_000_000_000_000_000;

/// The kernel judged flow 1 so long after the keys had changed last.
fn world(kernel: Reason, after_ns: u64) -> World {
    let flows = table(4);
    let now_ns = monotonic_ns();
    flows.write(0, &flow(1), &judged(kernel, now_ns));
    let offsets = Arc::new(Offsets::default());
    offsets.beaten(OFFSET_NS);
    let followed = Arc::new(Followed::default());
    followed
        .at_ns
        .store(now_ns.saturating_sub(after_ns), Ordering::Relaxed);
    World {
        agreement: Agreement::new(flows, offsets, Arc::clone(&followed)),
        followed,
        now_ns,
    }
}

impl World {
    fn compare(&self, userspace: Reason) -> Option<Difference> {
        self.agreement.compare(&flow(1), 0, |_| userspace)
    }

    fn count(&self, outcome: Outcome) -> u64 {
        let outcomes = self.agreement.get().outcomes;
        outcomes[outcome as usize].1
    }
}

const LONG_NS: u64 = 1_000_000_000;

#[test]
fn the_same_agrees_and_another_is_counted_with_both_reasons() {
    let world = world(Reason::TagWrong, LONG_NS);
    assert_eq!(world.compare(Reason::TagWrong), None);
    let difference = Difference {
        kernel: Reason::TagWrong,
        userspace: Reason::Accepted,
    };
    assert_eq!(world.compare(Reason::Accepted), Some(difference));
    assert_eq!(
        world.compare(Reason::HelloMalformed).map(|d| d.userspace),
        Some(Reason::HelloMalformed)
    );
    let found = world.agreement.get();
    assert_eq!(
        found.outcomes,
        [
            ("agreed", 1),
            ("differed", 2),
            ("changed", 0),
            ("undecided", 0),
            ("unknown", 0)
        ]
    );
    assert_eq!(
        found.differences,
        [
            ("tag_wrong", "accepted", 1),
            ("tag_wrong", "hello_malformed", 1)
        ]
    );
}

#[test]
fn what_the_kernel_left_to_us_and_what_it_does_not_know_is_no_difference() {
    for reason in [
        Reason::OutOfOrder,
        Reason::PolicyIncomplete,
        Reason::HelloOversize,
    ] {
        let world = world(reason, LONG_NS);
        assert_eq!(world.compare(Reason::TagWrong), None);
        assert_eq!(world.count(Outcome::Undecided), 1);
    }
    let world = world(Reason::Accepted, LONG_NS);
    assert_eq!(
        world.agreement.compare(&flow(2), 0, |_| Reason::TagWrong),
        None
    );
    assert_eq!(world.count(Outcome::Unknown), 1);
}

#[test]
fn an_old_verdict_is_another_connections() {
    let world = world(Reason::Accepted, 0);
    if world.now_ns > OLDEST_NS + LONG_NS {
        let old = judged(Reason::Accepted, world.now_ns - OLDEST_NS - LONG_NS);
        world.agreement.flows.write(0, &flow(1), &old);
        assert_eq!(world.compare(Reason::TagWrong), None);
        assert_eq!(world.count(Outcome::Unknown), 1);
    }
}

#[test]
fn a_change_of_keys_in_between_explains_a_difference() {
    // It reached the kernel after its verdict, or in the same tick.
    for after_ns in [0, TICK_NS / 2] {
        let world = world(Reason::KeyUnknown, after_ns);
        assert_eq!(world.compare(Reason::Accepted), None);
        assert_eq!(world.count(Outcome::Changed), 1);
    }
    // It has not reached the kernel yet.
    let later = world(Reason::KeyUnknown, LONG_NS);
    let published_ns = later.now_ns;
    assert_eq!(
        later
            .agreement
            .compare(&flow(1), published_ns, |_| Reason::Accepted),
        None
    );
    // It is just reaching it.
    later.followed.begin();
    assert_eq!(later.compare(Reason::Accepted), None);
    assert_eq!(later.count(Outcome::Changed), 2);
    later.followed.end();
    assert_eq!(
        later.compare(Reason::Accepted),
        None,
        "it ended after the verdict"
    );
    // What agrees needs no explanation.
    assert_eq!(later.compare(Reason::KeyUnknown), None);
    assert_eq!(later.count(Outcome::Agreed), 1);
}

#[test]
fn the_window_is_judged_at_the_kernels_instant_and_at_its_clock() {
    let world = world(Reason::Accepted, LONG_NS);
    let at = |offset_ns: u64| (world.now_ns + offset_ns) / 1_000_000_000;
    // Good in the kernel's very second, and in no other.
    let only = |second: u64| {
        move |now_s: u64| {
            if now_s == second {
                Reason::Accepted
            } else {
                Reason::TokenExpired
            }
        }
    };
    let compare = |second| world.agreement.compare(&flow(1), 0, only(second));
    assert_eq!(compare(at(OFFSET_NS)), None);
    assert!(compare(at(OFFSET_NS) + 2).is_some());
    // The clock was set forward by an hour after the kernel's verdict.
    world
        .agreement
        .offsets
        .beaten(OFFSET_NS + 3_600_000_000_000);
    assert_eq!(compare(at(OFFSET_NS)), None);
    assert!(compare(at(OFFSET_NS) + 7200).is_some());
}
