//! What is to be written to the client, in its order.

/// So much of what has been written may lie before the rest.
const MOST_BEHIND: usize = 64 * 1024;

/// One buffer; what has been written of it is behind.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    written: usize,
}

impl Output {
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// To append to.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// So many bytes more have been written.
    pub(crate) fn wrote(&mut self, count: usize) {
        self.written = self.bytes.len().min(self.written + count);
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        } else if self.written > MOST_BEHIND {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    /// Takes the buffer away when there is nothing in it.
    pub(crate) fn reclaim(&mut self) -> Option<Vec<u8>> {
        let is_empty = self.bytes.is_empty() && self.bytes.capacity() > 0;
        is_empty.then(|| std::mem::take(&mut self.bytes))
    }

    /// Uses another one's memory where there is none.
    pub(crate) fn lend(&mut self, buffer: &mut Vec<u8>) {
        if self.bytes.capacity() == 0 {
            buffer.clear();
            std::mem::swap(&mut self.bytes, buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_goes_and_the_rest_stays_in_order() {
        let mut output = Output::default();
        let mut lent = Vec::with_capacity(100);
        output.lend(&mut lent);
        assert_eq!(lent.capacity(), 0);
        output.end().extend_from_slice(b"one two");
        output.wrote(4);
        output.end().extend_from_slice(b" three");
        assert_eq!((output.rest(), output.len()), (&b"two three"[..], 9));
        assert!(output.reclaim().is_none());
        output.wrote(100);
        assert_eq!(output.len(), 0);
        assert_eq!(output.reclaim().unwrap().capacity(), 100);
        output.end().extend_from_slice(&[b'x'; 3 * MOST_BEHIND]);
        output.wrote(MOST_BEHIND);
        output.wrote(1);
        assert_eq!(output.len(), 2 * MOST_BEHIND - 1);
        assert_eq!(output.bytes.len(), output.len());
    }
}
