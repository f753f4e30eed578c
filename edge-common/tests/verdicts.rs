//! Every reason that `judge` knows, which of two goes first, and the edges of the window.

mod common;

use common::made::Hello;
use common::scan;
use edge_common::client_hello::{ClientHello, Scanned};
use edge_common::policy::{
    COUNTER_SLOTS, Counter, KeyPolicy, Keys, Reason, Verdict, Window, judge, judge_token,
};
use edge_common::token::{KeyId, Token};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const NOW: u64 = 1_800_000_000;
const WINDOW: Window = Window {
    back_s: 30,
    ahead_s: 5,
};
const KEY: KeyId = KeyId(0x0102_0304_0506_0708);
const MAC: [u64; 2] = [0x1111_2222_3333_4444, 0x5555_6666_7777_8888];
const ANY_TIME: KeyPolicy = KeyPolicy {
    mac_key: MAC,
    not_before_s: 0,
    not_after_s: u64::MAX,
    flags: 0,
    ..KeyPolicy::UNLIMITED
};

struct Table {
    keys: HashMap<KeyId, KeyPolicy>,
    complete: bool,
}

impl Table {
    fn with(policy: KeyPolicy) -> Self {
        Self {
            keys: HashMap::from([(KEY, policy)]),
            complete: true,
        }
    }
}

impl Keys for Table {
    fn policy(&self, id: KeyId) -> Option<&KeyPolicy> {
        self.keys.get(&id)
    }

    fn complete(&self) -> bool {
        self.complete
    }
}

fn token(issued_at_s: u64) -> Token {
    Token::issue(KEY, MAC, u32::try_from(issued_at_s).unwrap(), 9)
}

/// The verdict on a hello with these names, by way of the scanner.
fn verdict(names: &[&[u8]], keys: &Table) -> Reason {
    let (scanned, hello) = scan(&Hello::offering(names).record());
    judge(&hello, scanned, keys, NOW, WINDOW)
}

#[test]
fn every_reason_of_a_hello() {
    let keys = Table::with(ANY_TIME);
    let good = token(NOW).to_name();
    let wrong = Token {
        tag: token(NOW).tag ^ 1,
        ..token(NOW)
    }
    .to_name();
    let unknown = Token {
        key_id: KeyId(5),
        ..token(NOW)
    }
    .to_name();
    let table: [(&[&[u8]], Reason); 10] = [
        (&[b"h2", &good], Reason::Accepted),
        (&[b"h2", b"http/1.1"], Reason::NoToken),
        (&[b"acme-tls/1"], Reason::AcmeChallenge),
        (&[b"ezl1-0"], Reason::TokenMalformed),
        (&[&good, &good], Reason::TokenDuplicate),
        (&[&unknown], Reason::KeyUnknown),
        (&[&wrong], Reason::TagWrong),
        (&[&token(NOW - 31).to_name()], Reason::TokenExpired),
        (&[&token(NOW + 6).to_name()], Reason::TokenFromFuture),
        // A token beside an ACME name counts as a token.
        (&[b"acme-tls/1", &good], Reason::Accepted),
    ];
    for (names, reason) in table {
        assert_eq!(verdict(names, &keys), reason);
    }
    let revoked = Table::with(KeyPolicy {
        flags: KeyPolicy::REVOKED,
        ..ANY_TIME
    });
    assert_eq!(verdict(&[&good], &revoked), Reason::KeyRevoked);
    let later = Table::with(KeyPolicy {
        not_before_s: NOW + 1,
        ..ANY_TIME
    });
    assert_eq!(verdict(&[&good], &later), Reason::KeyNotYetValid);
    let before = Table::with(KeyPolicy {
        not_after_s: NOW - 1,
        ..ANY_TIME
    });
    assert_eq!(verdict(&[&good], &before), Reason::KeyExpired);
}

#[test]
fn every_other_end_of_a_scan() {
    let keys = Table::with(ANY_TIME);
    let hello = ClientHello::at_record();
    for (scanned, reason) in [
        (Scanned::Incomplete, Reason::Incomplete),
        (Scanned::NotTls, Reason::NotHello),
        (Scanned::RecordFragmented, Reason::RecordFragmented),
        (Scanned::Malformed, Reason::HelloMalformed),
        (Scanned::TooLong, Reason::HelloTooLong),
        (Scanned::Absent, Reason::NoToken),
    ] {
        assert_eq!(judge(&hello, scanned, &keys, NOW, WINDOW), reason);
        assert_ne!(reason.verdict(), Verdict::Reject, "positive evidence only");
    }
}

#[test]
fn a_miss_proves_nothing_while_the_policy_is_incomplete() {
    let mut keys = Table {
        keys: HashMap::new(),
        complete: true,
    };
    let good = token(NOW).to_name();
    assert_eq!(verdict(&[&good], &keys), Reason::KeyUnknown);
    keys.complete = false;
    assert_eq!(verdict(&[&good], &keys), Reason::PolicyIncomplete);
    assert_eq!(Reason::PolicyIncomplete.verdict(), Verdict::Undecided);
    // What needs no key is still proved, and so is what a present key proves.
    assert_eq!(verdict(&[b"ezl1-"], &keys), Reason::TokenMalformed);
    assert_eq!(verdict(&[&good, b"ezl1-"], &keys), Reason::TokenDuplicate);
    keys.keys.insert(
        KEY,
        KeyPolicy {
            flags: KeyPolicy::REVOKED,
            ..ANY_TIME
        },
    );
    assert_eq!(verdict(&[&good], &keys), Reason::KeyRevoked);
}

#[test]
fn the_first_fault_in_order_is_the_reason() {
    // Everything is wrong at once; then one fault after the other is mended.
    let all_wrong = KeyPolicy {
        mac_key: [0, 0],
        not_before_s: NOW + 1,
        not_after_s: NOW - 1,
        flags: KeyPolicy::REVOKED,
        ..KeyPolicy::UNLIMITED
    };
    let old = token(NOW - 31).to_name();
    assert_eq!(
        verdict(&[b"ezl1-", b"ezl1-"], &Table::with(all_wrong)),
        Reason::TokenDuplicate
    );
    assert_eq!(
        verdict(&[b"ezl1-"], &Table::with(all_wrong)),
        Reason::TokenMalformed
    );
    // Only a holder of the key learns the key's state.
    assert_eq!(verdict(&[&old], &Table::with(all_wrong)), Reason::TagWrong);
    let mut policy = KeyPolicy {
        mac_key: MAC,
        ..all_wrong
    };
    assert_eq!(verdict(&[&old], &Table::with(policy)), Reason::KeyRevoked);
    policy.flags = 0;
    assert_eq!(
        verdict(&[&old], &Table::with(policy)),
        Reason::KeyNotYetValid
    );
    policy.not_before_s = NOW;
    assert_eq!(verdict(&[&old], &Table::with(policy)), Reason::KeyExpired);
    policy.not_after_s = NOW;
    assert_eq!(verdict(&[&old], &Table::with(policy)), Reason::TokenExpired);
    assert_eq!(
        verdict(&[&token(NOW - 30).to_name()], &Table::with(policy)),
        Reason::Accepted
    );
}

#[test]
fn the_edges_of_the_window_are_inside() {
    let at = |issued_at_s| judge_token(&token(issued_at_s), &ANY_TIME, NOW, WINDOW);
    assert_eq!(at(NOW - 31), Reason::TokenExpired);
    assert_eq!(at(NOW - 30), Reason::Accepted);
    assert_eq!(at(NOW + 5), Reason::Accepted);
    assert_eq!(at(NOW + 6), Reason::TokenFromFuture);
    let at = |not_before_s, not_after_s| {
        let policy = KeyPolicy {
            not_before_s,
            not_after_s,
            ..ANY_TIME
        };
        judge_token(&token(NOW), &policy, NOW, WINDOW)
    };
    assert_eq!(at(NOW, NOW), Reason::Accepted);
    assert_eq!(at(NOW + 1, u64::MAX), Reason::KeyNotYetValid);
    assert_eq!(at(0, NOW - 1), Reason::KeyExpired);
    assert_eq!(at(NOW + 1, NOW - 1), Reason::KeyNotYetValid);
    // A window of nothing, and the ends of time.
    let none = Window {
        back_s: 0,
        ahead_s: 0,
    };
    assert_eq!(
        judge_token(&token(NOW), &ANY_TIME, NOW, none),
        Reason::Accepted
    );
    assert_eq!(
        judge_token(&token(NOW - 1), &ANY_TIME, NOW, none),
        Reason::TokenExpired
    );
    assert_eq!(
        judge_token(&token(NOW + 1), &ANY_TIME, NOW, none),
        Reason::TokenFromFuture
    );
    let widest = Window {
        back_s: u32::MAX,
        ahead_s: u32::MAX,
    };
    for issued in [0, NOW, u64::from(u32::MAX)] {
        assert_eq!(
            judge_token(&token(issued), &ANY_TIME, NOW, widest),
            Reason::Accepted
        );
        assert_eq!(
            judge_token(&token(issued), &ANY_TIME, 0, widest),
            Reason::Accepted
        );
    }
}

#[test]
fn every_flag_but_revoked_is_without_meaning() {
    for bit in 0..64 {
        let policy = KeyPolicy {
            flags: 1 << bit,
            ..ANY_TIME
        };
        let reason = judge_token(&token(NOW), &policy, NOW, WINDOW);
        let revoked = policy.flags == KeyPolicy::REVOKED;
        assert_eq!(
            reason,
            if revoked {
                Reason::KeyRevoked
            } else {
                Reason::Accepted
            }
        );
    }
}

#[test]
fn every_reason_and_counter_has_a_name_and_a_slot_of_its_own() {
    let reasons = Reason::ALL.iter().map(|r| (r.name(), *r as u32));
    let counters = Counter::ALL.iter().map(|c| (c.name(), *c as u32));
    let all: Vec<_> = reasons.chain(counters).collect();
    let names: HashSet<_> = all.iter().map(|(name, _)| name).collect();
    let slots: HashSet<_> = all.iter().map(|(_, slot)| slot).collect();
    assert_eq!((names.len(), slots.len()), (all.len(), all.len()));
    for (name, slot) in all {
        assert!(slot < COUNTER_SLOTS, "{name}");
        let plain = |c: char| c.is_ascii_lowercase() || c == '_';
        assert!(name.chars().all(plain), "{name} names a metric's label");
    }
}

#[test]
fn the_mac_key_is_not_printed() {
    let printed = format!("{ANY_TIME:?} {ANY_TIME:#?}");
    for word in MAC {
        for shown in [
            word.to_string(),
            format!("{word:x}"),
            format!("{:x}", word.swap_bytes()),
        ] {
            assert!(!printed.contains(&shown), "{printed}");
        }
    }
}

proptest! {
    /// Against a model in plain arithmetic, at any time and in any window.
    #[test]
    fn judges_like_plain_arithmetic(
        issued: u32,
        ahead_of_token in -100i64..100,
        now_anywhere in prop::option::weighted(0.2, 0u64..1 << 40),
        back_s in 0u32..100,
        ahead_s in 0u32..100,
        life in prop::option::of((0i64..200, 0i64..200)),
        revoked: bool,
        right_tag in prop::bool::weighted(0.9),
    ) {
        let issued_at = i64::from(issued);
        let now = now_anywhere.map_or((issued_at + ahead_of_token).max(0), |now| now as i64);
        let (first, last) = life.map_or((0, i64::MAX), |(a, b)| ((now - 100 + a).max(0), (now - 100 + b).max(0)));
        let policy = KeyPolicy {
            mac_key: MAC,
            not_before_s: first as u64,
            not_after_s: last as u64,
            flags: u64::from(revoked),
            ..KeyPolicy::UNLIMITED
        };
        let mut token = token(u64::from(issued));
        token.tag ^= u64::from(!right_tag);
        let expected = if !right_tag {
            Reason::TagWrong
        } else if revoked {
            Reason::KeyRevoked
        } else if now < first {
            Reason::KeyNotYetValid
        } else if now > last {
            Reason::KeyExpired
        } else if now - issued_at > i64::from(back_s) {
            Reason::TokenExpired
        } else if issued_at - now > i64::from(ahead_s) {
            Reason::TokenFromFuture
        } else {
            Reason::Accepted
        };
        let window = Window { back_s, ahead_s };
        prop_assert_eq!(judge_token(&token, &policy, now as u64, window), expected);
    }
}
