//! Numbers in heads, written without the machinery of `format!`.

/// Digits of the largest `u64`.
pub(crate) const DIGITS: usize = 20;

/// A number's decimal digits.
pub(crate) fn digits(number: u64, room: &mut [u8; DIGITS]) -> &[u8] {
    let (mut at, mut left) = (room.len(), number);
    loop {
        at -= 1;
        room[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return &room[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_digits_is_written() {
        for number in [0, 9, 10, 99, 1_234_567_890, u64::MAX] {
            let mut room = [0; DIGITS];
            assert_eq!(digits(number, &mut room), number.to_string().as_bytes());
        }
    }
}
