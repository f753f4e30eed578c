//! A wire between two network namespaces: a veth pair that behaves like one (segments of at
//! most one MTU, checksums filled in, tags inline), with as many client addresses as a test
//! wants, tagged or lossy at will. Not here: who talks over it.

use super::bpf::{self, Direction, Link};
use super::namespace::{Namespace, ip};
use super::system::{self, Offload};
use aya::programs::XdpMode;
use edge_userspace::kernel::{Program, Sizes, object};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The server's end, in the server's namespace.
pub(crate) const SERVER_INTERFACE: &str = "edge0";
/// The client's end, in the client's namespace.
pub(crate) const CLIENT_INTERFACE: &str = "client0";
pub(crate) const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Where the edge listens.
pub(crate) const PORT: u16 = 443;
const SERVER_V4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The edge's address.
    pub(crate) fn server(self) -> SocketAddr {
        let address = match self {
            Self::V4 => IpAddr::V4(SERVER_V4),
            Self::V6 => IpAddr::V6(SERVER_V6),
        };
        SocketAddr::new(address, PORT)
    }

    /// The `index`th address that sockets of the client's namespace can be bound to, each
    /// in a prefix (/24, /64) of its own.
    pub(crate) fn own(self, index: u32) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::from_bits(0x0a40_0001 + (index << 8 & 0x3f_ff00))),
            Self::V6 => prefix_v6(0x64, index),
        }
    }

    /// One of 200 such addresses in the `index`th's prefix.
    pub(crate) fn neighbour(self, index: u32, host: u32) -> IpAddr {
        match self.own(index) {
            IpAddr::V4(own) => IpAddr::V4(Ipv4Addr::from_bits(own.to_bits() + host % 200)),
            IpAddr::V6(own) => IpAddr::V6(Ipv6Addr::from_bits(own.to_bits() + u128::from(host))),
        }
    }

    /// The `index`th address whose answers reach the client's interface and no socket: the
    /// namespace does not know it, so its stack never answers for it.
    pub(crate) fn foreign(self, index: u32) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::from_bits(0x0a80_0001 + (index << 8 & 0x7f_ff00))),
            Self::V6 => prefix_v6(0x128, index),
        }
    }
}

fn prefix_v6(group: u16, index: u32) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(
        0x2001,
        0xdb8,
        group,
        index as u16,
        0,
        0,
        0,
        1,
    ))
}

/// How frames travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// The VLAN that every frame between the two is tagged with.
    pub(crate) vlan: Option<u16>,
    /// Of 1,000 frames towards the server this many are spoilt before it sees them.
    pub(crate) lost_before: u32,
    /// Of 1,000 frames that the server's XDP program has passed this many are lost before
    /// its stack sees them: the client sends again what the program has seen.
    pub(crate) lost_behind: u32,
}

/// Both namespaces and the wire. The programs go before their interfaces.
pub(crate) struct Wire {
    _links: Vec<Link>,
    _peer: Program,
    pub(crate) server: Namespace,
    pub(crate) client: Namespace,
}

impl Wire {
    pub(crate) fn new(conditions: Conditions) -> Self {
        let (server, client) = (Namespace::new(), Namespace::new());
        let mut links = Vec::new();
        server.run(|| {
            let peer = client.path();
            ip(&format!(
                "link add edge0 address 02:00:00:00:00:01 type veth \
                 peer name client0 address 02:00:00:00:00:02 netns {peer}"
            ));
            // More addresses than a neighbour table holds, so by way of a gateway.
            address_and_routes(SERVER_INTERFACE, "1", "2", "02:00:00:00:00:02");
            ip("route add 10.64.0.0/10 via 10.9.0.2");
            ip("route add 10.128.0.0/9 via 10.9.0.2");
            ip("-6 route add 2001:db8:64::/48 via 2001:db8::2");
            ip("-6 route add 2001:db8:128::/48 via 2001:db8::2");
        });
        client.run(|| {
            address_and_routes(CLIENT_INTERFACE, "2", "1", "02:00:00:00:00:01");
            ip("route add local 10.64.0.0/10 dev lo");
            ip("-6 route add local 2001:db8:64::/48 dev lo");
            std::fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1").unwrap();
        });
        for (namespace, interface) in [(&server, SERVER_INTERFACE), (&client, CLIENT_INTERFACE)] {
            let Conditions {
                vlan,
                lost_before,
                lost_behind,
            } = conditions;
            namespace.run(|| {
                for offload in Offload::ALL {
                    system::switch_off(interface, offload).unwrap();
                }
                // The last one attached is the last to see a frame.
                if interface == CLIENT_INTERFACE && lost_before > 0 {
                    let program = bpf::spoil(lost_before);
                    links.push(bpf::attach(&program, interface, Direction::Egress));
                }
                if let Some(tag) = vlan {
                    let push = bpf::push_tag(tag);
                    links.push(bpf::attach(&push, interface, Direction::Egress));
                    let pop = bpf::pop_tag();
                    links.push(bpf::attach(&pop, interface, Direction::Ingress));
                }
                if interface == SERVER_INTERFACE && lost_behind > 0 {
                    let program = bpf::lose(lost_behind);
                    links.push(bpf::attach(&program, interface, Direction::Ingress));
                }
            });
        }
        // What a driver-mode program sends back is thrown away without one on the peer. It
        // comes last: veth does not let segmentation be switched off beside it.
        let peer = client.run(|| {
            let mut stub = Program::load(object::OBJECT, &Sizes::SMALL).unwrap();
            let pass = stub.pass().unwrap();
            pass.attach(CLIENT_INTERFACE, XdpMode::Driver).unwrap();
            stub
        });
        Self {
            _links: links,
            _peer: peer,
            server,
            client,
        }
    }
}

fn address_and_routes(interface: &str, host: &str, peer: &str, peer_mac: &str) {
    ip(&format!("addr add 10.9.0.{host}/24 dev {interface}"));
    ip(&format!(
        "addr add 2001:db8::{host}/64 dev {interface} nodad"
    ));
    ip(&format!("link set {interface} up"));
    for peer in [format!("10.9.0.{peer}"), format!("2001:db8::{peer}")] {
        ip(&format!(
            "neigh replace {peer} lladdr {peer_mac} dev {interface} nud permanent"
        ));
    }
}
