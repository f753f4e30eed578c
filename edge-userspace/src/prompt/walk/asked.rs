//! How long an answer a request asks for.

/// How long an answer a request asks for, and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::prompt) struct Asked {
    /// The larger of `max_tokens` and `max_completion_tokens`.
    pub(in crate::prompt) max_tokens: Option<u64>,
    /// `n`
    pub(in crate::prompt) choices: Option<u64>,
    /// `stream`
    pub(in crate::prompt) is_stream: bool,
}

/// A number of the request itself that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    is_choices: bool,
    /// None: it is no whole number, or too large for one.
    value: Option<u64>,
}

impl Number {
    /// That of a key which says how much is asked for.
    pub(super) fn of(key: &[u8]) -> Option<Self> {
        let is_choices = match key {
            b"max_tokens" | b"max_completion_tokens" => false,
            b"n" => true,
            _ => return None,
        };
        Some(Self {
            is_choices,
            value: Some(0),
        })
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        for byte in piece {
            let digit = char::from(*byte).to_digit(10).map(u64::from);
            self.value = (self.value.zip(digit))
                .and_then(|(value, digit)| value.checked_mul(10)?.checked_add(digit));
        }
    }
}

impl Asked {
    /// What is said twice holds at its largest.
    pub(super) fn hear(&mut self, number: Number) {
        let said = if number.is_choices {
            &mut self.choices
        } else {
            &mut self.max_tokens
        };
        *said = (*said).max(number.value);
    }
}
