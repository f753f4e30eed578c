//! Durations and moments as people write them.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// A whole number and `ms`, `s`, `m`, `h` or `d`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let number: u64 = number.parse().ok()?;
    number.checked_mul(*millis).map(Duration::from_millis)
}

/// The shortest way to write a duration that [`parse_duration`] reads; parts of a
/// millisecond are cut.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let (name, unit) = (UNITS.iter().rev())
        .find(|(_, unit)| millis > 0 && millis.is_multiple_of(u128::from(*unit)))
        .unwrap_or(&("s", 1000));
    format!("{}{name}", millis / u128::from(*unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_written() {
        for (text, millis) in [
            ("250ms", 250),
            ("5s", 5000),
            ("10m", 600_000),
            ("6h", 21_600_000),
            ("30d", 2_592_000_000),
            ("0s", 0),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(text), Some(duration), "{text}");
            assert_eq!(show_duration(duration), text);
        }
        for wrong in [
            "",
            "5",
            "s",
            "5 s",
            "-5s",
            "1.5s",
            "5S",
            "99999999999999999999s",
            "9999999999999999999d",
        ] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }
}
