//! What stays of refused connections, with the daemon and its kernel half on one side of a
//! veth pair and real clients on the other: nothing, whatever the client does.

#[path = "daemon/process.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of the daemon without a kernel half"
)]
mod process;
#[macro_use]
mod skip;
#[macro_use]
mod pair;

use edge_common::token::{KeyId, Token};
use pair::{HANG, LISTEN, Net, ip, wait_for};
use process::{Daemon, Key, Place};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

const CLASSIC: &dyn SupportedKxGroup = aws_lc_rs::kx_group::X25519;
const POST_QUANTUM: &dyn SupportedKxGroup = aws_lc_rs::kx_group::X25519MLKEM768;
/// Two addresses, two threads.
const NO_CONNECTION: &[(u8, usize)] = &[(LISTEN, 4)];

/// A daemon and its clients' way to it.
struct World {
    net: Net,
    place: Place,
    key: Key,
    daemon: Daemon,
}

/// Runs a test against a daemon with these lines in `[kernel]`.
fn in_world(kernel: &str, test: impl FnOnce(&World) + Send + 'static) {
    let kernel = kernel.to_owned();
    let thread = std::thread::spawn(move || {
        let net = Net::new();
        ip("link set lo up");
        let place = Place::new();
        place.configure(|text| {
            text.replace("attach = \"off\"", &kernel).replacen(
                "\"127.0.0.1:0\"",
                "\"10.9.0.1:443\", \"[2001:db8::1]:443\"",
                1,
            )
        });
        let key = place.new_key("alice");
        let daemon = place.start();
        let world = World {
            net,
            place,
            key,
            daemon,
        };
        test(&world);
        world.daemon.stop();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

impl World {
    /// Connections over both families, each with a hello in one segment and in two, whose
    /// token is of no key.
    fn refused(&self, hears: bool) -> Vec<TcpStream> {
        let ways = [
            (0, CLASSIC),
            (1, CLASSIC),
            (0, POST_QUANTUM),
            (1, POST_QUANTUM),
        ];
        let clients = ways.map(|(server, group)| (self.net.connect(server), hello(group)));
        if !hears {
            self.net.hear(false);
        }
        let sent = clients.into_iter().map(|(mut client, hello)| {
            client.set_nodelay(true).unwrap();
            client.set_read_timeout(Some(HANG)).unwrap();
            for part in hello.chunks(1000) {
                client.write_all(part).unwrap();
                std::thread::sleep(Duration::from_millis(10));
            }
            client
        });
        sent.collect()
    }

    fn of_kernel(&self, name: &str) -> u64 {
        let status = self.daemon.status();
        let counters = status["kernel"]["counters"].as_array().unwrap();
        let found = counters.iter().find(|counter| counter[0] == name);
        found.unwrap()[1].as_u64().unwrap()
    }

    fn wait_for_reaped(&self, wanted: [(&str, u64); 2]) {
        self.daemon.wait_for_status(|status| {
            let reaped = &status["kernel"]["reaped"];
            wanted.iter().all(|(name, value)| reaped[*name] == *value)
        });
    }

    /// A good client is served at once.
    fn serves(&self) {
        let answer = self.net.at_client(|| {
            let mut tls = self.place.connect_with(&self.daemon, &self.key).unwrap();
            process::ask(&mut tls, &self.key.text).unwrap()
        });
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

fn hello(group: &'static dyn SupportedKxGroup) -> Vec<u8> {
    let provider = CryptoProvider {
        kx_groups: vec![group],
        ..aws_lc_rs::default_provider()
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let token = Token::issue(KeyId(5), [1, 2], 1_800_000_000, 1);
    config.alpn_protocols = vec![b"http/1.1".to_vec(), token.to_name().to_vec()];
    let name = ServerName::try_from("edge.test").unwrap();
    let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hello = Vec::new();
    tls.write_tls(&mut hello).unwrap();
    hello
}

#[test]
fn of_a_client_that_never_acknowledges_nothing_stays() {
    needs_destroy!();
    for mode in ["generic", "driver"] {
        for answer in ["alert", "rst"] {
            let kernel = format!("attach = \"{mode}\"\nanswer = \"{answer}\"");
            in_world(&kernel, |world| {
                let clients = world.refused(false);
                world.wait_for_reaped([("destroyed", 4), ("failed", 0)]);
                wait_for(NO_CONNECTION);
                assert_eq!(world.of_kernel("key_unknown"), 4);
                drop(clients);
                world.net.hear(true);
            });
        }
    }
}

#[test]
fn a_client_that_acknowledges_its_alert_frees_the_servers_side_by_that() {
    needs_destroy!();
    in_world("attach = \"generic\"", |world| {
        for mut client in world.refused(true) {
            let mut alert = Vec::new();
            client.read_to_end(&mut alert).unwrap();
            assert_eq!(alert, [0x15, 3, 3, 0, 2, 2, 49]);
        }
        wait_for(NO_CONNECTION);
        world.wait_for_reaped([("closed", 4), ("destroyed", 0)]);
        world.serves();
    });
}

#[test]
fn a_client_that_was_reset_says_nothing_and_the_servers_side_goes() {
    needs_destroy!();
    in_world("attach = \"generic\"\nanswer = \"rst\"", |world| {
        for mut client in world.refused(true) {
            let error = client.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        world.wait_for_reaped([("destroyed", 4), ("failed", 0)]);
        wait_for(NO_CONNECTION);
        world.serves();
    });
}

/// As above the rate of answers, and where sockets cannot be destroyed.
#[test]
fn with_the_servers_side_first_the_hello_itself_frees_it() {
    needs_kernel!();
    for (answer, counter) in [("alert", "answered_up"), ("drop", "answered_drop")] {
        let kernel = format!("attach = \"generic\"\nanswer = \"{answer}\"\nanswers_per_second = 0");
        in_world(&kernel, move |world| {
            let clients = world.refused(false);
            wait_for(NO_CONNECTION);
            assert_eq!(world.of_kernel("key_unknown"), 4);
            assert!(world.of_kernel(counter) >= 4);
            world.wait_for_reaped([("destroyed", 0), ("waiting", 0)]);
            drop(clients);
            world.net.hear(true);
            world.serves();
        });
    }
}

/// More at once than are answered at once, so that both ways to free the server's side are used.
#[test]
fn of_hundreds_of_silent_clients_at_once_nothing_stays() {
    needs_destroy!();
    let kernel = "attach = \"generic\"\nanswers_per_second = 100";
    in_world(kernel, |world| {
        let hello = hello(CLASSIC);
        let mut clients: Vec<_> = (0..800).map(|i| world.net.connect(i % 2)).collect();
        world.net.hear(false);
        for client in &mut clients {
            client.write_all(&hello).unwrap();
        }
        wait_for(NO_CONNECTION);
        let (freed_first, status) = (world.of_kernel("answered_up"), world.daemon.status());
        let reaped = &status["kernel"]["reaped"];
        assert!(freed_first > 0, "{status:#}");
        assert!(reaped["destroyed"].as_u64().unwrap() > 0, "{reaped}");
        assert_eq!(
            (&reaped["failed"], &reaped["overflowed"]),
            (&0.into(), &0.into())
        );
        drop(clients);
        world.net.hear(true);
        world.serves();
    });
}

#[test]
fn userspace_finds_what_the_kernel_found() {
    needs_kernel!();
    in_world("attach = \"generic\"", |world| {
        for _ in 0..5 {
            world.serves();
        }
        // One without a token, and four that are refused in the kernel and never get here.
        let legacy = [b"http/1.1".to_vec()];
        let connect = || world.place.connect(&world.daemon, &legacy).map(drop);
        world.net.at_client(connect).unwrap();
        drop(world.refused(true));
        let outcome = |status: &Value, name: &str| {
            let outcomes = status["kernel"]["comparisons"]["outcomes"].as_array();
            let found = outcomes.unwrap().iter().find(|outcome| outcome[0] == name);
            found.unwrap()[1].as_u64().unwrap()
        };
        let status = world.daemon.status();
        assert_eq!(outcome(&status, "agreed"), 6, "{status:#}");
        assert_eq!(outcome(&status, "differed"), 0);
        let flows = &status["kernel"]["flows"];
        assert_eq!(flows["capacity"], 32_768);
        assert!(flows["recent"].as_u64().unwrap() >= 6, "{flows}");
        let (_, metrics) = world.daemon.admin("/metrics");
        let line = "edge_kernel_comparisons_total{outcome=\"agreed\"} 6";
        assert!(metrics.lines().any(|l| l == line), "{metrics}");
    });
}
