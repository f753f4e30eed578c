//! Compactions, beside writers and readers.

use super::*;

#[test]
fn compaction_keeps_the_living_and_every_revocation() {
    let mut bench = Bench::new(&["a", "b", "c"]);
    bench.write(&[
        Record::Revoke {
            id: id("a"),
            at_s: 5,
        },
        put("a"),
        Record::Remove(id("b")),
        put("d"),
        put("d"),
    ]);
    bench.follow().unwrap();
    let (before, listed) = (bench.names(), writer::list(&bench.path()).unwrap());
    assert_eq!(before, "a! c d");
    let compacted = Writer::open(&bench.path()).unwrap().compact().unwrap();
    assert_eq!((compacted.records, compacted.keys), (8, 3));
    assert_eq!(bench.text().lines().count(), 4);
    let generation = bench.keyring.snapshot().generation();
    assert_eq!(bench.follow().unwrap(), Found::Compacted(3));
    assert_eq!(bench.names(), before);
    assert_eq!(
        bench.keyring.snapshot().generation(),
        generation,
        "nothing changed, so nobody is told"
    );
    let sorted = |mut keys: Vec<StoredKey>| {
        keys.sort_by_key(|key| key.id);
        keys
    };
    assert_eq!(sorted(writer::list(&bench.path()).unwrap()), sorted(listed));
    // And on goes the tail.
    bench.write(&[put("e")]);
    assert_eq!(bench.follow().unwrap(), Found::Appended(1));
    // One who reads the compacted file from its start finds the same.
    let anew = Keyring::new(100);
    Follower::new(&bench.path(), "demo").follow(&anew).unwrap();
    bench.keyring = anew;
    assert_eq!(bench.names(), "a! c d e");
}

#[test]
fn what_was_not_read_before_a_compaction_is_read_after_it() {
    // A change that the follower has not seen, compacted away from the tail.
    let mut bench = Bench::new(&["a", "b"]);
    bench.write(&[Record::Revoke {
        id: id("a"),
        at_s: 5,
    }]);
    Writer::open(&bench.path()).unwrap().compact().unwrap();
    assert_eq!(bench.follow().unwrap(), Found::Replaced(2));
    assert_eq!(bench.names(), "a! b");
    // A change after the compaction, before anybody looked.
    Writer::open(&bench.path()).unwrap().compact().unwrap();
    bench.write(&[Record::Remove(id("b"))]);
    assert_eq!(bench.follow().unwrap(), Found::Compacted(3));
    assert_eq!(bench.names(), "a!");
    // Two compactions with a change between them.
    Writer::open(&bench.path()).unwrap().compact().unwrap();
    bench.write(&[put("c")]);
    Writer::open(&bench.path()).unwrap().compact().unwrap();
    assert_eq!(bench.follow().unwrap(), Found::Replaced(2));
    assert_eq!(bench.names(), "a! c");
}

#[test]
fn a_copy_of_a_compacted_store_that_was_changed_by_hand_is_read() {
    let mut bench = Bench::new(&["a", "b"]);
    Writer::open(&bench.path()).unwrap().compact().unwrap();
    assert_eq!(bench.follow().unwrap(), Found::Compacted(2));
    let text = bench.text();
    let without: Vec<_> = text
        .lines()
        .filter(|line| !line.contains("\"b\""))
        .collect();
    let copy = bench.directory.path().join("copy");
    fs::write(&copy, without.join("\n") + "\n").unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&copy, bench.path()).unwrap();
    assert_eq!(bench.follow().unwrap(), Found::Replaced(1));
    assert_eq!(bench.names(), "a");
}

#[test]
fn compaction_refuses_a_bad_line_and_leaves_the_file() {
    let bench = Bench::new(&["a"]);
    bench.append_raw("nonsense\n");
    let before = bench.text();
    let error = Writer::open(&bench.path()).unwrap().compact().unwrap_err();
    assert!(matches!(error, Error::Line { line: 3, .. }), "{error}");
    assert_eq!(bench.text(), before);
    let files = fs::read_dir(bench.directory.path()).unwrap().count();
    assert_eq!(files, 1, "nothing else is left");
}

#[test]
fn writers_at_the_same_time_lose_nothing_even_across_compactions() {
    let bench = Bench::new(&[]);
    let path = bench.path();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                for i in 0..50 {
                    let name = format!("{writer}-{i}");
                    let mut store = Writer::open(path).unwrap();
                    store.append(&[put(&name)]).unwrap();
                    if i % 3 == 0 {
                        let at_s = 7;
                        store
                            .append(&[Record::Revoke {
                                id: id(&name),
                                at_s,
                            }])
                            .unwrap();
                    }
                    drop(store);
                    if i % 10 == 9 {
                        Writer::open(path).unwrap().compact().unwrap();
                    }
                }
            });
        }
    });
    let keys = writer::list(&path).unwrap();
    assert_eq!(keys.len(), 200);
    let revoked = keys.iter().filter(|key| key.revoked_at_s.is_some()).count();
    assert_eq!(revoked, 4 * 17);
}

#[test]
fn a_follower_keeps_up_with_compactions_and_writers() {
    let mut bench = Bench::new(&["a"]);
    for i in 0..40 {
        bench.write(&[put(&i.to_string())]);
        if i % 7 == 0 {
            Writer::open(&bench.path()).unwrap().compact().unwrap();
        }
        if i % 3 == 0 {
            bench.follow().unwrap();
        }
    }
    bench.follow().unwrap();
    assert_eq!(bench.keyring.snapshot().len(), 41);
}
