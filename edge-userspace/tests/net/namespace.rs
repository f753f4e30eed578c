//! Network namespaces of a test's own. A namespace belongs to threads and to the processes
//! that they start, and ends with the last of them: nothing has to be cleaned up, however a
//! test ends. Not here: what a test builds inside ([`super::wire`]).

#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test file uses its own part of it"
)]

use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::process::Command;

/// A network namespace that lives as long as this.
pub(crate) struct Namespace(File);

impl Namespace {
    /// A new one, with loopback up. The calling thread stays where it is.
    pub(crate) fn new() -> Self {
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            ip("link set lo up");
            Self(File::open("/proc/thread-self/ns/net").unwrap())
        });
        made.join().unwrap()
    }

    /// Moves the calling thread here, and what it starts from now on.
    pub(crate) fn enter(&self) {
        setns(&self.0, CloneFlags::CLONE_NEWNET).unwrap();
    }

    /// Runs `work` on a thread that lives here, to its end.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let done = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    self.enter();
                    work()
                })
                .join()
        });
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// A path by which `ip` finds it.
    pub(crate) fn path(&self) -> String {
        use std::os::fd::AsRawFd as _;
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// Runs a test in a fresh network namespace with `edge0` (10.9.0.1, 2001:db8::1) and its
/// peer `client0`, both up.
pub(crate) fn in_namespace(test: impl FnOnce() + Send) {
    Namespace::new().run(|| {
        ip("link add edge0 type veth peer name client0");
        ip("addr add 10.9.0.1/24 dev edge0");
        ip("addr add 2001:db8::1/64 dev edge0 nodad");
        ip("link set edge0 up");
        ip("link set client0 up");
        test();
    });
}

/// Runs `ip` with these arguments in the calling thread's namespace; gives what it says.
pub(crate) fn ip(arguments: &str) -> String {
    let output = (Command::new("ip").args(arguments.split(' ')).output()).expect("iproute2");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}
