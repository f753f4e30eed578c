//! Moments and durations as arguments.

use crate::config::values;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second that RFC 3339 can write.
const LAST_RFC3339_S: u64 = 253_402_300_799;

/// Unix seconds, `now`, `2026-12-31` or RFC 3339.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    if text == "now" {
        return Ok(now_s());
    }
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    humantime::parse_rfc3339_weak(text)
        .or_else(|_| humantime::parse_rfc3339_weak(&format!("{text}T00:00:00Z")))
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .map(|since| since.as_secs())
        .ok_or_else(|| {
            "write Unix seconds, now, 2026-12-31 or 2026-12-31T23:59:59Z (UTC)".to_owned()
        })
}

/// `30d`, `12h`, ….
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    values::parse_duration(text)
        .ok_or_else(|| "write a whole number and s, m, h or d, such as 30d".to_owned())
}

/// For people.
pub(super) fn show(at_s: u64) -> String {
    match at_s {
        0 => "always".to_owned(),
        u64::MAX => "no end".to_owned(),
        _ if at_s <= LAST_RFC3339_S => {
            humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(at_s)).to_string()
        }
        _ => at_s.to_string(),
    }
}

/// Unix time.
pub(super) fn now_s() -> u64 {
    (SystemTime::now().duration_since(UNIX_EPOCH)).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_each_spelling() {
        for (text, expected) in [
            ("0", 0),
            ("1800000000", 1_800_000_000),
            ("2027-01-15", 1_799_971_200),
            ("2027-01-15 08:00:00", 1_800_000_000),
            ("2027-01-15T08:00:00Z", 1_800_000_000),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        assert!(parse("now").unwrap().abs_diff(now_s()) < 60);
        for wrong in ["", "-1", "soon", "2027-13-01", "1.5", "1960-01-01"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments_are_shown_as_they_can_be_read() {
        assert_eq!(show(1_800_000_000), "2027-01-15T08:00:00Z");
        assert_eq!(show(u64::MAX), "no end");
        assert_eq!(show(0), "always");
        assert_eq!(show(u64::MAX - 1), (u64::MAX - 1).to_string());
    }
}
