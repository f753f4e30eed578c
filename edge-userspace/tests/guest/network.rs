//! Two network namespaces and a veth pair between them, on the threads of one test. What a
//! kernel has no module for is told before anything depends on it.

use std::process::Command;

/// The edge's addresses, with the port that it listens on: the namespace is the test's own.
pub(crate) const ADDRESSES: [&str; 2] = ["10.9.0.1:443", "[2001:db8::1]:443"];

/// The calling thread, and those that it starts, get a network of their own.
pub(crate) fn own_namespace() {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
    ip("link set lo up");
}

/// The edge's end, `edge0`, and the other in the namespace of thread `client`.
pub(crate) fn lay_link(client: i32) {
    ip(&format!(
        "link add edge0 type veth peer name client0 netns {client}"
    ));
    ip("addr add 10.9.0.1/24 dev edge0");
    ip("addr add 2001:db8::1/64 dev edge0 nodad");
    ip("link set edge0 up");
}

/// The clients' end, which cuts what it sends into segments, as on a wire; every
/// post-quantum hello is longer than one.
pub(crate) fn take_up_link() {
    ip("addr add 10.9.0.2/24 dev client0");
    ip("addr add 2001:db8::2/64 dev client0 nodad");
    ip("link set client0 mtu 1400 gso_max_segs 1");
    ip("link set client0 up");
}

/// What this kernel lacks of what is asked for, by the tool that says so.
pub(crate) fn lacks(program: &str, arguments: &str) -> Option<String> {
    let arguments = arguments.to_owned();
    let program = program.to_owned();
    // In a namespace that ends with the thread.
    let tried = std::thread::spawn(move || {
        own_namespace();
        let tried = Command::new(&program).args(arguments.split(' ')).output();
        match tried {
            Ok(output) if output.status.success() => None,
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let said = said.lines().next().unwrap_or_default();
                Some(format!("`{program} {arguments}`: {said}"))
            }
            Err(error) => Some(format!("{program}: {error}")),
        }
    });
    tried.join().unwrap()
}

pub(crate) fn ip(arguments: &str) -> String {
    run("ip", arguments)
}

pub(crate) fn run(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split(' ')).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// TCP segments that this thread's namespace has sent again (RFC 4022, tcpRetransSegs).
pub(crate) fn segments_sent_again() -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = table.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut columns = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = columns.find(|(name, _)| *name == "RetransSegs").unwrap();
    value.parse().unwrap()
}
