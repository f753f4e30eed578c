//! Which network interfaces the listening addresses live on.

use crate::config;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use std::net::{IpAddr, SocketAddr};

/// One address of one interface of this network namespace.
#[derive(Clone, Debug)]
struct Entry {
    interface: String,
    loopback: bool,
    up: bool,
    address: Option<IpAddr>,
}

/// Why the interfaces cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// getifaddrs(3) failed.
    #[error("the network interfaces cannot be listed: {0}")]
    List(nix::Error),
    /// The configuration names an interface that is not there.
    #[error("kernel.interfaces: there is no network interface {name:?}; there are {present}")]
    Missing {
        /// As configured.
        name: String,
        /// What there is.
        present: String,
    },
    /// A listening address belongs to no interface.
    #[error(
        "listen.addresses: no network interface has the address {address}; \
         give the interface it arrives on in kernel.interfaces, or set kernel.attach = \"off\""
    )]
    NoInterface {
        /// The address.
        address: IpAddr,
    },
}

/// The interfaces to attach to: the configured ones, or those that carry a listening
/// address. A wildcard address stands for every interface that is up, loopback aside
/// unless there is no other.
pub(super) fn choose(config: &config::Config) -> Result<Vec<String>, InterfaceError> {
    choose_among(
        &list()?,
        &config.kernel.interfaces,
        &config.listen.addresses,
    )
}

/// Every address of an interface that is up: those of others are not served.
pub(super) fn addresses() -> Result<Vec<IpAddr>, InterfaceError> {
    let up = list()?.into_iter().filter(|entry| entry.up);
    Ok(up.filter_map(|entry| entry.address).collect())
}

fn list() -> Result<Vec<Entry>, InterfaceError> {
    let entries = getifaddrs().map_err(InterfaceError::List)?;
    let entries = entries.map(|entry| Entry {
        loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
        up: entry.flags.contains(InterfaceFlags::IFF_UP),
        address: entry.address.and_then(|address| {
            let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
        }),
        interface: entry.interface_name,
    });
    Ok(entries.collect())
}

fn choose_among(
    entries: &[Entry],
    configured: &[String],
    listening: &[SocketAddr],
) -> Result<Vec<String>, InterfaceError> {
    if let Some(name) = configured
        .iter()
        .find(|name| entries.iter().all(|entry| entry.interface != **name))
    {
        let mut present: Vec<_> = entries
            .iter()
            .map(|entry| entry.interface.as_str())
            .collect();
        present.dedup();
        present.sort_unstable();
        present.dedup();
        return Err(InterfaceError::Missing {
            name: name.clone(),
            present: present.join(", "),
        });
    }
    if !configured.is_empty() {
        return Ok(unique(configured.iter().cloned()));
    }
    let mut chosen = Vec::new();
    for address in listening.iter().map(|address| address.ip().to_canonical()) {
        let before = chosen.len();
        if address.is_unspecified() {
            let up = || entries.iter().filter(|entry| entry.up);
            chosen.extend(
                up().filter(|entry| !entry.loopback)
                    .map(|e| e.interface.clone()),
            );
            if chosen.len() == before {
                chosen.extend(up().map(|entry| entry.interface.clone()));
            }
        } else {
            let carries = |entry: &&Entry| match (entry.address, address) {
                // All of 127.0.0.0/8 is on loopback, whatever its address says.
                (Some(IpAddr::V4(_)), IpAddr::V4(a)) if a.is_loopback() => entry.loopback,
                (has, _) => has == Some(address),
            };
            chosen.extend(entries.iter().filter(carries).map(|e| e.interface.clone()));
            if chosen.len() == before {
                return Err(InterfaceError::NoInterface { address });
            }
        }
    }
    Ok(unique(chosen))
}

fn unique(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut unique = Vec::new();
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    unique
}

/// The indices of those that are still there.
pub(super) fn indices(names: &[String]) -> Vec<u32> {
    let indices = names
        .iter()
        .map(|name| nix::net::if_::if_nametoindex(name.as_str()));
    indices.filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        let entry = |interface: &str, address: &str| Entry {
            interface: interface.into(),
            loopback: interface == "lo",
            up: interface != "down0",
            address: Some(address.parse().unwrap()),
        };
        vec![
            entry("lo", "127.0.0.1"),
            entry("lo", "::1"),
            entry("eth0", "10.0.0.1"),
            entry("eth0", "2001:db8::1"),
            entry("eth1", "10.1.0.1"),
            entry("down0", "10.2.0.1"),
        ]
    }

    fn chosen(configured: &[&str], listening: &[&str]) -> Result<Vec<String>, String> {
        let configured: Vec<_> = configured.iter().map(|name| (*name).to_owned()).collect();
        let listening: Vec<_> = listening.iter().map(|a| a.parse().unwrap()).collect();
        choose_among(&entries(), &configured, &listening).map_err(|error| error.to_string())
    }

    #[test]
    fn the_interface_that_carries_the_address() {
        assert_eq!(chosen(&[], &["10.1.0.1:443"]).unwrap(), ["eth1"]);
        assert_eq!(
            chosen(&[], &["[2001:db8::1]:443", "10.0.0.1:443"]).unwrap(),
            ["eth0"]
        );
        assert_eq!(chosen(&[], &["127.0.0.7:443"]).unwrap(), ["lo"]);
    }

    #[test]
    fn a_wildcard_is_every_interface_that_is_up_but_loopback() {
        assert_eq!(
            chosen(&[], &["0.0.0.0:443", "[::]:443"]).unwrap(),
            ["eth0", "eth1"]
        );
    }

    #[test]
    fn what_is_configured_counts_and_must_exist() {
        assert_eq!(chosen(&["lo"], &["10.1.0.1:443"]).unwrap(), ["lo"]);
        assert_eq!(
            chosen(&["eth7"], &[]).unwrap_err(),
            "kernel.interfaces: there is no network interface \"eth7\"; \
             there are down0, eth0, eth1, lo",
        );
    }

    #[test]
    fn an_address_of_no_interface_is_an_error() {
        assert!(
            chosen(&[], &["192.0.2.1:443"])
                .unwrap_err()
                .contains("192.0.2.1")
        );
    }
}
