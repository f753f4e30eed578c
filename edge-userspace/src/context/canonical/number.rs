//! A number by its value: `1`, `1.0` and `1e0` are one, as programs that read and write JSON
//! make of one another.

use super::cell::{Cell, Kind};
use highway::Key;

/// The value of a number as JSON writes it (RFC 8259 section 6).
///
/// A number is what a double makes of it, as RFC 8785 has it (section 3.2.2.3), with two
/// exceptions, so that no two are taken for one that a program could tell apart by more than
/// their last digit: a whole number that no double can hold, and one that is too large or too
/// small for a double, stand for themselves.
pub(super) fn value(spelled: &[u8], key: &Key) -> Cell {
    let number = (std::str::from_utf8(spelled).ok()).and_then(|text| text.parse::<f64>().ok());
    match number {
        Some(number) if is_faithful(number, spelled) => {
            // Zero has no sign: JavaScript does not write it.
            let number = if number == 0.0 { 0.0 } else { number };
            Cell::word(Kind::Number, number.to_bits())
        }
        _ => Cell::of(Kind::Spelled, spelled, key),
    }
}

fn is_faithful(number: f64, spelled: &[u8]) -> bool {
    if !number.is_finite() {
        return false;
    }
    let digits = spelled.strip_prefix(b"-").unwrap_or(spelled);
    if number == 0.0 {
        let mantissa = digits.split(|byte| matches!(byte, b'e' | b'E')).next();
        return (mantissa.unwrap_or_default().iter()).all(|byte| matches!(byte, b'0' | b'.'));
    }
    let is_whole = digits.iter().all(u8::is_ascii_digit);
    // Every whole number of so many digits is a double.
    !is_whole || digits.len() <= 15 || format!("{:.0}", number.abs()).as_bytes() == digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(spelled: &str) -> Cell {
        value(spelled.as_bytes(), &Key([1, 2, 3, 4]))
    }

    #[test]
    fn a_number_is_its_value_however_it_is_written() {
        for (one, other) in [
            ("1", "1.0"),
            ("1", "1e0"),
            ("1", "0.1E+1"),
            ("-2.50", "-25e-1"),
            ("0", "-0"),
            ("0", "0.000e7"),
            ("100000000000000000000", "1e20"),
            ("0.1", "0.1000000000000000055511151231257827"),
            ("9007199254740992", "9007199254740992.0"),
        ] {
            assert_eq!(cell(one), cell(other), "{one} {other}");
        }
    }

    #[test]
    fn numbers_that_differ_stay_apart() {
        for (one, other) in [
            ("1", "-1"),
            ("0.1", "0.2"),
            // One double for both.
            ("9007199254740993", "9007199254740992"),
            ("1234567890123456789", "1234567890123456788"),
            ("1e999", "1e998"),
            ("1e-999", "0"),
            ("1e-999", "1e-998"),
        ] {
            assert_ne!(cell(one), cell(other), "{one} {other}");
        }
    }
}
