//! Where the edge listens, as the program knows it: server address and port of every hello
//! that it may judge. A wildcard address stands for every address of this host, which are
//! looked up again and again. Not here: which interfaces that means (`interfaces`), and the
//! listening itself.

use super::interfaces::{self, InterfaceError};
use super::program::{ProgramError, in_map, is_full};
use super::worker::{Worker, stopped};
use super::{Shared, State};
use aya::maps::{HashMap, MapData};
use edge_common::flow::FlowKey;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Time between two looks at this host's addresses.
const LOOK: Duration = Duration::from_secs(1);

/// Address and port as they lie in the map: [`FlowKey::server`], then
/// [`FlowKey::server_port_be`].
type Key = [u32; 5];

/// The map, and what is in it.
pub(super) struct AddressMap {
    map: HashMap<MapData, Key, u32>,
    written: BTreeSet<Key>,
}

impl AddressMap {
    pub(super) const fn new(map: HashMap<MapData, Key, u32>) -> Self {
        Self {
            map,
            written: BTreeSet::new(),
        }
    }

    /// How many are in it.
    pub(super) fn len(&self) -> usize {
        self.written.len()
    }

    /// Takes out what is gone and adds what is new; gives how many had no room.
    pub(super) fn set(&mut self, addresses: &[SocketAddr]) -> Result<usize, ProgramError> {
        let wanted: BTreeSet<Key> = addresses.iter().map(key).collect();
        let gone: Vec<_> = self.written.difference(&wanted).copied().collect();
        for key in gone {
            self.map.remove(&key).map_err(in_map("ADDRESSES"))?;
            self.written.remove(&key);
        }
        for key in &wanted {
            if self.written.contains(key) {
                continue;
            }
            match self.map.insert(key, 1, 0) {
                Err(error) if is_full(&error) => break,
                put => put.map_err(in_map("ADDRESSES"))?,
            }
            self.written.insert(*key);
        }
        Ok(wanted.len() - self.written.len())
    }
}

fn key(address: &SocketAddr) -> Key {
    let octets = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let port = u32::from(address.port().to_be());
    let mut key = [0, 0, FlowKey::MAPPED, 0, port];
    for (word, octets) in key.iter_mut().zip(octets.as_chunks().0) {
        *word = u32::from_ne_bytes(*octets);
    }
    key
}

/// The addresses listened on, with those of this host in place of a wildcard of their family:
/// an IPv6 wildcard takes no IPv4 (`IPV6_V6ONLY`).
fn expand(listening: &[SocketAddr], local: &[IpAddr]) -> Vec<SocketAddr> {
    let mut all = Vec::new();
    for address in listening {
        let ip = address.ip().to_canonical();
        if ip.is_unspecified() {
            let family = local.iter().filter(|local| local.is_ipv4() == ip.is_ipv4());
            all.extend(family.map(|local| SocketAddr::new(*local, address.port())));
        } else {
            all.push(SocketAddr::new(ip, address.port()));
        }
    }
    all
}

fn has_wildcard(listening: &[SocketAddr]) -> bool {
    let mut addresses = listening.iter();
    addresses.any(|address| address.ip().to_canonical().is_unspecified())
}

impl State {
    /// Writes where the edge listens, given the addresses of this host.
    pub(super) fn listen(
        &mut self,
        listening: &[SocketAddr],
        local: &[IpAddr],
    ) -> Result<(), ProgramError> {
        let had_room = self.addresses_left_out == 0;
        self.addresses_left_out = self.program.set_addresses(&expand(listening, local))?;
        if had_room && self.addresses_left_out > 0 {
            tracing::warn!("{}", left_out(self.addresses_left_out));
        }
        Ok(())
    }
}

/// What it means that some had no room.
pub(super) fn left_out(number: usize) -> String {
    format!(
        "{number} addresses of this host do not fit the kernel's table: hellos to them are \
         decided in userspace alone. Name the addresses to listen on in listen.addresses"
    )
}

/// The addresses of this host, as far as a wildcard needs them.
pub(super) fn local(listening: &[SocketAddr]) -> Result<Vec<IpAddr>, InterfaceError> {
    if has_wildcard(listening) {
        interfaces::addresses()
    } else {
        Ok(Vec::new())
    }
}

/// Follows the addresses of this host in a thread, where there is a wildcard.
pub(super) fn follow(listening: &[SocketAddr], shared: &Arc<Shared>) -> io::Result<Option<Worker>> {
    if !has_wildcard(listening) {
        return Ok(None);
    }
    let (listening, shared) = (listening.to_vec(), Arc::clone(shared));
    let look = move || -> Result<(), Box<dyn std::error::Error>> {
        let local = interfaces::addresses()?;
        shared.with(|state| state.listen(&listening, &local))?;
        Ok(())
    };
    let worker = Worker::start("edge-addresses", move |wake| {
        let mut failing = false;
        while !stopped(wake, None, LOOK) {
            match look() {
                Ok(()) => failing = false,
                Err(error) if !failing => {
                    failing = true;
                    tracing::error!(%error, "the kernel does not follow this host's addresses");
                }
                Err(_) => {}
            }
        }
    })?;
    Ok(Some(worker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_every_address_of_its_family_and_an_address_itself() {
        let local = ["127.0.0.1", "10.0.0.1", "::1", "fe80::1"].map(|a| a.parse().unwrap());
        let expanded = |listening: &[&str]| {
            let listening: Vec<_> = listening.iter().map(|a| a.parse().unwrap()).collect();
            let all = expand(&listening, &local).into_iter();
            all.map(|address| address.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            expanded(&["0.0.0.0:443"]),
            ["127.0.0.1:443", "10.0.0.1:443"]
        );
        assert_eq!(expanded(&["[::]:8443"]), ["[::1]:8443", "[fe80::1]:8443"]);
        assert_eq!(expanded(&["192.0.2.7:443"]), ["192.0.2.7:443"]);
        assert_eq!(expanded(&["[::ffff:10.0.0.9]:1"]), ["10.0.0.9:1"]);
    }

    #[test]
    fn a_key_lies_in_memory_as_the_packet_has_it() {
        let bytes = |address: &str| {
            let words = key(&address.parse().unwrap()).map(u32::to_ne_bytes);
            (words[..4].concat(), words[4])
        };
        let (address, port) = bytes("10.9.0.1:443");
        assert_eq!(hex::encode(address), "00000000000000000000ffff0a090001");
        assert_eq!(u32::from_ne_bytes(port), u32::from(443u16.to_be()));
        let (address, _) = bytes("[2001:db8::1]:443");
        assert_eq!(hex::encode(address), "20010db8000000000000000000000001");
    }
}
