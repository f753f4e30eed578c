//! Where an edge is: its URL, and where that leads.

use http::uri::{Authority, Scheme, Uri};
use rustls_pki_types::ServerName;
use std::fmt;
use std::net::SocketAddr;

/// An edge's address, `https://host[:port]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    name: ServerName<'static>,
    authority: Authority,
    /// Instead of what the resolver says.
    address: Option<SocketAddr>,
}

/// What is wrong with an edge's URL.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// It is no URL.
    #[error("{url:?} is no URL; write https://host or https://host:port")]
    NotUrl {
        /// What was given.
        url: String,
    },
    /// The scheme is another.
    #[error("{url:?}: an edge speaks TLS; write https://")]
    NotHttps {
        /// What was given.
        url: String,
    },
    /// There is more than a host and a port.
    #[error("{url:?}: only a host and a port; paths are the requests' own, keys go in a file")]
    TooMuch {
        /// What was given, without what may be secret.
        url: String,
    },
    /// The host is neither a name nor an address.
    #[error("{host:?} is neither a host name nor an address")]
    Host {
        /// What was given.
        host: String,
    },
}

impl Endpoint {
    /// Reads `https://host[:port]`.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn parse(url: &str) -> Result<Self, EndpointError> {
        let not_url = || EndpointError::NotUrl {
            url: url.to_owned(),
        };
        // Names and passwords in URLs are not repeated.
        if url.contains('@') {
            return Err(EndpointError::TooMuch {
                url: "https://…@…".to_owned(),
            });
        }
        let uri: Uri = url.parse().map_err(|_| not_url())?;
        match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => {}
            _ => {
                return Err(EndpointError::NotHttps {
                    url: url.to_owned(),
                });
            }
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(EndpointError::TooMuch {
                url: url.to_owned(),
            });
        }
        let authority = uri.authority().ok_or_else(not_url)?;
        // What is no number would count as no port.
        let port = match &authority.as_str()[authority.host().len()..] {
            "" => 443,
            _ => (authority.port_u16())
                .filter(|port| *port != 0)
                .ok_or_else(not_url)?,
        };
        let host = authority.host();
        let host = host.strip_prefix('[').map_or(host, |rest| {
            // An address of IPv6 stands in brackets (RFC 3986 section 3.2.2).
            rest.strip_suffix(']').unwrap_or(rest)
        });
        let host = host.to_owned();
        let invalid = || EndpointError::Host { host: host.clone() };
        let name = ServerName::try_from(host.clone()).map_err(|_| invalid())?;
        Ok(Self {
            name,
            port,
            authority: authority.clone(),
            address: None,
            host,
        })
    }

    /// The same, to be found at `address` whatever the resolver says.
    #[must_use]
    pub fn at(mut self, address: SocketAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// The host: a name, or an address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What requests to it name as their authority.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The name that its certificate must carry.
    #[must_use]
    pub fn name(&self) -> &ServerName<'static> {
        &self.name
    }

    /// Where it is said to be, when the resolver is not asked.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read() {
        for (url, host, port) in [
            ("https://edge.example", "edge.example", 443),
            ("https://edge.example/", "edge.example", 443),
            ("https://edge.example:8443", "edge.example", 8443),
            ("https://192.0.2.1:8443", "192.0.2.1", 8443),
            ("https://[2001:db8::1]:8443", "2001:db8::1", 8443),
        ] {
            let endpoint = Endpoint::parse(url).unwrap();
            assert_eq!((endpoint.host(), endpoint.port()), (host, port), "{url}");
            assert_eq!(endpoint.to_string(), url.trim_end_matches('/'));
        }
    }

    #[test]
    fn anything_else_is_refused_in_words() {
        for (url, part) in [
            ("edge.example", "https://"),
            ("http://edge.example", "https://"),
            ("https://", "no URL"),
            ("https://edge.example/v1", "paths"),
            ("https://edge.example?a=b", "paths"),
            ("https://edge.example:0", "no URL"),
            ("https://edge.example:x", "no URL"),
            ("https://a_b!.example", "neither"),
        ] {
            let error = Endpoint::parse(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
        let error = Endpoint::parse("https://user:secret@edge").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
