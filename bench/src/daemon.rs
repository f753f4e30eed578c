//! The edge as a process of its own: the bench's program again, as `edge`. It times nothing.

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Set for the processes that are to be `edge`.
pub const AS_EDGE: &str = "EDGE_BENCH_AS_EDGE";

/// Names the edge's program where it is not to be this one.
const PROGRAM: &str = "EDGE_BENCH_EDGE";

/// How long a daemon that is to end may take to.
const LEAVE: Duration = Duration::from_secs(10);

/// Whether this process is to be `edge`.
#[must_use]
pub fn is_edge() -> bool {
    std::env::var_os(AS_EDGE).is_some()
}

/// The system's load of the last minutes, and how many CPUs bear it.
#[must_use]
pub fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<_> = text.split(' ').take(3).collect();
    // The machine's, not those that the calling thread may run on.
    let cpus = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    format!("{} on {} CPUs", load.join(", "), cpus.unwrap_or(0))
}

/// Which program is to be the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// That of `EDGE_BENCH_EDGE`, or this one.
    Wanted,
    /// This one, as cargo built it.
    Ours,
}

/// Whether another program than this one is to be the edge.
#[must_use]
pub fn is_other_wanted() -> bool {
    std::env::var_os(PROGRAM).is_some()
}

/// The wanted program as `edge` in that directory. It ends with us, however we end.
///
/// # Panics
/// When our own path cannot be told.
#[must_use]
pub fn edge(directory: &Path, arguments: &str) -> Command {
    as_edge(Program::Wanted, directory, arguments)
}

fn as_edge(program: Program, directory: &Path, arguments: &str) -> Command {
    let wanted = std::env::var_os(PROGRAM).filter(|_| program == Program::Wanted);
    let ours = || std::env::current_exe().expect("our own path").into();
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(wanted.unwrap_or_else(ours))
        .args(arguments.split(' '))
        .current_dir(directory)
        .env(AS_EDGE, "1")
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null());
    command
}

/// Makes a key store, `keys.journal`, in that directory with one key for that audience: the API
/// key.
///
/// # Panics
/// When there is one, or no room on the disk.
#[must_use]
pub fn new_key(directory: &Path, audience: &str) -> String {
    let new = format!(
        "keys new --store keys.journal --name bench --audience {audience} --api-key-out key"
    );
    let output = edge(directory, &new).output().expect("edge keys new");
    assert!(output.status.success(), "{output:?}");
    let key = fs::read_to_string(directory.join("key")).expect("the key");
    key.trim().to_owned()
}

/// A running daemon. Dropping it ends it.
pub struct Daemon {
    child: Child,
    /// What it logged until it served, lines of JSON.
    pub log: String,
    /// From its start until it said that it serves.
    pub load: Duration,
}

impl Daemon {
    /// Starts `edge.toml` of that directory and waits until it serves, `patience` at most.
    ///
    /// # Panics
    /// When it does not serve.
    #[must_use]
    pub fn start(directory: &Path, patience: Duration) -> Self {
        Self::start_as(Program::Wanted, directory, patience)
    }

    /// The same of that program.
    ///
    /// # Panics
    /// When it does not serve.
    #[must_use]
    pub fn start_as(program: Program, directory: &Path, patience: Duration) -> Self {
        let log = directory.join("log");
        let mut command = as_edge(program, directory, "run --config edge.toml");
        command
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).expect("a log"));
        let began = Instant::now();
        let mut daemon = Self {
            child: command.spawn().expect("setpriv of util-linux"),
            log: String::new(),
            load: Duration::ZERO,
        };
        loop {
            let text = fs::read_to_string(&log).expect("the log");
            if text.contains("\"message\":\"serving\"") {
                daemon.load = began.elapsed();
                daemon.log = text;
                return daemon;
            }
            let ended = daemon.child.try_wait().expect("our child");
            assert!(ended.is_none() && began.elapsed() < patience, "{text}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The number of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The first address that the log's line "serving" has under that name.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn address(&self, name: &str) -> SocketAddr {
        let serving = |line: &&str| line.contains("\"message\":\"serving\"");
        let line = self.log.lines().find(serving).expect("it serves");
        let line: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        let text = line["fields"][name].as_str().expect("an address");
        let first = text.trim_matches(['[', ']']).split(", ").next();
        first.expect("one").parse().expect("an address")
    }

    /// What it tells of itself.
    ///
    /// # Panics
    /// When it tells nothing.
    #[must_use]
    pub fn metrics(&self) -> String {
        let mut admin = TcpStream::connect(self.address("admin")).expect("the admin address");
        (admin.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")).expect("the admin address");
        let mut text = String::new();
        admin.read_to_string(&mut text).expect("metrics");
        text
    }
}

impl Drop for Daemon {
    /// Asked first: one that was built to tell what it did writes that as it ends.
    fn drop(&mut self) {
        let asked = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let began = Instant::now();
        while asked.is_ok() && began.elapsed() < LEAVE && matches!(self.child.try_wait(), Ok(None))
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
