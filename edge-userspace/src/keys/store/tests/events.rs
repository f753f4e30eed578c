//! Whatever happens to a store, in any order.

use super::*;

/// What can happen to a store.
#[derive(Clone, Copy, Debug)]
enum Event {
    Put(u8),
    Revoke(u8),
    Remove(u8),
    Compact,
    Follow,
    /// A writer crashed while it wrote.
    Torn,
    /// Someone replaced the file by a copy of itself.
    Copied,
}

fn event() -> impl proptest::strategy::Strategy<Value = Event> {
    use proptest::prelude::*;
    prop_oneof![
        4 => (0..8u8).prop_map(Event::Put),
        3 => (0..8u8).prop_map(Event::Revoke),
        3 => (0..8u8).prop_map(Event::Remove),
        2 => Just(Event::Compact),
        3 => Just(Event::Follow),
        1 => Just(Event::Torn),
        1 => Just(Event::Copied),
    ]
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(60))]

    /// However changes, compactions, crashes and looks follow each other, the table ends as
    /// a plain map would.
    #[test]
    fn the_table_is_what_the_changes_make(events in proptest::collection::vec(event(), 1..40)) {
        let mut bench = Bench::new(&[]);
        // By key: whether it is revoked.
        let mut model = std::collections::BTreeMap::<u8, bool>::new();
        for event in events {
            match event {
                Event::Put(key) => {
                    bench.write(&[put(&key.to_string())]);
                    model.entry(key).or_insert(false);
                }
                Event::Revoke(key) => {
                    bench.write(&[Record::Revoke { id: id(&key.to_string()), at_s: 5 }]);
                    model.entry(key).and_modify(|revoked| *revoked = true);
                }
                Event::Remove(key) => {
                    bench.write(&[Record::Remove(id(&key.to_string()))]);
                    model.remove(&key);
                }
                Event::Compact => drop(Writer::open(&bench.path()).unwrap().compact().unwrap()),
                Event::Follow => drop(bench.follow().unwrap()),
                Event::Torn => bench.append_raw("{\"put\":\"00"),
                Event::Copied => {
                    let copy = bench.directory.path().join("copy");
                    fs::copy(bench.path(), &copy).unwrap();
                    fs::rename(&copy, bench.path()).unwrap();
                }
            }
        }
        // One more change, so that there is something to wait for.
        bench.write(&[put("end")]);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while bench.keyring.find(id("end")).is_none() {
            proptest::prop_assert!(std::time::Instant::now() < deadline);
            bench.follow().unwrap();
        }
        let mut expected: Vec<_> = (model.iter())
            .map(|(key, revoked)| format!("{key}{}", if *revoked { "!" } else { "" }))
            .collect();
        expected.push("end".to_owned());
        expected.sort();
        proptest::prop_assert_eq!(bench.names(), expected.join(" "));
        let mut listed: Vec<_> = (writer::list(&bench.path()).unwrap().iter())
            .map(|key| format!("{}{}", key.name, if key.revoked_at_s.is_some() { "!" } else { "" }))
            .collect();
        listed.sort();
        proptest::prop_assert_eq!(listed.join(" "), bench.names());
    }
}
