//! What a rule says of a fingerprint: each part exact, or its beginning and a `*`.

use super::{Ja4, PART_LENGTHS};
use std::fmt;
use std::str::FromStr;

/// A pattern such as `t13d1516h2_8daaf6152771_*`; `*` alone is every client.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern([Part; 3]);

#[derive(Clone, PartialEq, Eq)]
struct Part {
    text: Box<str>,
    /// Whether anything may follow.
    open: bool,
}

/// Why a text is no pattern.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PatternError {
    /// Not three of them.
    #[error("has {0} parts; a fingerprint has three, joined by _")]
    Parts(usize),
    /// A star before the end.
    #[error("{0:?} has a * before its end")]
    Star(String),
    /// Too long, or too short without a star.
    #[error("{part:?} is {found} characters long; that part has {wanted}")]
    Length {
        /// The part.
        part: String,
        /// How long it is.
        found: usize,
        /// How long it should be.
        wanted: usize,
    },
    /// A character that no fingerprint has there.
    #[error("no fingerprint has {0:?} there")]
    Character(char),
}

impl Pattern {
    /// Whether the fingerprint is one of those that are meant.
    #[must_use]
    pub fn matches(&self, ja4: &Ja4) -> bool {
        let pairs = self.0.iter().zip(ja4.parts());
        pairs.into_iter().all(|(part, text)| part.matches(text))
    }

    /// Whether it means all that `other` means.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        pairs.all(|(ours, theirs)| ours.covers(theirs))
    }
}

impl Part {
    fn matches(&self, text: &str) -> bool {
        if self.open {
            text.starts_with(&*self.text)
        } else {
            *self.text == *text
        }
    }

    fn covers(&self, other: &Self) -> bool {
        self.matches(&other.text) && (self.open || !other.open)
    }

    /// The first part may end in two characters of an ALPN name, which may be capitals; the
    /// others are hex digits.
    fn parse(text: &str, place: usize) -> Result<Self, PatternError> {
        let (text, open) = match text.strip_suffix('*') {
            Some(before) => (before, true),
            None => (text, false),
        };
        if text.contains('*') {
            return Err(PatternError::Star(text.to_owned()));
        }
        let strange = text.chars().find(|c| match place {
            0 => !c.is_ascii_alphanumeric(),
            _ => !matches!(c, '0'..='9' | 'a'..='f'),
        });
        if let Some(strange) = strange {
            return Err(PatternError::Character(strange));
        }
        let (found, wanted) = (text.len(), PART_LENGTHS[place]);
        if found > wanted || (found < wanted && !open) {
            return Err(PatternError::Length {
                part: text.to_owned(),
                found,
                wanted,
            });
        }
        Ok(Self {
            text: text.into(),
            open,
        })
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let text = if text == "*" { "*_*_*" } else { text };
        let parts: Vec<_> = text.split('_').collect();
        let [a, b, c] = parts[..] else {
            return Err(PatternError::Parts(parts.len()));
        };
        let parts = [Part::parse(a, 0)?, Part::parse(b, 1)?, Part::parse(c, 2)?];
        Ok(Self(parts))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.iter().all(|part| part.open && part.text.is_empty()) {
            return f.write_str("*");
        }
        for (i, part) in self.0.iter().enumerate() {
            let (between, star) = (
                if i > 0 { "_" } else { "" },
                if part.open { "*" } else { "" },
            );
            write!(f, "{between}{}{star}", part.text)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "t13d1516h2_8daaf6152771_e5627efa2ab1";

    fn pattern(text: &str) -> Pattern {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn each_part_is_exact_or_begins_so() {
        let ja4 = Ja4::from_text(EXAMPLE).unwrap();
        for (text, meant) in [
            (EXAMPLE, true),
            ("*", true),
            ("*_*_*", true),
            ("t13d1516h2_8daaf6152771_*", true),
            ("t13d*_*_e5627efa2ab1", true),
            ("t13d1516h2*_8daaf6152771*_e5627efa2ab1*", true),
            ("t13d1516h1_8daaf6152771_*", false),
            ("t13d1516h2_8daaf6152772_*", false),
            ("t12*_*_*", false),
            ("*_*_f*", false),
        ] {
            assert_eq!(pattern(text).matches(&ja4), meant, "{text}");
            let shown = pattern(text).to_string();
            assert_eq!(pattern(&shown), pattern(text), "{text}");
        }
    }

    #[test]
    fn one_covers_another_when_nothing_of_it_is_left() {
        for (ours, theirs, covers) in [
            ("*", EXAMPLE, true),
            ("*", "*", true),
            ("t13*_*_*", "t13d*_*_e5*", true),
            ("t13d*_*_*", "t13*_*_*", false),
            (EXAMPLE, EXAMPLE, true),
            (EXAMPLE, "t13d1516h2_8daaf6152771_*", false),
            (EXAMPLE, "t13d1516h2*_8daaf6152771_e5627efa2ab1", false),
            ("*_*_e5*", "t13d*_*_*", false),
        ] {
            let is = pattern(ours).covers(&pattern(theirs));
            assert_eq!(is, covers, "{ours} over {theirs}");
        }
    }

    #[test]
    fn what_no_fingerprint_can_be_is_refused() {
        for (text, what) in [
            ("", "has 1 parts"),
            ("t13d1516h2", "has 1 parts"),
            ("t13d1516h2_8daaf6152771", "has 2 parts"),
            ("a_b_c_d", "has 4 parts"),
            ("t*d1516h2_*_*", "before its end"),
            ("t13d1516h_*_*", "9 characters long; that part has 10"),
            ("t13d1516h22*_*_*", "11 characters long"),
            (
                "t13d1516h2_8daaf615277_*",
                "11 characters long; that part has 12",
            ),
            ("t13d1516h2_8DAAF6152771_*", "'D' there"),
            ("t13d1516h2_8daaf615277g_*", "'g' there"),
            ("t13d1516h-_*_*", "'-' there"),
        ] {
            let error = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
