//! The journal: what readers make of it while writers, crashes and editors change it.

mod compacted;
mod damaged;
mod events;

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
        allowance: None,
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
