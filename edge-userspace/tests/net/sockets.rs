//! Which TCP sockets the kernel has in the calling thread's namespace, by its own table.

use super::wire::PORT;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A socket of the edge's port, or a request for one (state 3, SYN_RECV).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) peer: SocketAddr,
    /// By number (include/net/tcp_states.h).
    pub(crate) state: u8,
    /// Bytes that were received and not read.
    pub(crate) unread_bytes: u32,
}

const LISTEN: u8 = 10;

/// Every socket at the edge's port, the listening ones left out.
pub(crate) fn sockets() -> Vec<Socket> {
    let all = table().into_iter();
    all.filter(|(local, socket)| local.port() == PORT && socket.state != LISTEN)
        .map(|(_, socket)| socket)
        .collect()
}

/// Every socket that has, or had, a connection to the edge's port.
pub(crate) fn sockets_to_edge() -> Vec<Socket> {
    let all = table().into_iter();
    all.map(|(_, socket)| socket)
        .filter(|socket| socket.peer.port() == PORT)
        .collect()
}

/// Every socket, with its own address.
fn table() -> Vec<(SocketAddr, Socket)> {
    let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
    let texts = tables.map(|table| std::fs::read_to_string(table).unwrap());
    let lines = texts.iter().flat_map(|text| text.lines().skip(1));
    lines
        .map(|line| {
            let fields: Vec<_> = line.split_ascii_whitespace().collect();
            let (local, peer) = (address(fields[1]), address(fields[2]));
            let (_, unread) = fields[4].split_once(':').unwrap();
            let socket = Socket {
                peer,
                state: u8::from_str_radix(fields[3], 16).unwrap(),
                unread_bytes: u32::from_str_radix(unread, 16).unwrap(),
            };
            (local, socket)
        })
        .collect()
}

/// Words in memory order, as the kernel prints them.
fn address(text: &str) -> SocketAddr {
    let (address, port) = text.split_once(':').unwrap();
    let bytes: Vec<u8> = (0..address.len() / 8)
        .flat_map(|word| {
            let word = u32::from_str_radix(&address[word * 8..][..8], 16).unwrap();
            word.to_ne_bytes()
        })
        .collect();
    let address: IpAddr = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(bytes) => Ipv4Addr::from(bytes).into(),
        Err(_) => Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..]).unwrap()).into(),
    };
    SocketAddr::new(address, u16::from_str_radix(port, 16).unwrap())
}
