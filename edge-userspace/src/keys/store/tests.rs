//! The journal: what readers make of it while writers, crashes and editors change it.

use super::follow::{Follower, Found};
use super::line::{Record, StoredKey};
use super::writer::{self, Writer};
use super::*;
use crate::keys::{Keyring, derive};
use crate::secret::ApiKey;
use edge_common::token::KeyId;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

fn stored(text: &str) -> StoredKey {
    let key = ApiKey::new(text.as_bytes().to_vec());
    StoredKey {
        id: derive::key_id(&key),
        name: text.into(),
        key_hash: derive::key_hash(&key),
        mac_keys: vec![("demo".into(), derive::mac_key(&key, "demo"))],
        not_before_s: 0,
        not_after_s: u64::MAX,
        alpn_only: false,
        rates: Default::default(),
        max_prompt_tokens: None,
        created_at_s: 1,
        revoked_at_s: None,
    }
}

fn put(text: &str) -> Record {
    Record::Put(stored(text))
}

fn id(text: &str) -> KeyId {
    stored(text).id
}

/// A store in a directory of its own, and one who follows it.
struct Bench {
    directory: tempfile::TempDir,
    follower: Follower,
    keyring: Keyring,
}

impl Bench {
    fn new(names: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.journal");
        let records: Vec<_> = names.iter().map(|name| put(name)).collect();
        (Writer::open_or_create(&path).unwrap())
            .append(&records)
            .unwrap();
        let mut bench = Self {
            directory,
            follower: Follower::new(&path, "demo"),
            keyring: Keyring::new(100),
        };
        let found = bench.follow().unwrap();
        assert_eq!(found, Found::Replaced(names.len() as u64));
        bench
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("keys.journal")
    }

    fn write(&self, records: &[Record]) {
        (Writer::open(&self.path()).unwrap())
            .append(records)
            .unwrap();
    }

    /// As another program would, without a lock or a check.
    fn append_raw(&self, text: &str) {
        let mut file = File::options().append(true).open(self.path()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn follow(&mut self) -> Result<Found, Error> {
        self.follower.follow(&self.keyring)
    }

    /// Looks until a rewritten file has been quiet for long enough.
    fn follow_until_quiet(&mut self) -> Result<Found, Error> {
        loop {
            match self.follow()? {
                Found::Nothing => std::thread::sleep(std::time::Duration::from_millis(20)),
                found => return Ok(found),
            }
        }
    }

    fn names(&self) -> String {
        let snapshot = self.keyring.snapshot();
        let mut names: Vec<_> = (snapshot.iter())
            .map(|key| format!("{}{}", key.name, if key.revoked { "!" } else { "" }))
            .collect();
        names.sort();
        names.join(" ")
    }
}

#[test]
fn appended_records_are_read_alone_and_once() {
    let mut bench = Bench::new(&["a", "b"]);
    assert_eq!(bench.follow().unwrap(), Found::Nothing);
    bench.write(&[
        put("c"),
        Record::Revoke {
            id: id("a"),
            at_s: 5,
        },
    ]);
    bench.write(&[Record::Remove(id("b"))]);
    assert_eq!(bench.follow().unwrap(), Found::Appended(3));
    assert_eq!(bench.follow().unwrap(), Found::Nothing);
    assert_eq!(bench.names(), "a! c");
    assert_eq!(bench.follower.records(), 5);
}

#[test]
fn a_new_store_is_for_its_owner_only_and_an_open_one_is_refused_by_all() {
    let mut bench = Bench::new(&["a"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!(mode(&bench.path()), 0o600);
    for open in [0o640, 0o604, 0o620, 0o602] {
        fs::set_permissions(bench.path(), fs::Permissions::from_mode(open)).unwrap();
        let errors = [
            Writer::open(&bench.path()).err().unwrap(),
            writer::list(&bench.path()).unwrap_err(),
            bench.follow().unwrap_err(),
        ];
        for error in errors {
            let text = error.to_string();
            let cure = format!("chmod 600 {}", bench.path().display());
            assert!(text.contains(&cure), "{text}");
        }
    }
    assert_eq!(bench.names(), "a", "the last good table stays");
    fs::set_permissions(bench.path(), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(bench.follow_until_quiet().unwrap(), Found::Replaced(1));
}

#[test]
fn a_torn_last_line_is_waited_for_and_mended_by_the_next_writer() {
    let mut bench = Bench::new(&["a"]);
    let whole = bench.text();
    bench.append_raw(r#"{"revoke":"0011"#);
    assert_eq!(bench.follow().unwrap(), Found::Nothing);
    assert_eq!(writer::list(&bench.path()).unwrap().len(), 1);
    bench.write(&[put("b")]);
    assert!(bench.text().starts_with(&whole));
    assert!(!bench.text().contains("0011"));
    assert_eq!(bench.follow().unwrap(), Found::Appended(1));
    assert_eq!(bench.names(), "a b");
}

#[test]
fn a_whole_last_line_without_its_newline_is_kept_by_the_next_writer() {
    let mut bench = Bench::new(&["a"]);
    bench.append_raw(&format!(r#"{{"revoke":"{}"}}"#, id("a")));
    assert_eq!(bench.follow().unwrap(), Found::Nothing, "not finished yet");
    bench.write(&[put("b")]);
    assert_eq!(bench.follow().unwrap(), Found::Appended(2));
    assert_eq!(bench.names(), "a! b");
}

#[test]
fn a_crash_at_any_byte_of_an_append_loses_only_that_record() {
    let mut text = Default::default();
    put("b").write(&mut text);
    for cut in 0..text.len() {
        let mut bench = Bench::new(&["a"]);
        bench.append_raw(std::str::from_utf8(&text[..cut]).unwrap());
        assert_eq!(bench.follow().unwrap(), Found::Nothing, "cut at {cut}");
        bench.write(&[put("c")]);
        bench.follow().unwrap();
        // All but the newline is a whole record.
        let expected = if cut == text.len() - 1 {
            "a b c"
        } else {
            "a c"
        };
        assert_eq!(bench.names(), expected, "cut at {cut}");
    }
}

#[test]
fn a_batch_with_a_bad_line_is_refused_whole_until_the_file_is_mended() {
    let mut bench = Bench::new(&["a"]);
    let good = bench.text();
    bench.append_raw("{\"remove\":\"");
    bench.append_raw(&format!("{}\"}}\nnonsense\n", id("a")));
    let error = bench.follow().unwrap_err().to_string();
    let place = format!("{}:4: the line is no JSON", bench.path().display());
    assert!(error.starts_with(&place), "{error}");
    assert_eq!(bench.names(), "a", "the removal came in the same batch");
    assert_eq!(
        bench.follow().unwrap(),
        Found::Nothing,
        "not tried again unchanged"
    );
    bench.append_raw("{}\n");
    assert!(bench.follow().is_err(), "still there");
    // Mended by a new file.
    let mended = bench.directory.path().join("mended");
    fs::write(&mended, good).unwrap();
    fs::set_permissions(&mended, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&mended, bench.path()).unwrap();
    assert_eq!(bench.follow().unwrap(), Found::Replaced(1));
    bench.write(&[put("b")]);
    assert_eq!(bench.follow().unwrap(), Found::Appended(1));
    assert_eq!(bench.names(), "a b");
}

#[test]
fn a_bad_line_mended_in_place_is_read_when_the_file_is_quiet() {
    let mut bench = Bench::new(&["a"]);
    let good = bench.text();
    bench.append_raw("nonsense\n");
    assert!(bench.follow().is_err());
    let mut text = Default::default();
    put("b").write(&mut text);
    fs::write(bench.path(), good + std::str::from_utf8(&text).unwrap()).unwrap();
    bench.follow_until_quiet().unwrap();
    assert_eq!(bench.names(), "a b");
}

#[test]
fn a_file_that_is_being_rewritten_in_place_does_not_lose_keys_meanwhile() {
    let mut bench = Bench::new(&["a", "b"]);
    let text = bench.text();
    let half = text.match_indices('\n').nth(1).unwrap().0 + 1;
    fs::write(bench.path(), &text[..half]).unwrap();
    assert_eq!(bench.follow().unwrap(), Found::Nothing);
    assert_eq!(bench.names(), "a b");
    bench.append_raw(&text[half..]);
    bench.append_raw("\n");
    assert!(
        bench.follow_until_quiet().is_err(),
        "an empty line is no record"
    );
    assert_eq!(bench.names(), "a b");
}

#[test]
fn a_file_that_grew_by_being_rewritten_is_not_taken_for_one_that_was_appended_to() {
    let mut bench = Bench::new(&["a", "b"]);
    let header = bench.text().lines().next().unwrap().to_owned();
    // Lines of one length, so that the old end is the end of a line in the new text too.
    let mut text = zeroize::Zeroizing::new(header.into_bytes());
    text.push(b'\n');
    for name in ["a", "c", "d"] {
        put(name).write(&mut text);
    }
    fs::write(bench.path(), &text).unwrap();
    assert_eq!(bench.follow_until_quiet().unwrap(), Found::Replaced(3));
    assert_eq!(bench.names(), "a c d");
}

#[test]
fn a_vanished_store_is_an_error_and_its_return_is_read() {
    let mut bench = Bench::new(&["a"]);
    let away = bench.directory.path().join("away");
    fs::rename(bench.path(), &away).unwrap();
    assert!(matches!(bench.follow(), Err(Error::Missing(_))));
    assert_eq!(bench.names(), "a");
    fs::rename(&away, bench.path()).unwrap();
    assert_eq!(bench.follow_until_quiet().unwrap(), Found::Replaced(1));
}

#[test]
fn files_that_are_no_store_are_refused() {
    for text in [
        "",
        "\n",
        "{\"edge-key-store\":2}\n",
        "x\n",
        "{\"edge-key-store\":1}",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.journal");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = Follower::new(&path, "demo")
            .follow(&Keyring::new(1))
            .unwrap_err();
        assert!(
            matches!(error, Error::Line { line: 1, .. }),
            "{text:?}: {error}"
        );
        assert!(Writer::open(&path).is_err(), "{text:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "untouched");
    }
}

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

#[test]
fn a_search_finds_a_key_as_its_lines_leave_it_and_the_first_bad_line() {
    let bench = Bench::new(&["a", "b"]);
    bench.write(&[
        Record::Revoke {
            id: id("a"),
            at_s: 5,
        },
        put("a"),
    ]);
    bench.append_raw(&format!(" {{\"remove\": \"{}\"}}\n", id("b")));
    bench.append_raw("nonsense\n");
    let writer = Writer::open(&bench.path()).unwrap();
    let search = writer.find(&[id("z"), id("a"), id("b")]).unwrap();
    assert_eq!(search.keys.len(), 1);
    let key = &search.keys[&id("a")];
    assert_eq!((&*key.name, key.revoked_at_s), ("a", Some(5)));
    assert_eq!((search.records, search.dead), (6, 1));
    assert_eq!(search.bad.unwrap().0, 7);
}

#[test]
fn room_made_by_a_removal_goes_to_keys_that_had_none() {
    let mut bench = Bench::new(&["a", "b", "c"]);
    bench.keyring = Keyring::new(2);
    bench.follower = Follower::new(&bench.path(), "demo");
    bench.follow().unwrap();
    assert_eq!(bench.names(), "a b");
    assert!(!bench.keyring.complete());
    bench.write(&[Record::Remove(id("a"))]);
    bench.follow().unwrap();
    assert_eq!(bench.names(), "b c");
    assert!(bench.keyring.complete());
}

#[test]
fn a_key_that_comes_and_goes_in_one_batch_does_not_make_the_table_incomplete() {
    let mut bench = Bench::new(&["a"]);
    bench.keyring = Keyring::new(1);
    bench.follower = Follower::new(&bench.path(), "demo");
    bench.follow().unwrap();
    bench.write(&[put("b"), Record::Remove(id("b"))]);
    bench.follow().unwrap();
    assert_eq!(bench.names(), "a");
    assert!(bench.keyring.complete());
}

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

#[test]
fn who_may_not_read_the_store_is_told_whose_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys.journal");
    drop(Writer::open_or_create(&path).unwrap());
    let ours = rustix::process::geteuid().as_raw();
    let denied = || Error::io(&path, "open")(std::io::ErrorKind::PermissionDenied.into());
    let text = denied().to_string();
    assert!(text.contains(&format!("this is user {ours}: ")), "{text}");
    // Only root can give a file away.
    if std::os::unix::fs::chown(&path, Some(ours + 1), None).is_ok() {
        let text = denied().to_string();
        let expected = format!(
            "{} belongs to user {} and this is user {ours}: run as that user",
            path.display(),
            ours + 1
        );
        assert!(text.contains(&expected), "{text}");
    }
}
