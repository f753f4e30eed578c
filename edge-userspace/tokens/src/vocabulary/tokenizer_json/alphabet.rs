//! GPT-2's alphabet: a printable character for each byte (`bytes_to_unicode` in its encoder).

/// The bytes of a token that is written in the alphabet; none if a character is not of it.
pub(super) fn bytes(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte).collect()
}

fn byte(character: char) -> Option<u8> {
    let code_point = u32::from(character);
    match u8::try_from(code_point) {
        Ok(byte) if is_itself(byte) => Some(byte),
        Ok(_) => None,
        // The others follow from U+0100 on, in order.
        Err(_) => (0..=255)
            .filter(|&byte| !is_itself(byte))
            .nth((code_point - 0x100) as usize),
    }
}

fn is_itself(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_one_character() {
        let mut of: Vec<u8> = (0..0x200)
            .filter_map(char::from_u32)
            .filter_map(byte)
            .collect();
        of.sort_unstable();
        assert_eq!(of, (0..=255).collect::<Vec<u8>>());
        assert_eq!(bytes("\u{120}hello\u{10a}").unwrap(), b" hello\n");
        assert_eq!(bytes("a b"), None);
        assert_eq!(bytes("\u{144}"), None);
        assert_eq!(bytes("\u{10ffff}"), None);
    }
}
