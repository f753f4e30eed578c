//! `[clients]`: rules by what kind of client it is.

use super::load::Loader;
use super::problem::Problems;
use super::read::{Span, kind_of};
use crate::ja4::{Ja4, Pattern};
use std::fmt;
use toml::Spanned;
use toml::de::{DeArray, DeValue};

/// `[clients]`: what follows from a client's fingerprint.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// In order; the first that matches wins. None matches: as `allow`.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Whom it means.
    pub ja4: Pattern,
    /// What follows.
    pub action: Action,
}

/// What follows from a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// As if there were no rules.
    Allow,
    /// Refused in the hello, whatever its token.
    Deny,
    /// The legacy lane, also with a good token.
    Legacy,
}

/// Each new connection walks through all of them at worst.
const MAX_RULES: usize = 256;
const RULES: &str = "clients.rules";

impl Clients {
    /// The first rule that means this client. One without a fingerprint is meant by none.
    #[must_use]
    pub fn rule(&self, ja4: Option<&Ja4>) -> Option<&Rule> {
        let ja4 = ja4?;
        self.rules.iter().find(|rule| rule.ja4.matches(ja4))
    }
}

impl Action {
    /// Every action there is.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Deny, Self::Legacy];

    /// The action as it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Legacy => "legacy",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.action {
            Action::Allow => "is allowed as its token says",
            Action::Deny => "is refused in its hello",
            Action::Legacy => "gets the legacy lane, whatever its token",
        };
        write!(f, "{} {what}", self.ja4)
    }
}

impl Loader<'_, '_> {
    pub(super) fn clients(&mut self) -> Clients {
        let rules = self.values.rules(RULES).unwrap_or(&[]).to_vec();
        if let Some((_, at)) = rules.get(MAX_RULES) {
            self.problems.add(
                Some(at.clone()),
                RULES,
                format!("{} rules are too many", rules.len()),
                format!("keep {MAX_RULES}; a * can take the place of several"),
            );
        }
        for (i, (rule, at)) in rules.iter().enumerate().take(MAX_RULES) {
            let mut before = rules[..i].iter();
            if let Some((earlier, _)) = before.find(|(earlier, _)| earlier.ja4.covers(&rule.ja4)) {
                let (ours, theirs) = (&rule.ja4, &earlier.ja4);
                self.problems.add(
                    Some(at.clone()),
                    RULES,
                    format!("the rule for {ours} is never asked: the one for {theirs} before it takes all of it"),
                    "take it out, or move it before that one",
                );
            }
        }
        Clients {
            rules: rules.into_iter().map(|(rule, _)| rule).collect(),
        }
    }
}

/// Each table is a rule with `ja4` and `action`, and nothing else.
pub(super) fn parse(items: &DeArray<'_>, problems: &mut Problems<'_>) -> Vec<(Rule, Span)> {
    (items.iter())
        .filter_map(|item| Some((rule(item, problems)?, item.span())))
        .collect()
}

fn rule(item: &Spanned<DeValue<'_>>, problems: &mut Problems<'_>) -> Option<Rule> {
    let DeValue::Table(table) = item.get_ref() else {
        problems.add(
            Some(item.span()),
            RULES,
            format!("{} stands in the list", kind_of(item)),
            "write each rule as [[clients.rules]] with ja4 and action below",
        );
        return None;
    };
    let (mut ja4, mut action) = (None, None);
    let (mut has_ja4, mut has_action) = (false, false);
    for (key, value) in table {
        let mut wrong = |at: Span, what: String, cure: &str| {
            problems.add(Some(at), &format!("{RULES}.{}", key.get_ref()), what, cure);
        };
        match (&**key.get_ref(), value.get_ref()) {
            ("ja4", DeValue::String(text)) => {
                has_ja4 = true;
                match text.parse() {
                    Ok(pattern) => ja4 = Some(pattern),
                    Err(error) => wrong(
                        value.span(),
                        format!("{error}"),
                        "write a fingerprint such as \"t13d1516h2_8daaf6152771_*\", each part whole or its beginning and *",
                    ),
                }
            }
            ("action", DeValue::String(text)) => {
                has_action = true;
                action = (Action::ALL.into_iter()).find(|action| action.name() == &**text);
                if action.is_none() {
                    wrong(
                        value.span(),
                        format!("{text:?} is none of its values"),
                        "write \"allow\", \"deny\" or \"legacy\"",
                    );
                }
            }
            (name @ ("ja4" | "action"), _) => {
                has_ja4 |= name == "ja4";
                has_action |= name == "action";
                let what = format!("{} stands there", kind_of(value));
                wrong(value.span(), what, "write a text");
            }
            _ => wrong(
                key.span(),
                "a rule has no such field".to_owned(),
                "take it out; a rule has ja4 and action",
            ),
        }
    }
    for (has, name) in [(has_ja4, "ja4"), (has_action, "action")] {
        if !has {
            problems.add(
                Some(item.span()),
                &format!("{RULES}.{name}"),
                "is missing",
                format!("write {name} = … in [[{RULES}]]"),
            );
        }
    }
    Some(Rule {
        ja4: ja4?,
        action: action?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_matches_wins() {
        let rule = |ja4: &str, action| Rule {
            ja4: ja4.parse().unwrap(),
            action,
        };
        let clients = Clients {
            rules: vec![
                rule("t13d1516h2_8daaf6152771_*", Action::Allow),
                rule("t13d*_*_*", Action::Legacy),
                rule("t12*_*_*", Action::Deny),
            ],
        };
        for (ja4, action) in [
            ("t13d1516h2_8daaf6152771_e5627efa2ab1", Some(Action::Allow)),
            ("t13d1516h2_8daaf6152772_e5627efa2ab1", Some(Action::Legacy)),
            ("t12i040500_8daaf6152772_e5627efa2ab1", Some(Action::Deny)),
            ("t10i040500_8daaf6152772_e5627efa2ab1", None),
        ] {
            let ja4 = Ja4::from_text(ja4).unwrap();
            let rule = clients.rule(Some(&ja4));
            assert_eq!(rule.map(|rule| rule.action), action, "{ja4}");
        }
        assert!(clients.rule(None).is_none());
    }
}
