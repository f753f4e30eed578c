//! A directory with all that a daemon needs and a store of so many keys; the daemon as a
//! process, and what can be seen of it from outside. It times nothing but the start.

use aya::maps::MapInfo;
use bench::daemon::edge;
use edge_common::token::KeyId;
use edge_userspace::config::{self, Config};
use edge_userspace::keys::derive;
use edge_userspace::keys::store::line::{Record, StoredKey};
use edge_userspace::keys::store::writer::Writer;
use edge_userspace::secret::ApiKey;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Keys that are written to the store at once.
const BATCH: u32 = 10_000;

/// A network namespace of our own, with its loopback device up.
pub(crate) fn own_network() -> std::io::Result<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)?;
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status()?;
    if up.success() {
        Ok(())
    } else {
        Err(std::io::Error::other("`ip link set lo up` failed"))
    }
}

/// The directory.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    /// With a store of `keys` keys, for a table of `capacity`, and some more that are added
    /// later.
    pub(crate) fn new(keys: u32, capacity: u32) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let ours = rcgen::generate_simple_self_signed(["edge.test".to_owned()]).expect("made");
        write_private(&path.join("cert.pem"), &ours.cert.pem());
        write_private(&path.join("key.pem"), &ours.signing_key.serialize_pem());
        let text = format!(
            "[listen]\naddresses = [\"127.0.0.1:0\"]\nthreads = 1\ndrain_timeout = \"0s\"\n\
             [tls]\ncertificate = \"cert.pem\"\nprivate_key = \"key.pem\"\n\
             [keys]\nstore = \"keys.journal\"\naudience = \"demo\"\ncapacity = {}\n\
             [kernel]\nattach = \"generic\"\ninterfaces = [\"lo\"]\n\
             [upstream]\nurl = \"http://127.0.0.1:9\"\n\
             [admin]\naddress = \"127.0.0.1:0\"\n\
             [log]\njson = true\n",
            capacity + 100,
        );
        write_private(&path.join("edge.toml"), &text);
        let mut store = Writer::open_or_create(&path.join("keys.journal")).expect("a store");
        for first in (0..keys).step_by(BATCH as usize) {
            let numbers = first..keys.min(first + BATCH);
            let records: Vec<_> = numbers.map(|number| Record::Put(key(number))).collect();
            store.append(&records).expect("room on the disk");
        }
        drop(store);
        Self(directory)
    }

    /// What the daemon goes by.
    pub(crate) fn config(&self) -> Config {
        let file = self.0.path().join("edge.toml");
        config::load(&file).unwrap_or_else(|error| panic!("{error}"))
    }

    /// `edge keys new`, to its end; the key's id.
    pub(crate) fn new_key(&self, name: &str) -> KeyId {
        let new = "keys new --store keys.journal --audience demo --json --name";
        let output = edge(self.0.path(), new)
            .arg(name)
            .output()
            .expect("edge keys new");
        let text = String::from_utf8(output.stdout).expect("text");
        let (_, rest) = text.split_once("\"key_id\"").expect("JSON");
        let id = rest.split('"').nth(1).expect("a text");
        KeyId::from_hex(id).expect("a key id")
    }

    /// Starts `edge keys revoke`.
    pub(crate) fn revoke(&self, id: KeyId) -> Child {
        let mut command = edge(
            self.0.path(),
            &format!("keys revoke --store keys.journal {id}"),
        );
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("edge keys revoke")
    }
}

/// A running daemon. Dropping it ends it.
pub(crate) struct Daemon {
    daemon: bench::daemon::Daemon,
    /// From its start until it said that it serves.
    pub(crate) load: Duration,
    /// CPU time that it had used by then, in the kernel too: what `load` comes near to on a
    /// machine with nothing else to do.
    pub(crate) load_cpu_s: f64,
}

/// A BPF map, as the kernel tells of it.
#[derive(Clone, Copy)]
pub(crate) struct KernelMap {
    pub(crate) id: u32,
    /// `memlock` of its fdinfo: since Linux 6.4 what it takes as it is filled.
    pub(crate) bytes: u64,
}

impl Daemon {
    /// Starts one and waits until it serves; it must have `keys` keys in the kernel's map.
    pub(crate) fn start(place: &Place, keys: u32) -> Self {
        let daemon = bench::daemon::Daemon::start(place.0.path(), super::PATIENCE);
        let mut daemon = Self {
            load: daemon.load,
            daemon,
            load_cpu_s: 0.0,
        };
        daemon.load_cpu_s = daemon.cpu_s();
        let text = &daemon.daemon.log;
        let first = text.lines().next().unwrap_or_default();
        let filled = format!("\"keys\":{keys},\"complete\":true");
        assert!(first.contains(&filled), "{text}");
        daemon
    }

    /// proc_pid_stat(5): fields 14 and 15, in hundredths of a second.
    fn cpu_s(&self) -> f64 {
        let text = self.read("stat");
        let (_, fields) = text.rsplit_once(')').expect("Linux tells it");
        let times = fields.split_whitespace().skip(11).take(2);
        let hundredths: u64 = times
            .map(|time| time.parse::<u64>().expect("a number"))
            .sum();
        hundredths as f64 / 100.0
    }

    /// A field of its `/proc/PID/status` in bytes.
    pub(crate) fn memory_bytes(&self, field: &str) -> u64 {
        let text = self.read("status");
        value(&text, field).expect("Linux tells it") * 1024
    }

    /// Its map of that name.
    pub(crate) fn map(&self, name: &str) -> KernelMap {
        let folder = format!("/proc/{}/fdinfo", self.daemon.id());
        let maps = fs::read_dir(folder)
            .expect("our child")
            .filter_map(|entry| {
                let text = fs::read_to_string(entry.ok()?.path()).ok()?;
                let id = u32::try_from(value(&text, "map_id")?).ok()?;
                let info = MapInfo::from_id(id).ok()?;
                (info.name_as_str() == Some(name)).then_some(KernelMap {
                    id,
                    bytes: value(&text, "memlock")?,
                })
            });
        maps.max_by_key(|map| map.id).expect("the daemon's map")
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.daemon.id())).expect("our child")
    }
}

/// The number behind `name:` on a line of its own.
fn value(text: &str, name: &str) -> Option<u64> {
    let line = (text.lines()).find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// One of a row of keys, derived as `edge keys new` does.
fn key(number: u32) -> StoredKey {
    let key = ApiKey::new(format!("sk-edge-bench-{number:08}").into_bytes());
    StoredKey {
        id: derive::key_id(&key),
        name: format!("bench-{number}").into(),
        key_hash: derive::key_hash(&key),
        mac_keys: vec![("demo".into(), derive::mac_key(&key, "demo"))],
        not_before_s: 0,
        not_after_s: u64::MAX,
        alpn_only: false,
        rates: Default::default(),
        max_prompt_tokens: None,
        allowance: None,
        created_at_s: bench::NOW_S,
        revoked_at_s: None,
    }
}

fn write_private(path: &Path, text: &str) {
    let mut file = (fs::File::options().write(true).create_new(true).mode(0o600))
        .open(path)
        .expect("a new file");
    file.write_all(text.as_bytes()).expect("room on the disk");
}
