//! Whether a text is UTF-8, chunk by chunk.

/// What the last chunk left of a character that is not whole yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Utf8 {
    begun: [u8; 4],
    length: usize,
}

impl Utf8 {
    /// Bytes of a character that is not whole yet.
    pub(crate) fn begun_bytes(&self) -> usize {
        self.length
    }

    /// Where `chunk` is no UTF-8 any more, as an offset in it; negative where a character
    /// begins in an earlier chunk and does not go on as it should. A character that is not
    /// whole at the end is good so far.
    pub(crate) fn check(&mut self, chunk: &[u8]) -> Option<isize> {
        let mut from = 0;
        while self.length > 0 {
            let &byte = chunk.get(from)?;
            self.begun[self.length] = byte;
            self.length += 1;
            from += 1;
            match std::str::from_utf8(&self.begun[..self.length]) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_none() => {}
                // At most four bytes.
                Err(_) => return Some(from as isize - self.length as isize),
            }
        }
        let rest = &chunk[from..];
        let Err(error) = simdutf8::compat::from_utf8(rest) else {
            return None;
        };
        let valid = error.valid_up_to();
        if error.error_len().is_some() {
            return Some((from + valid) as isize);
        }
        let begun = &rest[valid..];
        self.begun[..begun.len()].copy_from_slice(begun);
        self.length = begun.len();
        None
    }
}
