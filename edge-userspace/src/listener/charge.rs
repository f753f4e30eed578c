//! What a judged connection is charged, and what that makes of its verdict. The only place
//! that charges anything, once for each connection.

use super::hello::{Decision, Hello};
use crate::charges::{Charges, LegacyCharge, Now, TokenCharge, flow_key};
use edge_common::policy::Reason;
use std::net::{IpAddr, SocketAddr};

/// A connection's addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    /// The socket's other end.
    pub(super) peer: SocketAddr,
    /// The socket's own end.
    pub(super) local: SocketAddr,
    /// Where the client is: what a prefix's rate goes by.
    pub(super) source: IpAddr,
}

/// A verdict after charging.
#[derive(Debug)]
pub(super) struct Charged {
    pub(super) reason: Reason,
    pub(super) decision: Decision,
    /// The key is over its soft rate.
    pub(super) over_rate: bool,
}

/// Charges a connection that the stateless verdict lets in: a good token and its key's
/// rates, else the source prefix's rate and that of all of them. Refused ones are charged to nobody, and a
/// certificate authority that looks at a challenge neither.
pub(super) fn charge(
    charges: &Charges,
    hello: &Hello,
    (reason, decision): (Reason, Decision),
    addresses: Addresses,
    now: Now,
) -> Charged {
    let (reason, decision) = match (decision, hello.token()) {
        (Decision::Zero(key), Some(token)) => {
            let flow = flow_key(addresses.peer, addresses.local);
            let charged = charges.token(&token, &key, &flow, now);
            let refused = |reason| Charged {
                reason,
                decision: Decision::Refuse,
                over_rate: false,
            };
            match charged {
                TokenCharge::Granted | TokenCharge::OverRate => {
                    return Charged {
                        reason,
                        decision: Decision::Zero(key),
                        over_rate: charged == TokenCharge::OverRate,
                    };
                }
                TokenCharge::Replayed => return refused(Reason::Replayed),
                TokenCharge::OverHardRate => return refused(Reason::KeyRateExceeded),
                // Its holder is asked for the key itself, also where the lane is closed to
                // clients without a token.
                TokenCharge::TableFull => (Reason::ReplayTableFull, Decision::Legacy),
            }
        }
        (decision, _) => (reason, decision),
    };
    let is_charged = matches!(decision, Decision::Legacy) && reason != Reason::AcmeChallenge;
    let charged = match is_charged {
        true => charges.legacy(addresses.source, now),
        false => LegacyCharge::Granted,
    };
    let (reason, decision) = match charged {
        LegacyCharge::Granted => (reason, decision),
        LegacyCharge::OverRate => (Reason::LegacyRateExceeded, Decision::Refuse),
        LegacyCharge::Otherwise => (Reason::LegacyTotalExceeded, Decision::Refuse),
    };
    Charged {
        reason,
        decision,
        over_rate: false,
    }
}
