//! The daemon with its kernel half, in a network namespace of each test's own: what it
//! attaches it detaches, however it ends.

mod counters;
#[path = "net/namespace.rs"]
mod namespace;
#[path = "daemon/process.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of the daemon without a kernel half"
)]
mod process;
#[macro_use]
mod skip;

use namespace::{in_namespace, ip};
use process::Place;
use rustix::process::Signal;
use std::process::Command;

/// What the kernel itself says.
fn attached() -> bool {
    ip("-d link show edge0").contains("prog/xdp")
}

/// An edge on `edge0` in this mode.
fn place(attach: &str) -> Place {
    let place = Place::new();
    configure(&place, attach, "10.9.0.1:0");
    place.new_key("alice");
    place
}

fn configure(place: &Place, attach: &str, listen: &str) {
    place.configure(|text| {
        text.replace("\"off\"", &format!("\"{attach}\""))
            .replacen("127.0.0.1:0", listen, 1)
    });
}

/// The kernel's counters, as the daemon shows them, once nothing came between two looks.
fn add_up(daemon: &process::Daemon) {
    let mut before = daemon.status();
    let status = daemon.wait_for_status(|status| {
        let same = status["kernel"]["counters"] == before["kernel"]["counters"];
        before = status.clone();
        same
    });
    let counters = status["kernel"]["counters"].as_array().unwrap();
    counters::add_up(|name| {
        let counter = counters.iter().find(|counter| counter[0] == name);
        counter.unwrap()[1].as_u64().unwrap()
    });
}

#[test]
fn what_is_attached_is_said_first_followed_and_detached_by_a_stop() {
    needs_kernel!();
    in_namespace(|| {
        for mode in ["generic", "driver"] {
            let place = place(mode);
            let daemon = place.start();
            assert!(attached());
            let log = daemon.log();
            let first: serde_json::Value =
                serde_json::from_str(log.lines().next().unwrap()).unwrap();
            let message = first["fields"]["message"].as_str().unwrap();
            let expected = format!("kernel half: {mode} on edge0 ({mode})");
            assert!(message.starts_with(&expected), "{message}");
            let status = daemon.status();
            assert_eq!(status["kernel"]["mode"], mode);
            assert_eq!(status["kernel"]["keys"], 1);
            assert_eq!(status["kernel"]["policy_complete"], true);
            assert_eq!(status["kernel"]["ports"][0], daemon.listen.port());
            // Its map follows the store.
            let bob = place.new_key("bob");
            daemon.wait_for_status(|status| status["kernel"]["keys"] == 2);
            let remove = format!("keys remove --store keys.journal {}", bob.id);
            assert!(place.edge(&remove).status.success());
            daemon.wait_for_status(|status| status["kernel"]["keys"] == 1);
            add_up(&daemon);
            daemon.stop();
            assert!(!attached());
        }
    });
}

#[test]
fn killed_it_leaves_nothing_attached_and_starts_again() {
    needs_kernel!();
    in_namespace(|| {
        let place = place("generic");
        let mut daemon = place.start();
        assert!(attached());
        let listen = daemon.listen.to_string();
        daemon.signal(Signal::KILL);
        daemon.wait();
        assert!(!attached());
        configure(&place, "generic", &listen);
        let daemon = place.start();
        assert!(attached());
        add_up(&daemon);
        daemon.stop();
        assert!(!attached());
    });
}

#[test]
fn a_start_that_fails_attaches_nothing() {
    needs_kernel!();
    in_namespace(|| {
        let place = place("generic");
        let fails = || {
            let output = place.edge("run --config edge.toml");
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert_eq!(said.lines().count(), 1, "one line: {said}");
            assert!(!attached());
            said
        };
        let taken = std::net::TcpListener::bind("10.9.0.1:0").unwrap();
        let listen = taken.local_addr().unwrap().to_string();
        configure(&place, "generic", &listen);
        assert!(fails().contains("in use"));
        drop(taken);
        // An address of no interface: there is none to attach to.
        configure(&place, "generic", "127.0.0.1:0");
        ip("link set edge0 down");
        place.configure(|text| {
            text.replace("\"off\"", "\"driver\"\ninterfaces = [\"edge0\", \"lo\"]")
        });
        // The loopback device has no driver mode: nothing stays on the other one either.
        let said = fails();
        assert!(said.contains("lo"), "{said}");
    });
}

#[test]
fn without_privileges_auto_goes_on_in_userspace_and_driver_says_what_is_lacking() {
    needs_kernel!();
    in_namespace(|| {
        let place = place("auto");
        let drop_all = |command: &mut Command| {
            let inner = std::mem::replace(command, Command::new("setpriv"));
            command
                .args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"])
                .arg(inner.get_program())
                .args(inner.get_args())
                .current_dir(place.path())
                .stdin(std::process::Stdio::null())
                .stderr(std::fs::File::create(place.path().join("log")).unwrap());
        };
        let daemon = place.start_with(drop_all);
        assert!(!attached());
        let notes = daemon.status()["kernel"]["notes"].to_string();
        assert!(
            notes.contains("CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"),
            "{notes}"
        );
        daemon.stop();
        configure(&place, "driver", "10.9.0.1:0");
        let mut command = place.command("run --config edge.toml");
        drop_all(&mut command);
        let failed = !command.status().unwrap().success();
        let said = std::fs::read_to_string(place.path().join("log")).unwrap();
        assert!(failed && said.lines().count() == 1, "{said}");
        assert!(
            said.contains("kernel.attach = \"driver\"") && said.contains("CAP_BPF"),
            "{said}"
        );
    });
}
