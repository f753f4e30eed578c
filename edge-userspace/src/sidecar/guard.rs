//! Who may use the sidecar: it puts the key into whatever it forwards.
//!
//! It listens on loopback, but a web page in a browser of this machine can send requests there
//! too, and can have a name of its own lead there. Programs can do neither by accident.

use http::header::{self, HeaderMap};
use http::uri::Authority;
use std::net::IpAddr;

/// Why a request is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stranger {
    /// It names another host: a name that was made to lead here.
    #[error(
        "edge connect: the request's host is not this machine; address it as 127.0.0.1 or localhost"
    )]
    OtherHost,
    /// A browser sends it for a web page.
    #[error("edge connect: web pages may not use this address, which puts an API key in")]
    WebPage,
}

/// Looks at a request. `authority` is that of its URI, where it has one; `is_loopback`: only this
/// machine reaches the sidecar.
///
/// # Errors
/// When it is no program's of this machine.
pub fn admit(
    headers: &HeaderMap,
    authority: Option<&Authority>,
    is_loopback: bool,
) -> Result<(), Stranger> {
    // Browsers say so themselves (Fetch Metadata), or name where the page is from.
    let site = headers.get("sec-fetch-site");
    if site.is_some_and(|site| site != "none") || headers.contains_key(header::ORIGIN) {
        return Err(Stranger::WebPage);
    }
    if !is_loopback {
        // By which names it is reached, others decide.
        return Ok(());
    }
    let named: Option<Authority> = match authority {
        Some(authority) => Some(authority.clone()),
        None => (headers.get(header::HOST))
            .and_then(|host| host.to_str().ok())
            .and_then(|host| host.parse().ok()),
    };
    match named.is_some_and(|named| is_this_machine(named.host())) {
        true => Ok(()),
        false => Err(Stranger::OtherHost),
    }
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || (address.parse::<IpAddr>()).is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        (lines.iter())
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn programs_of_this_machine_pass() {
        for host in [
            "127.0.0.1:8788",
            "localhost:8788",
            "LOCALHOST",
            "[::1]:1",
            "127.9.9.9",
        ] {
            assert_eq!(admit(&map(&[("host", host)]), None, true), Ok(()), "{host}");
            let authority: Authority = host.parse().unwrap();
            assert_eq!(admit(&map(&[]), Some(&authority), true), Ok(()), "{host}");
        }
    }

    #[test]
    fn a_name_that_was_made_to_lead_here_is_another_host() {
        for host in [
            "evil.example:8788",
            "localhost.evil.example",
            "192.0.2.1",
            "",
        ] {
            let told = admit(&map(&[("host", host)]), None, true);
            assert_eq!(told, Err(Stranger::OtherHost), "{host}");
        }
        assert_eq!(admit(&map(&[]), None, true), Err(Stranger::OtherHost));
        assert_eq!(
            admit(&map(&[("host", "gate.example")]), None, false),
            Ok(())
        );
    }

    #[test]
    fn web_pages_do_not_pass() {
        for line in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            for is_loopback in [true, false] {
                let told = admit(&map(&[("host", "localhost"), line]), None, is_loopback);
                assert_eq!(told, Err(Stranger::WebPage), "{line:?}");
            }
        }
    }
}
