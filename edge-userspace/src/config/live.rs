//! What a file says, field by field, so that two readings can be compared: fields that change
//! while the daemon runs, and those that need a restart.

use std::collections::BTreeMap;

/// The fields that change while the daemon runs.
pub const LIVE: [&str; 19] = [
    "keys.window_back",
    "keys.window_ahead",
    "keys.connections_per_second",
    "keys.connections_per_second_hard",
    "legacy.deny",
    "legacy.connections_per_second",
    "legacy.burst",
    "legacy.connections_per_second_total",
    "prompt.max_tokens",
    "prompt.models",
    "quotas.requests_per_minute",
    "quotas.input_tokens_per_minute",
    "quotas.output_tokens_per_minute",
    "quotas.concurrent_requests",
    "quotas.tokens_per_day",
    "quotas.reserve_output_percent",
    "quotas.default_max_tokens",
    "quotas.reserve_each_choice",
    "quotas.burst_tokens",
];

/// Every field's value at one reading, defaults among them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Said(pub(super) BTreeMap<&'static str, String>);

impl Said {
    /// The fields that another reading says otherwise, by name, in order.
    #[must_use]
    pub fn changed(&self, other: &Self) -> Vec<&'static str> {
        let mut names: Vec<_> = (self.0.keys().chain(other.0.keys()).copied())
            .filter(|name| self.0.get(name) != other.0.get(name))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::FIELDS;
    use super::*;

    #[test]
    fn the_reference_says_which_fields_change_live() {
        for field in FIELDS {
            let said = field.about.ends_with(" Changes while the daemon runs.");
            assert_eq!(said, LIVE.contains(&field.name), "{}", field.name);
        }
        assert!(
            LIVE.iter()
                .all(|name| FIELDS.iter().any(|f| f.name == *name))
        );
    }

    #[test]
    fn changed_fields_are_named_whoever_has_them() {
        let said = |pairs: &[(&'static str, &str)]| {
            Said(
                pairs
                    .iter()
                    .map(|(name, value)| (*name, (*value).to_owned()))
                    .collect(),
            )
        };
        let before = said(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let after = said(&[("b", "2"), ("c", "4"), ("d", "5")]);
        assert_eq!(before.changed(&after), ["a", "c", "d"]);
        assert!(before.changed(&before).is_empty());
    }
}
