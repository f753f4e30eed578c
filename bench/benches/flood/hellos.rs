//! What attackers say, and how honest clients begin: rustls, X25519 alone, so that a hello is
//! one segment for everyone. Not here: when it is said.

use super::attackers::Manner;
use super::place::Place;
use bench::trace::random::Random;
use edge_common::token::Token;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::sync::Arc;

/// What an attack is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Whole hellos whose token's tag is wrong.
    BadToken,
    /// The same from attackers that never acknowledge anything.
    BadTokenSilent,
    /// Whole hellos with a wrong tag, from ordinary sockets that wait for an answer.
    BadTokenSockets,
    /// Whole hellos without a token, from few prefixes: more than the edge lets into its
    /// legacy lane from each ([`super::place::LEGACY_RATE`]).
    NoToken,
    /// The same from so many prefixes that no limit of a prefix is reached.
    NoTokenSpread,
    /// Bytes that are no TLS.
    Random,
    /// SYNs and nothing after them.
    Syn,
    /// Hellos in pieces that never end.
    Slow,
    /// Whole hellos with one good token, seen before.
    Replay,
}

impl Attack {
    pub(crate) const ALL: [Self; 9] = [
        Self::BadToken,
        Self::BadTokenSilent,
        Self::BadTokenSockets,
        Self::NoToken,
        Self::NoTokenSpread,
        Self::Random,
        Self::Syn,
        Self::Slow,
        Self::Replay,
    ];

    /// Its name in figures.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::BadToken => "bad_token",
            Self::BadTokenSilent => "bad_token_silent",
            Self::BadTokenSockets => "bad_token_sockets",
            Self::NoToken => "no_token",
            Self::NoTokenSpread => "no_token_spread",
            Self::Random => "random",
            Self::Syn => "syn",
            Self::Slow => "slow",
            Self::Replay => "replay",
        }
    }

    /// Connections a second at which a full run attacks: more of them where they tell more.
    pub(crate) const fn rates(self) -> &'static [u64] {
        match self {
            Self::BadToken => &[1000, 4000, 16_000],
            Self::NoToken | Self::NoTokenSpread | Self::Random => &[4000, 16_000],
            _ => &[4000],
        }
    }

    /// Whether a full run has more than a point of it to draw.
    pub(crate) const fn has_curves(self) -> bool {
        self.rates().len() > 1
    }

    /// How many prefixes (/24) its attackers come from.
    pub(crate) const fn prefixes(self) -> u64 {
        match self {
            Self::NoToken => 4,
            _ => 256,
        }
    }

    /// What its attackers do, from now on.
    pub(crate) fn manner(self, place: &Place) -> Manner {
        let good = place.token();
        let bad = || {
            hello(
                place,
                Some(Token {
                    tag: good.tag ^ 1,
                    ..good
                }),
            )
        };
        match self {
            Self::BadToken => Manner::Sends(bad()),
            Self::BadTokenSilent => Manner::Silent(bad()),
            Self::BadTokenSockets => Manner::Sockets(bad()),
            Self::NoToken | Self::NoTokenSpread => Manner::Sends(hello(place, None)),
            Self::Random => Manner::Sends(noise(300)),
            Self::Syn => Manner::Syn,
            Self::Slow => Manner::Slow(bad()),
            Self::Replay => Manner::Sends(hello(place, Some(good))),
        }
    }
}

/// How a client of ours shakes hands, without its token.
pub(crate) fn config(place: &Place) -> ClientConfig {
    let provider = CryptoProvider {
        kx_groups: vec![kx_group::X25519],
        ..aws_lc_rs::default_provider()
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(place.site.roots())
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    config
}

/// The names that it offers: the token comes last.
pub(crate) fn protocols(token: Option<Token>) -> Vec<Vec<u8>> {
    let names = [b"h2".to_vec(), b"http/1.1".to_vec()];
    let token = token.map(|token| token.to_name().to_vec());
    names.into_iter().chain(token).collect()
}

fn hello(place: &Place, token: Option<Token>) -> Vec<u8> {
    let mut config = config(place);
    config.alpn_protocols = protocols(token);
    let name = ServerName::try_from("edge.test").expect("a name");
    let mut session = ClientConnection::new(Arc::new(config), name).expect("a session");
    let mut hello = Vec::new();
    session.write_tls(&mut hello).expect("room in memory");
    assert!(hello.len() < 1400, "{} bytes are two segments", hello.len());
    hello
}

/// Bytes that no record of TLS begins with.
fn noise(count: usize) -> Vec<u8> {
    let mut random = Random::new(1);
    let mut bytes: Vec<u8> = (0..count).map(|_| random.below(256) as u8).collect();
    bytes[0] |= 0x80;
    bytes
}
