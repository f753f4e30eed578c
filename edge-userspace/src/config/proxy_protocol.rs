//! `[listen.proxy_protocol]`: which listeners expect the PROXY protocol, and from whom.

use super::load::Loader;
use super::read::Span;
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};

/// `[listen.proxy_protocol]`: balancers that say whose connection it is.
#[derive(Clone, Debug, Default)]
pub struct ProxyProtocol {
    /// Which of `listen.addresses` expect the header. Default none.
    pub addresses: Vec<SocketAddr>,
    /// Where it may come from; anyone else is closed there. Never empty when there are
    /// addresses.
    pub trusted: Vec<IpNet>,
}

impl ProxyProtocol {
    /// Whether a header from `source` is believed.
    #[must_use]
    pub fn trusts(&self, source: IpAddr) -> bool {
        let source = source.to_canonical();
        self.trusted.iter().any(|network| network.contains(&source))
    }
}

const ADDRESSES: &str = "listen.proxy_protocol.addresses";
const TRUSTED: &str = "listen.proxy_protocol.trusted";

impl Loader<'_, '_> {
    pub(super) fn proxy_protocol(&mut self, listen: &[SocketAddr]) -> ProxyProtocol {
        let addresses = self.values.addresses(ADDRESSES).unwrap_or(&[]).to_vec();
        let trusted = self.values.networks(TRUSTED).unwrap_or(&[]).to_vec();
        for (address, at) in &addresses {
            self.check_address(*address, at, listen, &trusted);
        }
        let (has_addresses, has_trusted) =
            (self.values.written(ADDRESSES), self.values.written(TRUSTED));
        if has_addresses && !has_trusted {
            self.wrong(
                TRUSTED,
                "is missing, so nobody could connect to those addresses",
                "write the balancers' networks: trusted = [\"10.0.0.0/24\"]",
            );
        } else if has_trusted && !has_addresses {
            self.wrong(
                ADDRESSES,
                "is missing, so no header is expected from those networks",
                "write which of listen.addresses expect the header",
            );
        }
        ProxyProtocol {
            addresses: addresses.into_iter().map(|(address, _)| address).collect(),
            trusted: trusted.into_iter().map(|(network, _)| network).collect(),
        }
    }

    fn check_address(
        &mut self,
        address: SocketAddr,
        at: &Span,
        listen: &[SocketAddr],
        trusted: &[(IpNet, Span)],
    ) {
        if !listen.is_empty() && !listen.contains(&address) {
            self.problems.add(
                Some(at.clone()),
                ADDRESSES,
                format!("{address} is not among listen.addresses"),
                "write it there too, or take it out here",
            );
        }
        let same_family =
            |(network, _): &(IpNet, Span)| network.addr().is_ipv4() == address.is_ipv4();
        if !trusted.is_empty() && !trusted.iter().any(same_family) {
            let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
            self.problems.add(
                Some(at.clone()),
                ADDRESSES,
                format!("nobody could connect to {address}: no trusted network is {family}"),
                format!("add the balancers' {family} network to trusted, or take it out"),
            );
        }
    }
}

/// A network as it is written: the address before the `/` is its first one.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let Ok(network) = text.parse::<IpNet>() else {
        return Err(match text.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => {
                format!("{text:?} has no length ({text}/32 is that address alone)")
            }
            Ok(IpAddr::V6(_)) => {
                format!("{text:?} has no length ({text}/128 is that address alone)")
            }
            Err(_) => format!("{text:?} is no network"),
        });
    };
    if network.addr() != network.network() {
        let first = network.trunc();
        return Err(format!(
            "{text:?} is within a network ({first} is the whole)"
        ));
    }
    Ok(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_trusted_is_decided_by_whole_networks() {
        let trusted = ["10.1.0.0/16", "192.0.2.7/32", "2001:db8:1::/48"];
        let proxy_protocol = ProxyProtocol {
            addresses: Vec::new(),
            trusted: trusted.map(|text| network(text).unwrap()).to_vec(),
        };
        for (source, is_trusted) in [
            ("10.1.255.255", true),
            ("10.2.0.0", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("::ffff:10.1.0.1", true),
            ("2001:db8:1:ffff::1", true),
            ("2001:db8:2::1", false),
        ] {
            let is = proxy_protocol.trusts(source.parse().unwrap());
            assert_eq!(is, is_trusted, "{source}");
        }
        assert!(!ProxyProtocol::default().trusts("10.1.0.1".parse().unwrap()));
    }

    #[test]
    fn networks_are_written_with_their_first_address_and_length() {
        for good in [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "192.0.2.7/32",
            "::/0",
            "2001:db8::/32",
        ] {
            assert_eq!(network(good).unwrap().to_string(), good);
        }
        for (wrong, what) in [
            ("10.0.0.1/8", "10.0.0.0/8 is the whole"),
            ("10.0.0.1", "10.0.0.1/32 is that address alone"),
            ("::1", "::1/128 is that address alone"),
            ("10.0.0.0/33", "is no network"),
            ("10.0.0/8", "is no network"),
            ("balancer", "is no network"),
            ("", "is no network"),
        ] {
            let said = network(wrong).unwrap_err();
            assert!(said.contains(what), "{wrong}: {said}");
        }
    }
}
