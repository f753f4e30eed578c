//! What may meet.

use super::memory::Memory;
use super::table::{Missed, Table};
use crate::context::{ContextId, Entry, Fingerprint, Key, Tenant};
use crate::upstream::UpstreamId;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{Acquire, Release};
use loom::thread;

const NOW_S: u32 = 1;

/// Every order in which the threads of `model` may run, with two changes where none need be.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
        builder.preemption_bound = Some(2);
    }
    builder.check(model);
}

fn table() -> Arc<Table> {
    Arc::new(Table::new(Memory::one_set(), 2, super::WAYS))
}

/// Number `of` with this home.
fn key(home: u64, of: u64) -> Key {
    Key {
        tenant: Tenant(5),
        context: ContextId::NONE,
        fingerprint: Fingerprint::new([home | (of << 8), (of << 52) | home]),
    }
}

/// Each word tells of which it is.
fn entry(upstream: u16, number: u32) -> Entry {
    Entry {
        upstream: UpstreamId(upstream),
        tokens: number,
        exact: number.into(),
        long: false,
    }
}

fn find(table: &Table, key: &Key) -> Result<Entry, Missed> {
    let found = match table.find(key, NOW_S) {
        Err(None) => table.find_with_care(key, NOW_S),
        Err(Some(why)) => Err(why),
        Ok(contents) => Ok(contents),
    };
    found.map(|contents| {
        let numbers = contents.words()[1];
        Entry {
            upstream: contents.life.upstream(),
            tokens: numbers as u32,
            exact: contents.words()[0],
            long: contents.life.long(),
        }
    })
}

fn commit(table: &Table, key: &Key, entry: Entry) {
    table
        .commit(key, &entry, NOW_S)
        .expect("an upstream that is there");
}

#[test]
fn what_moves_is_never_missed_nor_torn() {
    check(|| {
        let table = table();
        commit(&table, &key(0, 1), entry(0, 1));
        let writer = thread::spawn({
            let table = Arc::clone(&table);
            // Moves the first out of its home.
            move || commit(&table, &key(0, 2), entry(1, 2))
        });
        let found = find(&table, &key(0, 1));
        assert!(matches!(found, Ok(_) | Err(Missed::Busy)), "{found:?}");
        assert!(found.is_err() || found == Ok(entry(0, 1)));
        writer.join().unwrap();
        assert_eq!(find(&table, &key(0, 1)), Ok(entry(0, 1)));
        assert_eq!(find(&table, &key(0, 2)), Ok(entry(1, 2)));
    });
}

#[test]
fn what_moves_on_is_never_missed_nor_torn() {
    check(|| {
        let table = table();
        commit(&table, &key(0, 1), entry(0, 1));
        // The first goes to where the third will be at home.
        commit(&table, &key(0, 2), entry(0, 2));
        let writer = thread::spawn({
            let table = Arc::clone(&table);
            move || commit(&table, &key(1, 3), entry(1, 3))
        });
        let found = find(&table, &key(0, 1));
        assert!(
            found == Ok(entry(0, 1)) || found == Err(Missed::Busy),
            "{found:?}"
        );
        writer.join().unwrap();
        for (key, entry) in [
            (key(0, 1), entry(0, 1)),
            (key(0, 2), entry(0, 2)),
            (key(1, 3), entry(1, 3)),
        ] {
            assert_eq!(find(&table, &key), Ok(entry));
        }
    });
}

#[test]
fn what_comes_and_goes_is_whole_or_absent() {
    check(|| {
        let table = table();
        for of in 1..=4 {
            commit(&table, &key(0, of), entry(0, of as u32));
        }
        let writer = thread::spawn({
            let table = Arc::clone(&table);
            // One has to go.
            move || commit(&table, &key(0, 5), entry(1, 5))
        });
        for (of, upstream) in [(1, 0), (5, 1)] {
            let found = find(&table, &key(0, of));
            let whole = found == Ok(entry(upstream, of as u32));
            assert!(
                whole || matches!(found, Err(Missed::Absent | Missed::Busy)),
                "{found:?}"
            );
        }
        writer.join().unwrap();
        assert_eq!(find(&table, &key(0, 5)), Ok(entry(1, 5)));
    });
}

#[test]
fn what_is_written_again_is_the_old_or_the_new() {
    check(|| {
        let table = table();
        commit(&table, &key(0, 1), entry(0, 1));
        let writer = thread::spawn({
            let table = Arc::clone(&table);
            move || commit(&table, &key(0, 1), entry(1, 2))
        });
        let found = find(&table, &key(0, 1));
        let whole = found == Ok(entry(0, 1)) || found == Ok(entry(1, 2));
        assert!(whole || found == Err(Missed::Busy), "{found:?}");
        writer.join().unwrap();
        assert_eq!(find(&table, &key(0, 1)), Ok(entry(1, 2)));
    });
}

#[test]
fn after_forgetting_returned_nothing_old_is_found() {
    check(|| {
        let table = table();
        let over = Arc::new(AtomicBool::new(false));
        commit(&table, &key(0, 1), entry(0, 1));
        let forgets = thread::spawn({
            let (table, over) = (Arc::clone(&table), Arc::clone(&over));
            move || {
                table.forget_upstream(UpstreamId(0));
                over.store(true, Release);
            }
        });
        // Moves it meanwhile.
        let writer = thread::spawn({
            let table = Arc::clone(&table);
            move || commit(&table, &key(0, 2), entry(1, 2))
        });
        let was_over = over.load(Acquire);
        let found = find(&table, &key(0, 1));
        assert!(!was_over || found.is_err(), "{found:?}");
        assert!(found.is_err() || found == Ok(entry(0, 1)));
        forgets.join().unwrap();
        writer.join().unwrap();
        assert!(find(&table, &key(0, 1)).is_err());
        assert_eq!(find(&table, &key(0, 2)), Ok(entry(1, 2)));
    });
}

#[test]
fn a_commit_amid_forgetting_is_old_or_new_and_another_is_untouched() {
    check(|| {
        let table = table();
        let forgets = thread::spawn({
            let table = Arc::clone(&table);
            move || table.forget_upstream(UpstreamId(0))
        });
        commit(&table, &key(0, 1), entry(0, 1));
        commit(&table, &key(1, 2), entry(1, 2));
        forgets.join().unwrap();
        let found = find(&table, &key(0, 1));
        assert!(
            found == Ok(entry(0, 1)) || found == Err(Missed::Forgotten),
            "{found:?}"
        );
        assert_eq!(find(&table, &key(1, 2)), Ok(entry(1, 2)));
        // What is said afterwards holds.
        commit(&table, &key(0, 1), entry(0, 3));
        assert_eq!(find(&table, &key(0, 1)), Ok(entry(0, 3)));
    });
}

#[test]
fn two_writers_and_what_readers_note_do_not_spoil_each_other() {
    check(|| {
        let table = table();
        commit(&table, &key(0, 1), entry(0, 1));
        let writers = [2, 3].map(|of| {
            let table = Arc::clone(&table);
            thread::spawn(move || commit(&table, &key(0, of), entry(1, of as u32)))
        });
        // Notes a use, perhaps where it no longer is.
        let found = find(&table, &key(0, 1));
        assert!(
            found == Ok(entry(0, 1)) || found == Err(Missed::Busy),
            "{found:?}"
        );
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(find(&table, &key(0, 1)), Ok(entry(0, 1)));
        assert_eq!(find(&table, &key(0, 2)), Ok(entry(1, 2)));
        assert_eq!(find(&table, &key(0, 3)), Ok(entry(1, 3)));
    });
}
