//! How much a key may use, and how much of an answer is reserved.

use crate::config;
use crate::keys::Quotas;
use serde::Serialize;

/// What holds for one key. 0: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Requests a minute.
    pub requests_per_minute: u64,
    /// Tokens of prompts a minute.
    pub input_tokens_per_minute: u64,
    /// Tokens of answers a minute.
    pub output_tokens_per_minute: u64,
    /// Requests that run at a time.
    pub concurrent_requests: u64,
    /// Tokens of prompts and answers a UTC day.
    pub tokens_per_day: u64,
}

/// How much of an answer is reserved before it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reserve {
    /// Per cent of the most that was asked for.
    pub output_percent: u64,
    /// What counts as asked for when nothing was, tokens.
    pub default_max_tokens: u64,
    /// Whether each of several choices is reserved for.
    pub each_choice: bool,
}

impl Limits {
    /// As the configuration says for all keys.
    #[must_use]
    pub fn of(config: &config::Quotas) -> Self {
        Self::default().with(&config.limits)
    }

    /// Where the key has a limit of its own that one holds, else this.
    #[must_use]
    pub fn with(self, own: &Quotas) -> Self {
        Self {
            requests_per_minute: own.requests_per_minute.unwrap_or(self.requests_per_minute),
            input_tokens_per_minute: (own.input_tokens_per_minute)
                .unwrap_or(self.input_tokens_per_minute),
            output_tokens_per_minute: (own.output_tokens_per_minute)
                .unwrap_or(self.output_tokens_per_minute),
            concurrent_requests: own.concurrent_requests.unwrap_or(self.concurrent_requests),
            tokens_per_day: own.tokens_per_day.unwrap_or(self.tokens_per_day),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Reserve {
    /// As the configuration says.
    #[must_use]
    pub fn of(config: &config::Quotas) -> Self {
        Self {
            output_percent: config.reserve_output_percent.into(),
            default_max_tokens: config.default_max_tokens,
            each_choice: config.reserve_each_choice,
        }
    }

    /// Tokens that are reserved for an answer of at most `max_tokens`, `choices` times.
    #[must_use]
    pub fn output(&self, max_tokens: Option<u64>, choices: u64) -> u64 {
        self.part(self.output_percent, max_tokens, choices)
    }

    /// The most that such an answer has.
    #[must_use]
    pub fn most(&self, max_tokens: Option<u64>, choices: u64) -> u64 {
        self.part(100, max_tokens, choices)
    }

    fn part(&self, percent: u64, max_tokens: Option<u64>, choices: u64) -> u64 {
        let most = max_tokens.unwrap_or(self.default_max_tokens);
        let times = if self.each_choice { choices.max(1) } else { 1 };
        let part = u128::from(most) * u128::from(percent) / 100;
        u64::try_from(part * u128::from(times)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keys_own_limit_wins_and_zero_is_none() {
        let all = Limits {
            requests_per_minute: 10,
            tokens_per_day: 1000,
            ..Limits::default()
        };
        let own = Quotas {
            requests_per_minute: Some(0),
            input_tokens_per_minute: Some(5),
            ..Quotas::default()
        };
        let both = all.with(&own);
        assert_eq!(both.requests_per_minute, 0);
        assert_eq!(both.input_tokens_per_minute, 5);
        assert_eq!(both.tokens_per_day, 1000);
        assert_eq!(all.with(&Quotas::default()), all);
        assert!(!both.is_none() && Limits::default().is_none());
    }

    #[test]
    fn a_part_of_the_most_is_reserved_and_never_overflows() {
        let reserve = Reserve {
            output_percent: 10,
            default_max_tokens: 4096,
            each_choice: true,
        };
        assert_eq!(reserve.output(Some(64_000), 1), 6400);
        assert_eq!(reserve.output(None, 1), 409);
        assert_eq!(reserve.most(None, 2), 8192);
        assert_eq!(reserve.most(Some(64_000), 1), 64_000);
        assert_eq!(reserve.most(Some(u64::MAX), 9), u64::MAX);
        assert_eq!(reserve.output(Some(100), 3), 30);
        assert_eq!(reserve.output(Some(100), 0), 10);
        assert_eq!(reserve.output(Some(u64::MAX), u64::MAX), u64::MAX);
        let one = Reserve {
            each_choice: false,
            ..reserve
        };
        assert_eq!(one.output(Some(100), 3), 10);
    }
}
