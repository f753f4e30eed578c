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

/// A number of the request itself that is being read: a JSON number, or a string that holds one,
/// since many servers take `"1000"` and `1e3` for 1000.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Number {
    is_choices: bool,
    /// Its digits but the zeros at their end; as large as can be when it is larger.
    value: u64,
    /// The zeros at their end.
    zeros: i64,
    /// Digits behind the point.
    fraction: i64,
    exponent: i64,
    is_small: bool,
    stands_in: Part,
    is_none: bool,
}

/// What of a number is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Whole,
    Fraction,
    Exponent,
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
            ..Self::default()
        })
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        for byte in piece {
            match (byte, self.stands_in) {
                (b'0'..=b'9', Part::Exponent) => {
                    let exponent = self.exponent.saturating_mul(10);
                    self.exponent = exponent.saturating_add(i64::from(byte - b'0'));
                }
                (b'0'..=b'9', part) => {
                    self.fraction += i64::from(part == Part::Fraction);
                    self.digit(byte - b'0');
                }
                (b'.', Part::Whole) => self.stands_in = Part::Fraction,
                (b'e' | b'E', Part::Whole | Part::Fraction) => self.stands_in = Part::Exponent,
                (b'-', Part::Exponent) => self.is_small = true,
                // In strings; in numbers the plus of an exponent alone.
                (b' ' | b'_' | b'+', _) => {}
                _ => self.is_none = true,
            }
        }
    }

    fn digit(&mut self, digit: u8) {
        if digit == 0 {
            self.zeros += i64::from(self.value > 0);
            return;
        }
        self.value = raised(self.value, self.zeros + 1).saturating_add(u64::from(digit));
        self.zeros = 0;
    }

    /// The whole number that it is, the largest that there is in place of a larger one. None: it
    /// is none, or below zero.
    fn value(&self) -> Option<u64> {
        if self.is_none || self.value == 0 {
            return (!self.is_none).then_some(0);
        }
        let exponent = if self.is_small {
            -self.exponent
        } else {
            self.exponent
        };
        let power = (self.zeros - self.fraction).saturating_add(exponent);
        (power >= 0).then(|| raised(self.value, power))
    }
}

fn raised(value: u64, power: i64) -> u64 {
    let power = u32::try_from(power).unwrap_or(u32::MAX);
    value.saturating_mul(10_u64.saturating_pow(power))
}

impl Asked {
    /// What is said twice holds at its largest.
    pub(super) fn hear(&mut self, number: Number) {
        let said = if number.is_choices {
            &mut self.choices
        } else {
            &mut self.max_tokens
        };
        *said = (*said).max(number.value());
    }
}
