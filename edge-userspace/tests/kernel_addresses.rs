//! Only hellos to where the edge listens are judged. The same port at another address is
//! somebody else's: of a server behind this host, of another one on it.

mod counters;
mod net;
#[macro_use]
mod skip;

use edge_common::policy::{Reason, Verdict};
use net::client::{Clients, Shape};
use net::edge::Edge;
use net::namespace::{Namespace, ip};
use net::process::token;
use net::wire::{Conditions, Family, Wire};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const HANG: Duration = Duration::from_secs(10);
/// What another server says to a hello.
const ANSWER: &[u8] = b"another server";
/// RFC 8446 section 5.1
const ALERT: u8 = 21;
const WILDCARDS: &str = "\"0.0.0.0:443\", \"[::]:443\"";

/// An edge on these addresses.
fn edge_on(listen: &str) -> Edge {
    Edge::start("driver", 1, |text| {
        text.replacen("\"10.9.0.1:443\", \"[2001:db8::1]:443\"", listen, 1)
    })
}

fn finish(edge: Edge) {
    let counters = edge.counters();
    counters::add_up(|name| counters.named(name));
    edge.daemon.stop();
}

/// A hello that the edge refuses.
fn refused_hello(edge: &Edge) -> Vec<u8> {
    let mut token = token(&edge.keys[0]);
    let last = token.last_mut().unwrap();
    *last = if *last == b'0' { b'1' } else { b'0' };
    Clients::of(&edge.place).hello(Shape::Classic, Some(token))
}

/// Another server in the calling thread's namespace; it ends with the test's process.
fn serve(address: SocketAddr) {
    let listener = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        for tcp in listener.incoming() {
            let Ok(mut tcp) = tcp else { return };
            let _ = tcp.set_read_timeout(Some(HANG));
            if let Ok(1..) = tcp.read(&mut [0; 4096]) {
                let _ = tcp.write_all(ANSWER);
            }
        }
    });
}

/// What the client hears to its hello first.
fn exchange(wire: &Wire, to: SocketAddr, from: IpAddr, hello: &[u8]) -> std::io::Result<Vec<u8>> {
    wire.client.run(|| {
        let domain = socket2::Domain::for_address(to);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(from, 0).into())?;
        socket.connect_timeout(&to.into(), HANG)?;
        let mut tcp = TcpStream::from(socket);
        tcp.set_read_timeout(Some(HANG))?;
        tcp.write_all(hello)?;
        let mut heard = vec![0; 256];
        let bytes = tcp.read(&mut heard)?;
        heard.truncate(bytes);
        Ok(heard)
    })
}

/// The hello is another server's: it passes without a verdict.
fn is_not_judged(edge: &Edge, wire: &Wire, to: SocketAddr, from: IpAddr, hello: &[u8]) {
    let before = edge.counters();
    let heard = exchange(wire, to, from, hello);
    let seen = edge.counters().since(&before);
    let what = format!("{from} to {to}: {}", seen.show());
    assert_eq!(heard.as_deref().ok(), Some(ANSWER), "{heard:?}, {what}");
    assert_eq!(seen.of(Reason::NoListener), 1, "{what}");
    assert_eq!(seen.of(Reason::NoConnection), 0, "{what}");
    assert_eq!(seen.named("hellos"), 0, "{what}");
}

/// The hello is the edge's, which refuses it in the kernel.
fn is_judged(edge: &Edge, wire: &Wire, to: SocketAddr, from: IpAddr, hello: &[u8]) {
    let before = edge.counters();
    let heard = exchange(wire, to, from, hello);
    let seen = edge.counters().since(&before);
    let what = format!("{from} to {to}: {}", seen.show());
    let first = heard.as_ref().ok().and_then(|heard| heard.first());
    assert_eq!(first, Some(&ALERT), "{heard:?}, {what}");
    assert_eq!(seen.verdicts(Verdict::Reject), 1, "{what}");
    assert_eq!(seen.of(Reason::NoListener), 0, "{what}");
}

/// Tells the client whose these addresses are: it need not ask while the program is being
/// attached, which a veth pair takes for a change of the link.
fn know_neighbours(wire: &Wire, addresses: [&str; 2]) {
    wire.client.run(|| {
        for address in addresses {
            ip(&format!(
                "neigh replace {address} lladdr 02:00:00:00:00:01 dev client0 nud permanent"
            ));
        }
    });
}

/// A network behind the server's host, with one host in it.
fn behind(wire: &Wire) -> Namespace {
    let host = Namespace::new();
    wire.server.run(|| {
        let path = host.path();
        ip(&format!(
            "link add up0 type veth peer name far0 netns {path}"
        ));
        ip("addr add 10.77.0.1/24 dev up0");
        ip("addr add 2001:db8:77::1/64 dev up0 nodad");
        ip("link set up0 up");
        for family in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{family}"), "1").unwrap();
        }
    });
    host.run(|| {
        ip("addr add 10.77.0.2/24 dev far0");
        ip("addr add 2001:db8:77::2/64 dev far0 nodad");
        ip("link set far0 up");
        ip("route add default via 10.77.0.1");
        ip("-6 route add default via 2001:db8:77::1");
    });
    wire.client.run(|| {
        ip("route add 10.77.0.0/24 via 10.9.0.1");
        ip("-6 route add 2001:db8:77::/64 via 2001:db8::1");
    });
    host
}

#[test]
fn a_hello_that_is_forwarded_to_another_host_passes() {
    needs_kernel!();
    let wire = Wire::new(Conditions::default());
    let host = behind(&wire);
    let others = ["10.77.0.2:443", "[2001:db8:77::2]:443"].map(|a| a.parse().unwrap());
    host.run(|| others.into_iter().for_each(serve));
    wire.server.run(|| {
        let edge = edge_on(WILDCARDS);
        let hello = refused_hello(&edge);
        for (family, other) in Family::BOTH.into_iter().zip(others) {
            is_not_judged(&edge, &wire, other, family.own(1), &hello);
            is_judged(&edge, &wire, family.server(), family.own(1), &hello);
        }
        finish(edge);
    });
}

#[test]
fn a_hello_that_is_bridged_to_another_host_passes() {
    needs_kernel!();
    let wire = Wire::new(Conditions::default());
    let host = Namespace::new();
    wire.server.run(|| {
        let path = host.path();
        ip(&format!(
            "link add up0 type veth peer name far0 netns {path}"
        ));
        ip("link set up0 up");
        ip("link add br0 address 02:00:00:00:00:01 type bridge");
        ip("addr flush dev edge0");
        for port in ["edge0", "up0"] {
            ip(&format!("link set {port} master br0"));
        }
        ip("addr add 10.9.0.1/24 dev br0");
        ip("link set br0 up");
    });
    host.run(|| {
        ip("addr add 10.9.0.77/24 dev far0");
        ip("link set far0 up");
        serve("10.9.0.77:443".parse().unwrap());
    });
    wire.server.run(|| {
        let edge = edge_on("\"0.0.0.0:443\"");
        let hello = refused_hello(&edge);
        let client = "10.9.0.2".parse().unwrap();
        let other = "10.9.0.77:443".parse().unwrap();
        is_not_judged(&edge, &wire, other, client, &hello);
        is_judged(&edge, &wire, Family::V4.server(), client, &hello);
        finish(edge);
    });
}

#[test]
fn a_hello_to_another_server_on_another_address_of_this_host_passes() {
    needs_kernel!();
    let wire = Wire::new(Conditions::default());
    let others = ["10.9.0.9:443", "[2001:db8::9]:443"].map(|a| a.parse().unwrap());
    know_neighbours(&wire, ["10.9.0.9", "2001:db8::9"]);
    wire.server.run(|| {
        ip("addr add 10.9.0.9/24 dev edge0");
        ip("addr add 2001:db8::9/64 dev edge0 nodad");
        others.into_iter().for_each(serve);
        let edge = edge_on("\"10.9.0.1:443\", \"[2001:db8::1]:443\"");
        assert_eq!(edge.daemon.status()["kernel"]["addresses"], 2);
        let hello = refused_hello(&edge);
        for (family, other) in Family::BOTH.into_iter().zip(others) {
            is_not_judged(&edge, &wire, other, family.own(1), &hello);
            is_judged(&edge, &wire, family.server(), family.own(1), &hello);
        }
        finish(edge);
    });
}

#[test]
fn addresses_that_come_and_go_under_a_wildcard_are_followed() {
    needs_kernel!();
    let wire = Wire::new(Conditions::default());
    let host = behind(&wire);
    // Two that first are this host's and then that of the one behind it.
    let both = ["10.9.0.5", "2001:db8::5"];
    know_neighbours(&wire, both);
    wire.server.run(|| {
        let edge = edge_on(WILDCARDS);
        let hello = refused_hello(&edge);
        let addresses = |status: &serde_json::Value| {
            let addresses = status["kernel"]["addresses"].as_u64();
            addresses.unwrap()
        };
        let first = addresses(&edge.daemon.status());
        let moved = Family::BOTH
            .into_iter()
            .zip(both)
            .map(|(family, address)| (family, SocketAddr::new(address.parse().unwrap(), 443)));

        ip("addr add 10.9.0.5/24 dev edge0");
        ip("addr add 2001:db8::5/64 dev edge0 nodad");
        (edge.daemon).wait_for_status(|status| addresses(status) == first + 2);
        for (family, address) in moved.clone() {
            is_judged(&edge, &wire, address, family.own(1), &hello);
        }

        ip("addr del 10.9.0.5/24 dev edge0");
        ip("addr del 2001:db8::5/64 dev edge0");
        ip("route add 10.9.0.5/32 via 10.77.0.2");
        ip("-6 route add 2001:db8::5/128 via 2001:db8:77::2");
        host.run(|| {
            ip("addr add 10.9.0.5/32 dev far0");
            ip("addr add 2001:db8::5/128 dev far0 nodad");
            moved.clone().for_each(|(_, address)| serve(address));
        });
        (edge.daemon).wait_for_status(|status| addresses(status) == first);
        for (family, address) in moved {
            is_not_judged(&edge, &wire, address, family.own(1), &hello);
        }
        finish(edge);
    });
}

#[test]
fn more_addresses_than_the_table_holds_pass_and_the_status_says_so() {
    needs_kernel!();
    let wire = Wire::new(Conditions::default());
    wire.server.run(|| {
        // One command for them all.
        let lines: String = (0..5000u32)
            .map(|n| format!("addr add 10.200.{}.{}/32 dev lo\n", n / 250, n % 250 + 1))
            .collect();
        let file = std::env::temp_dir().join(format!("addresses-{}", std::process::id()));
        std::fs::write(&file, lines).unwrap();
        ip(&format!("-batch {}", file.display()));
        std::fs::remove_file(&file).unwrap();
        let edge = edge_on("\"0.0.0.0:443\"");
        let kernel = &edge.daemon.status()["kernel"];
        assert_eq!(kernel["addresses"], 4096);
        let notes = kernel["notes"].to_string();
        assert!(notes.contains("do not fit the kernel's table"), "{notes}");
        finish(edge);
    });
}
