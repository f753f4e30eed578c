//! Where one server-sent event ends and the next begins (WHATWG HTML, section 9.2.5).

/// Follows an event stream and knows whether it stands between two events.
///
/// An event ends with a blank line; a line ends with LF, CRLF or CR. The last four bytes
/// tell, so a chunk of any size costs the same.
#[derive(Clone, Copy, Debug)]
pub struct Boundary {
    /// The last four bytes, newest lowest.
    tail: u32,
}

impl Default for Boundary {
    /// The beginning of a stream, which is like the place after a blank line.
    fn default() -> Self {
        Self {
            tail: u32::from_be_bytes(*b"\n\n\n\n"),
        }
    }
}

impl Boundary {
    /// Goes on over `bytes`.
    #[inline]
    pub fn pass(&mut self, bytes: &[u8]) {
        let from = bytes.len().saturating_sub(4);
        for &byte in &bytes[from..] {
            self.tail = self.tail << 8 | u32::from(byte);
        }
    }

    /// Whether an event of one's own may be put here: at the beginning, or right after the
    /// blank line that ends an event.
    ///
    /// After a CR that may be half of a CRLF this is true as well: right for someone who
    /// ends the stream here, not for someone who goes on with it.
    #[inline]
    #[must_use]
    pub fn is_between_events(self) -> bool {
        let [_, c, b, a] = self.tail.to_be_bytes();
        match (b, a) {
            (b'\n', b'\n') | (b'\r', b'\r') | (b'\n', b'\r') => true,
            // One line end, CRLF; is what is before it another?
            (b'\r', b'\n') => matches!(c, b'\n' | b'\r'),
            _ => false,
        }
    }

    /// The shortest part of `bytes` after which it stands between two events; `None` when
    /// there is no such place. Goes on over that part, or over all of it.
    pub fn pass_to_boundary(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            self.pass(&[*byte]);
            if self.is_between_events() {
                // The LF of a CRLF belongs to the event.
                let half = *byte == b'\r' && bytes.get(at + 1) == Some(&b'\n');
                if half {
                    self.pass(b"\n");
                }
                return Some(at + 1 + usize::from(half));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The plain way: split into lines, look whether the last is complete and empty.
    fn naive(stream: &[u8]) -> bool {
        if stream.is_empty() {
            return true;
        }
        let mut lines = vec![Vec::new()];
        let mut bytes = stream.iter().peekable();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\r' => {
                    if bytes.peek() == Some(&&b'\n') {
                        bytes.next();
                    }
                    lines.push(Vec::new());
                }
                b'\n' => lines.push(Vec::new()),
                byte => lines.last_mut().unwrap().push(*byte),
            }
        }
        // The last is the one after the last line end.
        let unfinished = lines.pop().unwrap();
        unfinished.is_empty() && lines.last().is_some_and(Vec::is_empty)
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(&b"\n"[..]),
            Just(&b"\r"[..]),
            Just(&b"\r\n"[..]),
            Just(&b"data: x"[..]),
            Just(&b":"[..]),
            Just("é".as_bytes()),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn agrees_with_the_plain_way_at_every_byte_and_in_any_chunks(
            stream in stream(),
            chunk in 1usize..6,
        ) {
            let mut whole = Boundary::default();
            for at in 0..=stream.len() {
                prop_assert_eq!(whole.is_between_events(), naive(&stream[..at]), "{:?}", &stream[..at]);
                if let Some(byte) = stream.get(at) {
                    whole.pass(&[*byte]);
                }
            }
            let mut chunked = Boundary::default();
            for chunk in stream.chunks(chunk) {
                chunked.pass(chunk);
            }
            prop_assert_eq!(chunked.is_between_events(), naive(&stream));
        }

        #[test]
        fn a_cut_is_at_the_first_place_between_events(stream in stream()) {
            let first = (1..=stream.len()).find(|at| naive(&stream[..*at]));
            let cut = Boundary::default().pass_to_boundary(&stream);
            prop_assert!(cut.is_none_or(|at| naive(&stream[..at])));
            // A CRLF is not torn apart, so the cut may be one byte later.
            match (first, cut) {
                (Some(first), Some(cut)) => prop_assert!(cut == first || cut == first + 1),
                (first, cut) => prop_assert_eq!(first, cut),
            }
        }
    }

    #[test]
    fn the_usual_shapes() {
        for (stream, between) in [
            ("", true),
            ("event: ping\ndata: {}\n\n", true),
            ("event: ping\r\ndata: {}\r\n\r\n", true),
            ("event: ping\rdata: {}\r\r", true),
            ("event: ping\ndata: {}\n", false),
            ("event: ping\r\n", false),
            ("a\r\n\n", true),
            ("data", false),
        ] {
            let mut boundary = Boundary::default();
            boundary.pass(stream.as_bytes());
            assert_eq!(boundary.is_between_events(), between, "{stream:?}");
        }
    }
}
