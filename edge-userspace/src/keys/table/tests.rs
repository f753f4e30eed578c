//! The table, without a store behind it.

use super::*;
use crate::keys::derive;
use edge_common::policy::Keys as _;

const NOW: u64 = 1_800_000_000;

fn key(text: &str) -> ApiKey {
    ApiKey::new(text.as_bytes().to_vec())
}

fn record(text: &str) -> KeyRecord {
    let key = key(text);
    KeyRecord {
        id: derive::key_id(&key),
        name: text.into(),
        key_hash: derive::key_hash(&key),
        policy: Some(KeyPolicy {
            mac_key: derive::mac_key(&key, "demo").words(),
            not_before_s: NOW - 10,
            not_after_s: NOW + 10,
            flags: 0,
            ..KeyPolicy::UNLIMITED
        }),
        not_before_s: NOW - 10,
        not_after_s: NOW + 10,
        alpn_only: false,
        rates: Default::default(),
        max_prompt_tokens: None,
        allowance: None,
        revoked: false,
    }
}

/// Writes down what it is told.
#[derive(Default)]
struct Diary(Mutex<Vec<(String, bool)>>);

impl Observer for Diary {
    fn changed(&self, changes: &[Change], complete: bool) {
        let text = changes.iter().map(|change| match change {
            Change::Put(record) => format!("put {}", record.name),
            Change::Revoked(record) => format!("revoked {}", record.name),
            Change::Removed(id) => format!("removed {id}"),
        });
        let text: Vec<_> = text.collect();
        (self.0.lock().unwrap()).push((text.join(", "), complete));
    }
}

impl Diary {
    fn take(&self) -> Vec<(String, bool)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[test]
fn a_key_is_good_within_its_days_and_until_revoked() {
    let ring = Keyring::new(10);
    ring.apply([Edit::Put(record("a"))]);
    let found = ring.authenticate(&key("a"), NOW).unwrap();
    assert_eq!(&*found.name, "a");
    for (at, expected) in [
        (NOW - 11, Err(Refused::NotYetValid)),
        (NOW - 10, Ok(())),
        (NOW + 10, Ok(())),
        (NOW + 11, Err(Refused::Expired)),
    ] {
        let outcome = ring.authenticate(&key("a"), at).map(drop);
        assert_eq!(outcome, expected, "at {at}");
    }
    assert_eq!(
        ring.authenticate(&key("b"), NOW).unwrap_err(),
        Refused::Unknown
    );
    ring.apply([Edit::Revoke(found.id)]);
    assert_eq!(
        ring.authenticate(&key("a"), NOW).unwrap_err(),
        Refused::Revoked
    );
    let snapshot = ring.snapshot();
    assert_eq!(
        snapshot.policy(found.id).unwrap().flags,
        KeyPolicy::REVOKED,
        "hellos are refused too"
    );
}

#[test]
fn a_key_of_other_audiences_is_refused_in_a_header_too() {
    let ring = Keyring::new(10);
    let mut elsewhere = record("a");
    elsewhere.policy = None;
    ring.apply([Edit::Put(elsewhere)]);
    assert_eq!(ring.snapshot().for_audience(), 0);
    assert_eq!(
        ring.authenticate(&key("a"), NOW).unwrap_err(),
        Refused::NotForAudience
    );
    ring.apply([Edit::Put(record("a"))]);
    assert!(ring.authenticate(&key("a"), NOW).is_ok());
    let id = record("a").id;
    ring.apply([Edit::Put(record("b")), Edit::Revoke(id)]);
    assert_eq!(ring.snapshot().for_audience(), 2);
    ring.apply([Edit::Remove(id), Edit::Remove(id)]);
    assert_eq!(ring.snapshot().for_audience(), 1);
}

#[test]
fn a_revoked_key_comes_back_only_after_its_removal() {
    let ring = Keyring::new(10);
    let id = record("a").id;
    ring.apply([Edit::Put(record("a")), Edit::Revoke(id)]);
    ring.apply([Edit::Put(record("a"))]);
    let refused = ring.authenticate(&key("a"), NOW).unwrap_err();
    assert_eq!(refused, Refused::Revoked);
    ring.apply([Edit::Remove(id), Edit::Put(record("a"))]);
    assert!(ring.authenticate(&key("a"), NOW).is_ok());
}

#[test]
fn an_observer_that_panics_does_not_keep_the_others_from_being_told() {
    struct Panics;
    impl Observer for Panics {
        fn changed(&self, _: &[Change], _: bool) {
            panic!("on purpose");
        }
    }
    let ring = Keyring::new(10);
    let diary = Arc::new(Diary::default());
    ring.observe(Arc::new(Panics));
    ring.observe(diary.clone());
    ring.apply([Edit::Put(record("a"))]);
    ring.apply([Edit::Put(record("b"))]);
    assert_eq!(diary.take().len(), 2);
}

#[test]
fn the_id_alone_does_not_authenticate() {
    let ring = Keyring::new(10);
    let mut forged = record("a");
    forged.key_hash = derive::key_hash(&key("another"));
    ring.apply([Edit::Put(forged)]);
    assert_eq!(
        ring.authenticate(&key("a"), NOW).unwrap_err(),
        Refused::Unknown
    );
}

#[test]
fn observers_are_told_in_order_of_what_really_changed() {
    let ring = Keyring::new(10);
    let diary = Arc::new(Diary::default());
    ring.observe(diary.clone());
    let b = record("b").id;
    ring.apply([Edit::Put(record("a")), Edit::Put(record("b"))]);
    ring.apply([Edit::Put(record("a"))]);
    ring.apply([Edit::Revoke(b), Edit::Revoke(b), Edit::Revoke(KeyId(1))]);
    ring.apply([Edit::Remove(b), Edit::Remove(b)]);
    let told = diary.take();
    let told: Vec<_> = told.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(
        told,
        ["put a, put b", "revoked b", &format!("removed {b}")],
        "a batch without effect is not told"
    );
    assert_eq!(ring.snapshot().generation(), 3);
}

#[test]
fn beyond_its_capacity_the_table_refuses_and_says_so() {
    let ring = Keyring::new(2);
    let diary = Arc::new(Diary::default());
    ring.observe(diary.clone());
    ring.apply(["a", "b", "c", "d"].map(|name| Edit::Put(record(name))));
    assert_eq!(diary.take(), [("put a, put b".to_owned(), false)]);
    let snapshot = ring.snapshot();
    assert_eq!((snapshot.len(), snapshot.refused_for_capacity()), (2, 2));
    assert!(!ring.complete());
    assert_eq!(
        ring.authenticate(&key("c"), NOW).unwrap_err(),
        Refused::NotLoaded
    );
    // Only reading everything again can tell that nothing is missing any more.
    let mut next = snapshot.successor();
    next.put_as_in(&snapshot, record("a"));
    next.put_as_in(&snapshot, record("c"));
    ring.replace(next);
    let expected = format!("removed {}, put c", record("b").id);
    assert_eq!(diary.take(), [(expected, true)]);
    assert!(ring.complete());
}

#[test]
fn a_snapshot_does_not_change_under_its_reader() {
    let ring = Keyring::new(1000);
    ring.apply((0..1000).map(|i| Edit::Put(record(&i.to_string()))));
    let before = ring.snapshot();
    ring.apply((0..500).map(|i| Edit::Remove(record(&i.to_string()).id)));
    let after = ring.snapshot();
    assert_eq!((before.len(), after.len()), (1000, 500));
    for i in 0..1000 {
        let id = record(&i.to_string()).id;
        assert!(before.find(id).is_some());
        assert_eq!(after.find(id).is_some(), i >= 500);
    }
    assert_eq!(before.iter().count(), 1000);
    assert_eq!(after.iter().count(), 500);
}

#[test]
fn one_change_shares_all_shards_but_one() {
    let ring = Keyring::new(100_000);
    ring.apply((0..2000).map(|i| Edit::Put(record(&i.to_string()))));
    let before = ring.snapshot();
    ring.apply([Edit::Revoke(record("7").id)]);
    let after = ring.snapshot();
    let copied = (before.shards.iter().zip(&after.shards))
        .filter(|(a, b)| !Arc::ptr_eq(a, b))
        .count();
    assert_eq!(copied, 1);
}

#[test]
fn userspace_judges_with_the_same_function() {
    use edge_common::policy::{Reason, Window, judge_token};
    use edge_common::token::Token;
    let ring = Keyring::new(10);
    ring.apply([Edit::Put(record("a"))]);
    let snapshot = ring.snapshot();
    let policy = snapshot.policy(record("a").id).unwrap();
    let token = Token::issue(record("a").id, policy.mac_key, NOW as u32, 1);
    let window = Window {
        back_s: 30,
        ahead_s: 5,
    };
    assert_eq!(judge_token(&token, policy, NOW, window), Reason::Accepted);
}

/// Counts what it is told, and lets another thread revoke a key once it has heard something.
struct Interrupted {
    first: Mutex<Option<std::sync::mpsc::SyncSender<()>>>,
    told: Mutex<HashMap<KeyId, (u32, bool)>>,
}

impl Observer for Interrupted {
    fn changed(&self, changes: &[Change], complete: bool) {
        assert!(complete);
        if let Some(first) = self.first.lock().unwrap().take() {
            first.send(()).unwrap();
        }
        let mut told = self.told.lock().unwrap();
        for change in changes {
            let (record, revoked) = match change {
                Change::Put(record) => (record, false),
                Change::Revoked(record) => (record, true),
                Change::Removed(_) => panic!("none was removed"),
            };
            let entry = told.entry(record.id).or_default();
            *entry = (entry.0 + 1, revoked);
        }
    }
}

#[test]
fn a_revocation_comes_in_between_when_many_keys_are_told() {
    const KEYS: u64 = 20_000;
    let template = record("a");
    // Until the other thread has come in between; it may be kept from that, not for ever.
    for _ in 0..100 {
        let ring = Keyring::new(100_000);
        ring.apply((1..=KEYS).map(|id| {
            let mut record = template.clone();
            record.id = KeyId(id);
            Edit::Put(record)
        }));
        // Of the shards that are told last.
        let last = ring.snapshot().iter().last().unwrap().id;
        let (first, heard) = std::sync::mpsc::sync_channel(1);
        let observer = Interrupted {
            first: Mutex::new(Some(first)),
            told: Mutex::default(),
        };
        std::thread::scope(|scope| {
            let ring = &ring;
            scope.spawn(move || {
                heard.recv().unwrap();
                ring.apply([Edit::Revoke(last)]);
            });
            ring.tell(&observer);
        });
        let told = observer.told.into_inner().unwrap();
        assert_eq!(told.len() as u64, KEYS);
        assert!(told.values().all(|(times, _)| *times == 1), "once each");
        let mut others = told.iter().filter(|(id, _)| **id != last);
        assert!(others.all(|(_, (_, revoked))| !revoked));
        if told[&last].1 {
            return;
        }
    }
    panic!("no revocation came in between");
}
