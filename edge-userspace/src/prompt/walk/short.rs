//! Texts that are looked at as far as they are short.

/// The beginning of a short text.
#[derive(Clone, Debug)]
pub(super) struct Short<const N: usize> {
    bytes: [u8; N],
    /// One more than `N`: it is longer.
    length: usize,
}

impl<const N: usize> Default for Short<N> {
    fn default() -> Self {
        Self {
            bytes: [0; N],
            length: 0,
        }
    }
}

impl<const N: usize> Short<N> {
    #[inline]
    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Another text, whole.
    #[inline]
    pub(super) fn set(&mut self, text: &[u8]) {
        self.clear();
        self.push(text);
    }

    /// Nothing of it stays in memory.
    pub(super) fn erase(&mut self) {
        // What was there before may have been longer.
        *self = Self::default();
    }

    #[inline]
    pub(super) fn push(&mut self, piece: &[u8]) {
        let from = self.length.min(N);
        let taken = piece.len().min(N - from);
        self.bytes[from..from + taken].copy_from_slice(&piece[..taken]);
        self.length = (self.length + piece.len()).min(N + 1);
    }

    /// The text; empty when it is too long.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Its beginning, however long it is.
    pub(super) fn start(&self) -> &[u8] {
        &self.bytes[..self.length.min(N)]
    }
}
