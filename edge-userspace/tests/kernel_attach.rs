//! Attaching and detaching on a veth pair in a network namespace of the test's own: each
//! mode, each refusal, key changes, and that nothing stays.

mod counters;
#[path = "net/namespace.rs"]
mod namespace;
#[macro_use]
mod skip;

use aya::maps::{HashMap, Map, MapData};
use edge_common::policy::KeyPolicy;
use edge_common::token::KeyId;
use edge_userspace::charges::Charges;
use edge_userspace::config::{self, Config};
use edge_userspace::kernel::{self, KernelHalf, Program, Sizes, Status, object};
use edge_userspace::keys::{Change, Edit, KeyRecord, Keyring, derive};
use edge_userspace::secret::ApiKey;
use namespace::{in_namespace, ip};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the kernel itself says is attached to `edge0`: a mode by `ip`'s name, or none.
fn attached() -> Option<&'static str> {
    let text = ip("-d link show edge0");
    // "xdpgeneric" and "xdpdrv" contain "xdp", so the specific ones first.
    (["xdpgeneric", "xdpoffload", "xdpmulti"]
        .into_iter()
        .find(|mode| text.contains(mode)))
    .or_else(|| text.contains("prog/xdp").then_some("xdp"))
}

fn config(kernel: &str) -> Config {
    let dir = tempfile::tempdir().unwrap();
    let certificate = rcgen::generate_simple_self_signed(["edge.test".to_owned()]).unwrap();
    let file = dir.path().join("edge.toml");
    std::fs::write(dir.path().join("cert.pem"), certificate.cert.pem()).unwrap();
    std::fs::write(
        dir.path().join("key.pem"),
        certificate.signing_key.serialize_pem(),
    )
    .unwrap();
    let text = format!(
        r#"
        [listen]
        addresses = ["10.9.0.1:443", "[2001:db8::1]:8443"]
        [tls]
        certificate = "cert.pem"
        private_key = "key.pem"
        [keys]
        store = "keys.journal"
        audience = "demo"
        [upstream]
        url = "http://127.0.0.1:9000"
        [kernel]
        {kernel}
        "#
    );
    std::fs::write(&file, text).unwrap();
    let journal = dir.path().join("keys.journal");
    std::fs::write(&journal, "").unwrap();
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
    for private in [journal, dir.path().join("key.pem")] {
        std::fs::set_permissions(private, mode.clone()).unwrap();
    }
    config::load(&file).unwrap_or_else(|error| panic!("{error}"))
}

/// A look at the maps, whose counters must add up each time.
fn look(half: &KernelHalf) -> Status {
    // Packets go on arriving (neighbour discovery): look until nothing came in between.
    for _ in 0..100 {
        let (before, status) = (half.status(), half.status());
        if before.counters == status.counters {
            let named: std::collections::HashMap<_, _> = status.counters.iter().copied().collect();
            counters::add_up(|name| named[name]);
            return status;
        }
    }
    panic!("the counters do not come to rest");
}

fn start(kernel: &str) -> Result<Result<KernelHalf, Status>, String> {
    attach(&config(kernel), &[]).map_err(|error| error.to_string())
}

/// As the daemon does, with these keys.
fn attach(
    config: &Config,
    keys: &[Arc<KeyRecord>],
) -> Result<Result<KernelHalf, Status>, kernel::Error> {
    let mut loaded = match KernelHalf::load(config)? {
        Ok(loaded) => loaded,
        Err(status) => return Ok(Err(status)),
    };
    let keyring = Arc::new(Keyring::new(100));
    keyring.apply(keys.iter().map(|key| Edit::Put(KeyRecord::clone(key))));
    let charges = Charges::new(config, &keyring, loaded.take_charged()).unwrap();
    loaded.attach(config, keys, true, charges)
}

fn record(text: &[u8]) -> KeyRecord {
    let key = ApiKey::new(text.to_vec());
    KeyRecord {
        id: derive::key_id(&key),
        name: "test".into(),
        key_hash: derive::key_hash(&key),
        policy: Some(KeyPolicy {
            mac_key: derive::mac_key(&key, "demo").words(),
            not_before_s: 0,
            not_after_s: u64::MAX,
            flags: 0,
            ..KeyPolicy::UNLIMITED
        }),
        not_before_s: 0,
        not_after_s: u64::MAX,
        alpn_only: false,
        rates: Default::default(),
        max_prompt_tokens: None,
        allowance: None,
        revoked: false,
    }
}

#[test]
fn driver_mode_is_attached_and_detached_on_drop() {
    needs_kernel!();
    in_namespace(|| {
        let half = start("attach = \"driver\"")
            .unwrap()
            .map_err(|status| status.notes)
            .unwrap();
        let status = look(&half);
        assert_eq!(status.mode, "driver");
        assert_eq!(status.ports, [443, 8443]);
        assert_eq!(status.interfaces.len(), 1);
        assert_eq!(status.interfaces[0].name, "edge0");
        assert_eq!(status.notes.len(), 1, "{:?}", status.notes);
        assert!(status.notes[0].contains("a veth") && status.policy_complete);
        assert_eq!(attached(), Some("xdp"));
        drop(half);
        assert_eq!(attached(), None);
    });
}

#[test]
fn auto_takes_generic_mode_on_a_veth_whose_peer_may_be_deaf_and_says_why() {
    needs_kernel!();
    in_namespace(|| {
        let half = start("attach = \"auto\"")
            .unwrap()
            .map_err(|status| status.notes)
            .unwrap();
        let status = look(&half);
        assert_eq!(status.mode, "generic");
        assert_eq!(status.notes.len(), 1, "{:?}", status.notes);
        assert!(
            status.notes[0].starts_with("edge0: a veth;"),
            "{:?}",
            status.notes
        );
        assert_eq!(attached(), Some("xdpgeneric"));
    });
}

#[test]
fn generic_mode_can_be_forced() {
    needs_kernel!();
    in_namespace(|| {
        let half = start("attach = \"generic\"")
            .unwrap()
            .map_err(|status| status.notes)
            .unwrap();
        assert_eq!(look(&half).mode, "generic");
        assert_eq!(attached(), Some("xdpgeneric"));
        drop(half);
        assert_eq!(attached(), None);
    });
}

#[test]
fn off_attaches_nothing_and_says_so() {
    needs_kernel!();
    in_namespace(|| {
        let Err(status) = start("attach = \"off\"").unwrap() else {
            panic!("attached")
        };
        assert_eq!((status.mode, status.notes.len()), ("none", 1));
        assert_eq!(attached(), None);
    });
}

#[test]
fn a_driver_without_xdp_is_refused_or_done_without_as_configured() {
    needs_kernel!();
    in_namespace(|| {
        // Loopback has no driver mode.
        ip("link set lo up");
        let driver = "interfaces = [\"edge0\", \"lo\"]\nattach = \"driver\"";
        let Err(error) = start(driver) else {
            panic!("attached")
        };
        assert!(
            error.starts_with("lo: the XDP program cannot be attached in driver mode"),
            "{error}"
        );
        assert!(error.contains("kernel.attach = \"generic\""), "{error}");
        assert_eq!(
            attached(),
            None,
            "edge0, which came first, is left attached"
        );

        let auto = "interfaces = [\"edge0\", \"lo\"]\nattach = \"auto\"";
        let half = start(auto).unwrap().map_err(|status| status.notes).unwrap();
        let status = look(&half);
        assert_eq!(status.mode, "generic");
        let modes: Vec<_> = status
            .interfaces
            .iter()
            .map(|i| (i.name.as_str(), i.mode))
            .collect();
        assert_eq!(modes, [("edge0", "generic"), ("lo", "generic")]);
        assert_eq!(status.notes.len(), 2, "{:?}", status.notes);
        assert!(status.notes[1].starts_with("lo: the XDP program cannot be attached in driver"));
    });
}

#[test]
fn another_program_is_never_pushed_aside() {
    needs_kernel!();
    in_namespace(|| {
        let first = start("attach = \"driver\"")
            .unwrap()
            .map_err(|status| status.notes)
            .unwrap();
        let Err(error) = start("attach = \"driver\"") else {
            panic!("attached twice")
        };
        assert!(error.contains("Another XDP program (id "), "{error}");
        let Err(status) = start("attach = \"auto\"").unwrap() else {
            panic!("attached twice")
        };
        assert_eq!(
            (status.mode, status.notes.len()),
            ("none", 3),
            "{:?}",
            status.notes
        );
        assert_eq!(look(&first).mode, "driver");
        assert_eq!(attached(), Some("xdp"));
    });
}

#[test]
fn the_policy_map_follows_the_keyring() {
    needs_kernel!();
    in_namespace(|| {
        let config = config("attach = \"driver\"");
        let first = Arc::new(record(b"sk-edge-first"));
        let half = attach(&config, &[Arc::clone(&first)]).unwrap();
        let half = half.map_err(|status| status.notes).unwrap();
        assert_eq!(look(&half).keys, 1);

        let keyring = Keyring::new(config.keys.capacity);
        keyring.apply([Edit::Put(record(b"sk-edge-first"))]);
        keyring.observe(half.observer());
        keyring.apply((0..500).map(|i| Edit::Put(record(format!("sk-edge-{i}").as_bytes()))));
        assert_eq!(look(&half).keys, 501);
        keyring.apply([Edit::Revoke(first.id)]);
        assert_eq!(look(&half).keys, 501, "a revoked key stays, to say why");
        keyring.apply([Edit::Remove(first.id)]);
        assert_eq!(look(&half).keys, 500);
        half.observer().changed(&[Change::Removed(KeyId(1))], true);
        assert_eq!(look(&half).keys, 500);
        half.observer().changed(&[], false);
        assert!(!look(&half).policy_complete);
    });
}

#[test]
fn while_a_batch_is_taken_over_the_policy_is_not_called_complete() {
    needs_kernel!();
    in_namespace(|| {
        let half = start("attach = \"driver\"").unwrap();
        let half = half.map_err(|status| status.notes).unwrap();
        let observer = half.observer();
        let template = record(b"sk-edge-template");
        let changes: Vec<_> = (0..8 * 1024)
            .map(|id| {
                let mut record = template.clone();
                record.id = KeyId(id);
                Change::Put(Arc::new(record))
            })
            .collect();
        // Batch after batch until the other thread has looked within one; it may be kept
        // from that many times, not for ever.
        let (seen, batches) = (AtomicBool::new(false), AtomicBool::new(true));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..1000 {
                    if seen.load(Ordering::Acquire) {
                        break;
                    }
                    observer.changed(&changes, true);
                }
                batches.store(false, Ordering::Release);
            });
            while batches.load(Ordering::Acquire) {
                if !half.status().policy_complete {
                    seen.store(true, Ordering::Release);
                }
            }
        });
        assert!(
            seen.into_inner(),
            "the map was called complete while it was being filled"
        );
        let status = look(&half);
        assert!(status.policy_complete && status.keys == 8 * 1024);
    });
}

#[test]
fn detached_means_detached_though_an_observer_lives_on() {
    needs_kernel!();
    in_namespace(|| {
        let half = start("attach = \"driver\"").unwrap();
        let half = half.map_err(|status| status.notes).unwrap();
        let observer = half.observer();
        drop(half);
        assert_eq!(attached(), None);
        observer.changed(&[Change::Put(Arc::new(record(b"sk-edge-late")))], true);
    });
}

#[test]
fn a_full_policy_map_is_never_called_complete() {
    needs_kernel!();
    in_namespace(|| {
        let mut config = config("attach = \"driver\"");
        config.keys.capacity = 2;
        let keys: Vec<_> = (0..3)
            .map(|i| Arc::new(record(format!("sk-edge-{i}").as_bytes())))
            .collect();
        let half = attach(&config, &keys).unwrap();
        let status = look(&half.map_err(|status| status.notes).unwrap());
        assert_eq!((status.keys, status.policy_complete), (2, false));
    });
}

/// The map of keys of a program of this process, by its size, which no other has.
fn keys_map(keys: u32) -> HashMap<MapData, u64, KeyPolicy> {
    let wanted = format!("max_entries:\t{keys}\n");
    let infos = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    // Other tests' descriptors come and go meanwhile.
    let mut texts = infos.filter_map(|info| std::fs::read_to_string(info.ok()?.path()).ok());
    let of_hash_map = |text: &String| text.contains("map_type:\t1\n") && text.contains(&wanted);
    let text = texts.find(of_hash_map).unwrap();
    let id = text.lines().find_map(|line| line.strip_prefix("map_id:\t"));
    let map = MapData::from_id(id.unwrap().parse().unwrap()).unwrap();
    Map::HashMap(map).try_into().unwrap()
}

#[test]
fn keys_put_together_have_each_its_own_policy_and_those_without_room_are_told() {
    needs_kernel!();
    const ROOM: u32 = 5003;
    let sizes = Sizes {
        keys: ROOM,
        ..Sizes::SMALL
    };
    let mut program = Program::load(object::OBJECT, &sizes).unwrap();
    let ids: Vec<u64> = (1..=6000u64)
        .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    let policies: Vec<_> = (ids.iter())
        .map(|id| KeyPolicy {
            mac_key: [*id, !id],
            ..KeyPolicy::UNLIMITED
        })
        .collect();
    let (put, outcome) = program.put_new_keys(&[], &[]);
    assert!(put == 0 && outcome.is_ok(), "{outcome:?}");
    let (put, outcome) = program.put_new_keys(&ids[..4096], &policies[..4096]);
    assert!(put == 4096 && outcome.is_ok(), "{put} {outcome:?}");
    let (put, outcome) = program.put_new_keys(&ids[4096..], &policies[4096..]);
    let error = outcome.unwrap_err();
    assert_eq!(error.os_error(), Some(Errno::TOOBIG), "{error}");
    assert_eq!(put, u64::from(ROOM) - 4096);
    let map = keys_map(ROOM);
    for (place, (id, policy)) in ids.iter().zip(&policies).enumerate() {
        let found = map.get(id, 0).ok();
        let expected = (place < ROOM as usize).then_some(policy.mac_key);
        assert_eq!(found.map(|found| found.mac_key), expected, "{place}");
    }
    // They can be changed and taken out like any others.
    assert!(!program.put_key(KeyId(ids[0]), &policies[1]).unwrap());
    assert_eq!(map.get(&ids[0], 0).unwrap().mac_key, policies[1].mac_key);
    assert!(program.remove_key(KeyId(ids[0])).unwrap());
    let (put, outcome) = program.put_new_keys(&ids[5500..5501], &policies[..1]);
    assert!(put == 1 && outcome.is_ok(), "{outcome:?}");
}

/// Not attached by the daemon, but part of the object: the stub for a veth's peer.
#[test]
fn the_peers_stub_attaches_beside_it() {
    needs_kernel!();
    in_namespace(|| {
        let mut program = Program::load(object::OBJECT, &Sizes::SMALL).unwrap();
        let link = program.pass().unwrap();
        link.attach("client0", aya::programs::XdpMode::Driver)
            .unwrap();
        assert!(ip("-d link show client0").contains("prog/xdp"));
    });
}
