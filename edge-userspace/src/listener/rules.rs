//! What the configuration's rules by fingerprint make of a verdict.
//!
//! A rule takes away and never gives: it speaks only of hellos that would pass, and what
//! they are charged comes after it.

use super::hello::Decision;
use crate::config::{Action, Clients};
use crate::ja4::Ja4;
use edge_common::policy::Reason;

/// The verdict after the rules, and which action was taken, if a rule meant this client.
/// `ja4` is asked only where a rule could matter.
pub(super) fn apply(
    clients: &Clients,
    ja4: impl FnOnce() -> Option<Ja4>,
    verdict: (Reason, Decision),
    deny_legacy: bool,
) -> ((Reason, Decision), Option<Action>) {
    let passes = matches!(verdict.1, Decision::Zero(_) | Decision::Legacy);
    if !passes || clients.rules.is_empty() {
        return (verdict, None);
    }
    let action = clients.rule(ja4().as_ref()).map(|rule| rule.action);
    let verdict = match action {
        None | Some(Action::Allow) => verdict,
        Some(Action::Deny) => (Reason::ClientDenied, Decision::Refuse),
        // The lane that it is sent to is closed.
        Some(Action::Legacy) if deny_legacy => (Reason::LegacyDenied, Decision::Refuse),
        Some(Action::Legacy) => (verdict.0, Decision::Legacy),
    };
    (verdict, action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Rule;
    use crate::keys::KeyRecord;
    use edge_common::token::KeyId;
    use std::sync::Arc;

    fn clients(action: Action) -> Clients {
        Clients {
            rules: vec![Rule {
                ja4: "t13d*_*_*".parse().unwrap(),
                action,
            }],
        }
    }

    fn zero() -> (Reason, Decision) {
        let key = KeyRecord {
            id: KeyId::from_bytes([1; 8]),
            name: "test".into(),
            key_hash: crate::keys::derive::key_hash(&crate::secret::ApiKey::new(vec![1])),
            policy: None,
            not_before_s: 0,
            not_after_s: u64::MAX,
            alpn_only: false,
            rates: Default::default(),
            max_prompt_tokens: None,
            allowance: None,
            revoked: false,
        };
        (Reason::Accepted, Decision::Zero(Arc::new(key)))
    }

    fn legacy() -> (Reason, Decision) {
        (Reason::NoToken, Decision::Legacy)
    }

    #[test]
    fn a_rule_takes_away_and_never_gives() {
        let meant = Ja4::from_text("t13d1516h2_8daaf6152771_e5627efa2ab1").unwrap();
        let other = Ja4::from_text("t12i1516h2_8daaf6152771_e5627efa2ab1").unwrap();
        let after = |action, ja4: &Ja4, verdict, deny_legacy| {
            let ((reason, decision), taken) =
                apply(&clients(action), || Some(*ja4), verdict, deny_legacy);
            let lane = match decision {
                Decision::Zero(_) => "zero",
                Decision::Legacy => "legacy",
                _ => "none",
            };
            (reason, lane, taken)
        };
        use Action::{Allow, Deny, Legacy};
        let refused = || (Reason::TagWrong, Decision::Refuse);
        for (given, expected) in [
            (
                after(Deny, &meant, zero(), false),
                (Reason::ClientDenied, "none", Some(Deny)),
            ),
            (
                after(Deny, &meant, legacy(), false),
                (Reason::ClientDenied, "none", Some(Deny)),
            ),
            (
                after(Deny, &meant, refused(), false),
                (Reason::TagWrong, "none", None),
            ),
            (
                after(Deny, &other, zero(), false),
                (Reason::Accepted, "zero", None),
            ),
            (
                after(Legacy, &meant, zero(), false),
                (Reason::Accepted, "legacy", Some(Legacy)),
            ),
            (
                after(Legacy, &meant, legacy(), false),
                (Reason::NoToken, "legacy", Some(Legacy)),
            ),
            (
                after(Legacy, &meant, zero(), true),
                (Reason::LegacyDenied, "none", Some(Legacy)),
            ),
            (
                after(Legacy, &meant, refused(), false),
                (Reason::TagWrong, "none", None),
            ),
            (
                after(Allow, &meant, zero(), false),
                (Reason::Accepted, "zero", Some(Allow)),
            ),
            (
                after(Allow, &meant, legacy(), false),
                (Reason::NoToken, "legacy", Some(Allow)),
            ),
            (
                after(Allow, &meant, refused(), false),
                (Reason::TagWrong, "none", None),
            ),
        ] {
            assert_eq!(given, expected);
        }
    }
}
