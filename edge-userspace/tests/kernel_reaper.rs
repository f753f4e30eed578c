//! Sockets of refused connections and their end, with real connections over a veth pair
//! between two network namespaces. The flow table is plain memory that the tests write: what
//! is shown here is which sockets go and which stay, not who is refused.

#[macro_use]
mod skip;
#[macro_use]
mod pair;

use edge_common::flow::{FlowKey, FlowSet, FlowSlot, Rejected, state};
use edge_userspace::charges::flow_key;
use edge_userspace::kernel::flows::{FlowTable, words_for};
use edge_userspace::kernel::memory::Memory;
use edge_userspace::kernel::monotonic_ns;
use edge_userspace::kernel::reaper::{Counts, Reaped, Reaper};
use edge_userspace::kernel::sockets::{Cannot, Sockets};
use edge_userspace::listener;
use pair::{
    ESTABLISHED, FIN_WAIT1, HANG, LISTEN, Net, PORT, SERVERS, SYN_RECV, ip, sockets, wait_for,
};
use std::io::{ErrorKind, Read as _};
use std::mem::offset_of;
use std::net::{IpAddr, Shutdown, SocketAddr, SocketAddrV6, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const SECRET: [u64; 2] = [11, 12];

/// A flow table with one set, and the other end of its memory.
struct Table {
    flows: Arc<FlowTable>,
    sets: Memory,
    slots: Memory,
    next: usize,
}

struct World {
    net: Net,
    table: Table,
    reaper: Reaper,
    counts: Arc<Counts>,
}

/// Runs a test in namespaces of its own.
fn in_world(test: impl FnOnce(World) + Send + 'static) {
    let thread = std::thread::spawn(move || {
        let net = Net::new();
        let table = Table::new();
        let counts = Arc::new(Counts::default());
        // Here, for it sees the namespace in which it was made.
        let sockets = Sockets::open(vec![index("edge0")]).expect("SOCK_DESTROY");
        test(World {
            reaper: Reaper::new(Arc::clone(&table.flows), sockets, Arc::clone(&counts)),
            net,
            table,
            counts,
        });
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

impl Table {
    fn new() -> Self {
        let (sets, slots) = words_for(1);
        let twice = |words: usize| {
            let file = tempfile::tempfile().unwrap();
            file.set_len(words as u64 * 8).unwrap();
            [(); 2].map(|()| Memory::map(&file, words).unwrap())
        };
        let ([sets, our_sets], [slots, our_slots]) = (twice(sets), twice(slots));
        Self {
            flows: Arc::new(FlowTable::new(sets, slots, SECRET).unwrap()),
            sets: our_sets,
            slots: our_slots,
            next: 0,
        }
    }

    /// Says of a connection that it is in this state, in the next place of the set.
    fn put(&mut self, flow: &FlowKey, state: u32) {
        let (way, words) = (self.next % 4, size_of::<FlowSlot>() / 8);
        self.next += 1;
        let put = |memory: &Memory, first: usize, at: usize, half: u32| {
            let word = &memory[first + at / 8];
            let mut bytes = word.load(Ordering::Relaxed).to_ne_bytes();
            bytes[at % 8..][..4].copy_from_slice(&half.to_ne_bytes());
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        };
        for (word, half) in (0..).zip(flow.client.iter().chain(&flow.server)) {
            put(&self.slots, way * words, word * 4, *half);
        }
        let ports = [flow.client_port_be, flow.server_port_be].map(u16::to_ne_bytes);
        let ports = u32::from_ne_bytes([ports[0][0], ports[0][1], ports[1][0], ports[1][1]]);
        put(
            &self.slots,
            way * words,
            offset_of!(FlowKey, client_port_be),
            ports,
        );
        put(&self.slots, way * words, offset_of!(FlowSlot, state), state);
        let (_, tag) = flow.place(SECRET, 0);
        put(&self.sets, 0, offset_of!(FlowSet, tags) + way * 4, tag);
    }
}

impl World {
    /// The kernel half tells that a connection was refused, a while ago.
    fn tell(&mut self, flow: FlowKey) {
        let monotonic_ns = monotonic_ns() - 1_000_000_000;
        self.reaper.push(Rejected { monotonic_ns, flow });
        self.reaper.turn(self::monotonic_ns());
    }

    fn refused(&mut self, flow: FlowKey) {
        self.table.put(&flow, state::REJECTED);
        self.tell(flow);
    }

    fn reaped(&self) -> Reaped {
        self.counts.get()
    }
}

fn flow_of(client: &TcpStream) -> FlowKey {
    flow_key(client.local_addr().unwrap(), client.peer_addr().unwrap())
}

fn index(interface: &str) -> u32 {
    nix::net::if_::if_nametoindex(interface).unwrap()
}

/// One socket for both families, as `[::]` is where the system leaves IPV6_V6ONLY off.
fn dual() -> TcpListener {
    TcpListener::bind(("::", PORT)).unwrap()
}

#[test]
fn an_accepted_connection_of_either_family_goes_and_the_listening_socket_stays() {
    needs_destroy!();
    in_world(|mut world| {
        let listener = dual();
        // An IPv4 one as an IPv6 socket, and an IPv6 one.
        for server in 0..2 {
            let client = world.net.connect(server);
            let (mut accepted, _) = listener.accept().unwrap();
            wait_for(&[(ESTABLISHED, 1), (LISTEN, 1)]);
            let flow = flow_of(&client);
            world.refused(flow);
            wait_for(&[(LISTEN, 1)]);
            accepted.set_read_timeout(Some(HANG)).unwrap();
            let end = accepted.read(&mut [0]).unwrap_err();
            assert_eq!(end.kind(), ErrorKind::ConnectionAborted);
            // With the connection gone its addresses lead to the listening socket alone.
            world.tell(flow);
            wait_for(&[(LISTEN, 1)]);
        }
        let _client = world.net.connect(0);
        listener.accept().unwrap();
        let expected = Reaped {
            destroyed: 2,
            gone: 2,
            ..Reaped::default()
        };
        assert_eq!(world.reaped(), expected);
    });
}

#[test]
fn an_ipv4_socket_goes_too() {
    needs_destroy!();
    in_world(|mut world| {
        let listener = TcpListener::bind(("10.9.0.1", PORT)).unwrap();
        let client = world.net.connect(0);
        let _accepted = listener.accept().unwrap();
        world.net.silence();
        world.refused(flow_of(&client));
        wait_for(&[(LISTEN, 1)]);
        assert_eq!(world.reaped().destroyed, 1);
    });
}

/// Its socket is bound to the link.
#[test]
fn a_connection_of_link_local_addresses_goes_too() {
    needs_destroy!();
    in_world(|mut world| {
        let listener = dual();
        ip("addr add fe80::1/64 dev edge0 nodad");
        let client = world.net.at_client(|| {
            ip("addr add fe80::2/64 dev client0 nodad");
            let server = "fe80::1".parse().unwrap();
            let server = SocketAddrV6::new(server, PORT, 0, index("client0"));
            TcpStream::connect_timeout(&server.into(), HANG).unwrap()
        });
        let _accepted = listener.accept().unwrap();
        world.refused(flow_of(&client));
        wait_for(&[(LISTEN, 1)]);
        assert_eq!(world.reaped().destroyed, 1);
    });
}

#[test]
fn connections_of_a_silent_client_that_the_server_has_closed_go() {
    needs_destroy!();
    in_world(|mut world| {
        let listener = dual();
        let clients = [0, 1].map(|server| world.net.connect(server));
        let accepted = [0, 1].map(|_| listener.accept().unwrap().0);
        world.net.silence();
        for accepted in accepted {
            accepted.shutdown(Shutdown::Write).unwrap();
        }
        wait_for(&[(FIN_WAIT1, 2), (LISTEN, 1)]);
        for client in &clients {
            world.refused(flow_of(client));
        }
        wait_for(&[(LISTEN, 1)]);
        assert_eq!(world.reaped().destroyed, 2);
    });
}

/// The edge's own listening sockets accept when data comes (TCP_DEFER_ACCEPT), so a client
/// whose whole hello was refused is a request socket.
#[test]
fn request_sockets_go() {
    needs_destroy!();
    in_world(|mut world| {
        let listeners = SERVERS.map(|server| {
            let address = SocketAddr::new(server.parse().unwrap(), PORT);
            listener::bind(address, 16, Duration::from_secs(30), NonZeroUsize::MIN).unwrap()
        });
        let clients = [0, 1].map(|server| world.net.connect(server));
        wait_for(&[(SYN_RECV, 2), (LISTEN, 2)]);
        world.net.silence();
        for client in &clients {
            world.refused(flow_of(client));
        }
        wait_for(&[(LISTEN, 2)]);
        assert_eq!(world.reaped().destroyed, 2);
        drop(listeners);
    });
}

#[test]
fn connections_in_a_full_backlog_go() {
    needs_destroy!();
    in_world(|mut world| {
        // Room for two, and one is there. The others are begun before either of them is.
        let listener = socket2::Socket::from(dual());
        listener.listen(1).unwrap();
        let first = world.net.connect(0);
        world.net.reach(false);
        let clients = [0, 1].map(|server| {
            let server: IpAddr = SERVERS[server].parse().unwrap();
            let address = SocketAddr::from((server, PORT));
            let domain = socket2::Domain::for_address(address);
            world.net.at_client(|| {
                let client = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
                client.set_nonblocking(true).unwrap();
                client.connect(&address.into()).unwrap_err();
                client
            })
        });
        wait_for(&[(ESTABLISHED, 1), (SYN_RECV, 2), (LISTEN, 1)]);
        world.net.reach(true);
        wait_for(&[(ESTABLISHED, 2), (SYN_RECV, 1), (LISTEN, 1)]);
        world.net.silence();
        world.refused(flow_of(&first));
        for client in clients.map(TcpStream::from) {
            world.refused(flow_of(&client));
        }
        wait_for(&[(LISTEN, 1)]);
        assert_eq!(world.reaped().destroyed, 3);
    });
}

#[test]
fn only_what_the_flow_table_says_is_refused_goes_and_not_before_its_time() {
    needs_destroy!();
    in_world(|mut world| {
        let listener = dual();
        let client = world.net.connect(0);
        let _accepted = listener.accept().unwrap();
        let flow = flow_of(&client);
        // Not in the table: its entry was emptied by a SYN, or had to make room.
        world.tell(flow);
        assert_eq!(world.reaped().spared, 1);
        // Another connection with the same addresses.
        for state in [state::BEGUN, state::JUDGED] {
            world.table.next = 0;
            world.table.put(&flow, state);
            world.tell(flow);
        }
        assert_eq!(world.reaped().spared, 3);
        // Refused, but just now.
        world.table.next = 0;
        world.table.put(&flow, state::REJECTED);
        let now_ns = monotonic_ns();
        world.reaper.push(Rejected {
            monotonic_ns: now_ns,
            flow,
        });
        world.reaper.turn(now_ns + 299_000_000);
        assert_eq!((world.reaped().destroyed, world.reaped().waiting), (0, 1));
        assert_eq!(sockets()[&ESTABLISHED], 1);
        world.reaper.turn(now_ns + 300_000_000);
        wait_for(&[(LISTEN, 1)]);
        assert_eq!((world.reaped().destroyed, world.reaped().waiting), (1, 0));
    });
}

/// The kernel half has passed a reset up for it. Should that have been lost, the socket goes.
#[test]
fn a_connection_that_its_client_ended_is_counted_so_and_has_no_socket() {
    needs_destroy!();
    in_world(|mut world| {
        let listener = dual();
        let client = world.net.connect(1);
        let accepted = listener.accept().unwrap();
        let flow = flow_of(&client);
        world.table.put(&flow, state::CLOSED);
        world.tell(flow);
        wait_for(&[(LISTEN, 1)]);
        world.tell(flow);
        let expected = Reaped {
            destroyed: 1,
            closed: 1,
            ..Reaped::default()
        };
        assert_eq!(world.reaped(), expected);
        drop(accepted);
    });
}

#[test]
fn the_oldest_of_too_many_wait_no_longer() {
    needs_destroy!();
    in_world(|mut world| {
        let listener = dual();
        let client = world.net.connect(0);
        let _accepted = listener.accept().unwrap();
        let flow = flow_of(&client);
        world.table.put(&flow, state::REJECTED);
        let now_ns = monotonic_ns();
        world.reaper.push(Rejected {
            monotonic_ns: now_ns,
            flow,
        });
        let nobody = FlowKey {
            client_port_be: 0,
            ..flow
        };
        for _ in 0..65_536 {
            world.reaper.push(Rejected {
                monotonic_ns: now_ns,
                flow: nobody,
            });
        }
        world.reaper.turn(now_ns);
        wait_for(&[(LISTEN, 1)]);
        let expected = Reaped {
            destroyed: 1,
            overflowed: 1,
            waiting: 65_536,
            ..Reaped::default()
        };
        assert_eq!(world.reaped(), expected);
        world.reaper.turn(now_ns + 300_000_000);
        assert_eq!((world.reaped().spared, world.reaped().waiting), (65_536, 0));
    });
}

#[test]
fn without_privileges_it_is_said_from_the_start() {
    needs_destroy!();
    let thread = std::thread::spawn(|| {
        // A thread's own.
        let none = rustix::thread::CapabilitySets {
            effective: rustix::thread::CapabilitySet::empty(),
            permitted: rustix::thread::CapabilitySet::empty(),
            inheritable: rustix::thread::CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, none).unwrap();
        let cannot = Sockets::open(Vec::new()).err();
        assert!(matches!(cannot, Some(Cannot::NotPermitted)), "{cannot:?}");
    });
    thread.join().unwrap();
}
