//! A hint as the value of a header.
//!
//! Visible ASCII stands for itself, and so does a space between two such characters; every
//! other byte of the UTF-8 text, and `%`, is `%` and two upper-case hex digits (RFC 3986,
//! section 2.1). So `decodeURIComponent` and `urllib.parse.unquote` give the text back, and
//! what is plain can be read without either.

use http::HeaderValue;

/// The text as a header's value: three bytes for one at most.
#[must_use]
pub fn header(text: &str) -> Option<HeaderValue> {
    let bytes = text.as_bytes();
    let mut value = Vec::with_capacity(bytes.len() * 3);
    for (at, byte) in bytes.iter().enumerate() {
        let is_inside = at > 0 && at + 1 < bytes.len();
        match byte {
            b'%' => value.extend(b"%25"),
            b' ' if is_inside => value.push(b' '),
            b'!'..=b'~' => value.push(*byte),
            byte => value.extend(format!("%{byte:02X}").bytes()),
        }
    }
    HeaderValue::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(value: &HeaderValue) -> String {
        let mut bytes = value.as_bytes().iter();
        let mut text = Vec::new();
        while let Some(byte) = bytes.next() {
            if *byte == b'%' {
                let digits = [*bytes.next().unwrap(), *bytes.next().unwrap()];
                let digits = std::str::from_utf8(&digits).unwrap();
                text.push(u8::from_str_radix(digits, 16).unwrap());
            } else {
                text.push(*byte);
            }
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn what_is_plain_stays_readable() {
        for (text, value) in [
            ("```python\n", "```python%0A"),
            ("{\"name\": ", "{\"name\":%20"),
            ("100% sure", "100%25 sure"),
            ("首先", "%E9%A6%96%E5%85%88"),
            (" a b ", "%20a b%20"),
            ("a\r\nset-cookie: x", "a%0D%0Aset-cookie: x"),
        ] {
            assert_eq!(header(text).unwrap(), value);
        }
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in any::<String>()) {
            let value = header(&text).unwrap();
            prop_assert_eq!(decoded(&value), text);
            prop_assert!(value.to_str().is_ok_and(|value| value.trim() == value));
        }
    }
}
