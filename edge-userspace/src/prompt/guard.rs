//! How long a prompt may be, and what is said of one that is longer.

use std::fmt;

/// Whose limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The key's.
    Key,
    /// The node's.
    Node,
    /// The model's context window.
    Model,
}

impl Whose {
    /// All of them, in order of their number.
    pub const ALL: [Self; 3] = [Self::Key, Self::Node, Self::Model];

    /// As metrics have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Node => "node",
            Self::Model => "model",
        }
    }
}

/// The limits of one request, tokens. None: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The key's.
    pub key: Option<u64>,
    /// The node's.
    pub node: Option<u64>,
    /// Whether the model's context window is one.
    pub context: bool,
}

/// A prompt that is longer than a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Its tokens as far as they were counted.
    pub tokens: u64,
    /// Whether that is an estimate; else it is at least so long, by any tokenizer that the
    /// model can have.
    pub is_estimate: bool,
    /// The limit.
    pub limit: u64,
    /// Whose it is.
    pub whose: Whose,
}

impl Limits {
    /// The lowest limit that so many tokens are over: a prompt within that one passes.
    pub(super) fn check(
        &self,
        tokens: u64,
        is_estimate: bool,
        context: Option<u64>,
    ) -> Result<(), TooLong> {
        let limits = [
            (Whose::Key, self.key),
            (Whose::Node, self.node),
            (Whose::Model, context.filter(|_| self.context)),
        ];
        let lowest = (limits.into_iter())
            .filter_map(|(whose, limit)| Some((whose, limit?)))
            .min_by_key(|(_, limit)| *limit);
        match lowest {
            Some((whose, limit)) if tokens > limit => Err(TooLong {
                tokens,
                is_estimate,
                limit,
                whose,
            }),
            _ => Ok(()),
        }
    }

    /// Whether none holds that is known before the model.
    pub(super) fn is_none(&self) -> bool {
        self.key.is_none() && self.node.is_none()
    }
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.is_estimate {
            "is estimated at"
        } else {
            "is at least"
        };
        let whose = match self.whose {
            Whose::Key => "this key's limit",
            Whose::Node => "this node's limit",
            Whose::Model => "the model's context window",
        };
        write!(
            f,
            "prompt {about} {} tokens; {whose} is {}",
            self.tokens, self.limit
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_limits_the_lowest_is_named() {
        let told = |key, node, context| {
            let limits = Limits {
                key,
                node,
                context: true,
            };
            let told = limits.check(1000, false, context).err();
            told.map(|told| (told.whose, told.limit))
        };
        for (key, node, context, lowest) in [
            (Some(900), Some(500), Some(700), Some((Whose::Node, 500))),
            (Some(900), Some(800), Some(700), Some((Whose::Model, 700))),
            (Some(100), Some(800), Some(700), Some((Whose::Key, 100))),
            (Some(2000), Some(800), None, Some((Whose::Node, 800))),
            (Some(800), Some(800), Some(800), Some((Whose::Key, 800))),
            (Some(1000), Some(2000), None, None),
            (None, None, None, None),
        ] {
            assert_eq!(told(key, node, context), lowest);
        }
    }
}
