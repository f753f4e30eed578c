//! What single values mean: URLs, addresses, header texts.

use std::net::{IpAddr, SocketAddr};

/// Scheme, host and port. Everything else is refused: requests bring their own path.
pub(super) fn parse_url(url: &str) -> Result<(bool, String, u16), String> {
    let parsed: http::Uri = url.parse().map_err(|error| format!("is no URL: {error}"))?;
    let tls = match parsed.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        Some(other) => return Err(format!("{other} is no scheme for an upstream")),
        None => return Err("has no scheme".to_owned()),
    };
    let authority = parsed
        .authority()
        .map(http::uri::Authority::as_str)
        .unwrap_or_default();
    if authority.contains('@') {
        // Not shown: there may be a password in it.
        return Err("has a user name in it".to_owned());
    }
    if !matches!(parsed.path(), "" | "/") || parsed.query().is_some() {
        return Err("has a path, and requests keep their own".to_owned());
    }
    let host = parsed.host().unwrap_or_default();
    let host = (host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']')))
    .unwrap_or(host);
    if host.is_empty() {
        return Err("has no host".to_owned());
    }
    let port = match (
        parsed.port(),
        authority
            .rsplit_once(']')
            .map_or(authority, |(_, rest)| rest)
            .contains(':'),
    ) {
        (Some(port), _) if port.as_u16() > 0 => port.as_u16(),
        (None, false) => {
            if tls {
                443
            } else {
                80
            }
        }
        _ => return Err("has no good port (1 to 65535)".to_owned()),
    };
    Ok((tls, host.to_owned(), port))
}

/// Whether strangers may reach the address: not loopback, link-local or private.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => !(v4.is_loopback() || v4.is_private() || v4.is_link_local()),
        IpAddr::V6(v6) => !(v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local()),
    }
}

/// Whether binding both would fail.
pub(super) fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    let (a_ip, b_ip) = (a.ip(), b.ip());
    a.port() == b.port()
        && a.port() != 0
        && a.is_ipv4() == b.is_ipv4()
        && (a_ip == b_ip || a_ip.is_unspecified() || b_ip.is_unspecified())
}

pub(super) fn is_header_text(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

pub(super) fn host_name() -> String {
    (rustix::system::uname().nodename().to_str())
        .ok()
        .filter(|name| is_header_text(name))
        .unwrap_or("edge")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_give_scheme_host_and_port() {
        for (url, expected) in [
            ("http://a", (false, "a", 80)),
            ("https://a.example/", (true, "a.example", 443)),
            ("https://a:8443", (true, "a", 8443)),
            ("http://127.0.0.1:9000", (false, "127.0.0.1", 9000)),
            ("http://[::1]:9000", (false, "::1", 9000)),
            ("https://[::1]", (true, "::1", 443)),
        ] {
            let (tls, host, port) = parse_url(url).unwrap();
            assert_eq!((tls, &*host, port), expected, "{url}");
        }
        for wrong in [
            "",
            "a",
            "//a",
            "ftp://a",
            "http://",
            "http://a:0",
            "http://a:70000",
            "http://a:",
            "http://a/v1",
            "http://a?b",
            "http://u:p@a",
        ] {
            let what = parse_url(wrong).unwrap_err();
            assert!(!what.contains("u:p"), "{what}");
        }
    }

    #[test]
    fn public_is_what_strangers_may_reach() {
        for (address, public) in [
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("192.168.0.1", false),
            ("::1", false),
            ("fd00::1", false),
            ("fe80::1", false),
            ("::ffff:127.0.0.1", false),
            ("0.0.0.0", true),
            ("::", true),
            ("8.8.8.8", true),
            ("2001:db8::1", true),
            ("::ffff:8.8.8.8", true),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
        }
    }

    #[test]
    fn addresses_collide_when_binding_both_would_fail() {
        let collide = |a: &str, b: &str| collide(a.parse().unwrap(), b.parse().unwrap());
        assert!(collide("127.0.0.1:1", "127.0.0.1:1"));
        assert!(collide("0.0.0.0:1", "127.0.0.1:1"));
        assert!(!collide("127.0.0.2:1", "127.0.0.1:1"));
        assert!(!collide("127.0.0.1:1", "127.0.0.1:2"));
        assert!(!collide("[::]:1", "127.0.0.1:1"));
        assert!(!collide("127.0.0.1:0", "127.0.0.1:0"));
    }
}
