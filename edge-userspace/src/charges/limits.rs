//! What connections are charged against: the settings that change while the daemon runs.

use crate::config::Config;
use crate::keys::KeyRecord;
use edge_common::policy::Window;
use edge_common::rate::Rate;
use edge_common::total;
use serde::Serialize;

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// A token may be this old, seconds.
    pub window_back_s: u32,
    /// A token may be this far ahead, seconds.
    pub window_ahead_s: u32,
    /// How long a used token is remembered after the second in which it was issued. More
    /// than the window only while the window is about to be widened.
    pub remember_s: u32,
    /// Connections a second of a key, beyond which requests get a 429; 0 for no limit.
    pub key_per_second: u32,
    /// Connections a second of a key, beyond which they are refused; 0 for no limit.
    pub key_per_second_hard: u32,
    /// Whether clients without a token are refused.
    pub legacy_deny: bool,
    /// Connections a second of a source prefix without a token; 0 for no limit.
    pub legacy_per_second: u32,
    /// As many as a prefix may open at once.
    pub legacy_burst: u32,
    /// Connections a second without a token from all prefixes together; 0 for no limit.
    pub legacy_total_per_second: u32,
}

impl Limits {
    /// As the configuration says.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let (keys, legacy) = (&config.keys, &config.legacy);
        Self {
            window_back_s: keys.window.back_s,
            window_ahead_s: keys.window.ahead_s,
            remember_s: keys.window.back_s,
            key_per_second: keys.connections_per_second,
            key_per_second_hard: keys.connections_per_second_hard,
            legacy_deny: legacy.deny,
            legacy_per_second: legacy.connections_per_second,
            legacy_burst: legacy.burst,
            legacy_total_per_second: legacy.connections_per_second_total,
        }
    }

    /// When a token is good.
    #[must_use]
    pub fn window(&self) -> Window {
        Window {
            back_s: self.window_back_s,
            ahead_s: self.window_ahead_s,
        }
    }

    /// The rate beyond which a key's connections are refused, its own or all keys'.
    #[must_use]
    pub fn hard_rate(&self, key: &KeyRecord) -> Rate {
        let hard = key.rates.connections_per_second_hard;
        one_second(hard.unwrap_or(self.key_per_second_hard))
    }

    /// The rate beyond which a key's requests get a 429, its own or all keys'.
    #[must_use]
    pub fn soft_rate(&self, key: &KeyRecord) -> Rate {
        let soft = key.rates.connections_per_second;
        one_second(soft.unwrap_or(self.key_per_second))
    }

    /// The way from these limits to others: what may hold at once, and, when the window
    /// widens, after how many seconds all of them may.
    ///
    /// Tokens that were used lately are remembered for as long as the window was. One that is
    /// forgotten must not become good again by a wider window: so new ones are remembered
    /// longer at once, and the window widens when all that are good then are among them.
    #[must_use]
    pub fn towards(&self, wanted: Self) -> (Self, Option<u64>) {
        if wanted.window_back_s <= self.window_back_s {
            return (wanted, None);
        }
        let now = Self {
            window_back_s: self.window_back_s,
            ..wanted
        };
        let ahead_s = self.window_ahead_s.max(wanted.window_ahead_s);
        let after_s = u64::from(wanted.window_back_s) + u64::from(ahead_s) + 1;
        (now, Some(after_s))
    }

    /// The rate of a source prefix without tokens.
    #[must_use]
    pub fn legacy_rate(&self) -> Rate {
        Rate::per_second(self.legacy_per_second, self.legacy_burst)
    }

    /// The rate of all source prefixes together without tokens.
    #[must_use]
    pub fn legacy_total_rate(&self) -> Rate {
        total::rate(self.legacy_total_per_second)
    }
}

/// So many a second, and as many at once.
fn one_second(count: u32) -> Rate {
    Rate::per_second(count, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charges::{Replay, replay::Use};
    use crate::kernel::memory::Memory;

    const LIMITS: Limits = Limits {
        window_back_s: 30,
        window_ahead_s: 5,
        remember_s: 30,
        key_per_second: 0,
        key_per_second_hard: 1000,
        legacy_deny: false,
        legacy_per_second: 500,
        legacy_burst: 1000,
        legacy_total_per_second: 0,
    };

    #[test]
    fn a_narrower_window_holds_at_once_and_so_do_rates() {
        let wanted = Limits {
            window_back_s: 10,
            remember_s: 10,
            legacy_per_second: 7,
            ..LIMITS
        };
        assert_eq!(LIMITS.towards(wanted), (wanted, None));
    }

    /// A token that was used and forgotten before the window widens is not good after.
    #[test]
    fn a_wider_window_makes_no_used_token_good_again() {
        let wanted = Limits {
            window_back_s: 300,
            remember_s: 300,
            legacy_per_second: 7,
            ..LIMITS
        };
        let (now, after_s) = LIMITS.towards(wanted);
        assert_eq!((now.window_back_s, now.remember_s), (30, 300));
        assert_eq!(now.legacy_per_second, 7, "rates wait for nothing");
        let after_s = after_s.unwrap();

        let start = 1_800_000_000;
        let table = Replay::new(Memory::own(Replay::words_for(1024)), [1, 2]);
        let mut used = Vec::new();
        for second in 0..=after_s {
            let at_s = start + second;
            let limits = if second == 0 { LIMITS } else { now };
            for ahead_s in [-30, 0, 5] {
                let issued_at_s = at_s.checked_add_signed(ahead_s).unwrap();
                let id = issued_at_s * 1000 + at_s % 1000 + 1;
                let last_s = issued_at_s + u64::from(limits.remember_s);
                assert_eq!(table.use_token(id, 1, last_s, at_s), Use::First);
                used.push((id, issued_at_s));
            }
            table.sweep(0, 1024, at_s);
        }
        // The window widens: each used token is out of it or remembered.
        let now_s = start + after_s;
        let good = (used.iter()).filter(|(_, issued_at_s)| issued_at_s + 300 >= now_s);
        let mut count = 0;
        for (id, issued_at_s) in good {
            count += 1;
            let used = table.use_token(*id, 2, now_s, now_s);
            assert_eq!(used, Use::Replayed, "issued {} s ago", now_s - issued_at_s);
        }
        assert!(count > 600, "{count}");
    }
}
