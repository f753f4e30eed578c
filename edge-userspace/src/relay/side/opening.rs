//! How an answer begins: for the one who wants to tell it beforehand next time.

use crate::context::hints::MOST_BYTES;

/// Its first text begins within so much of an event stream, or is not waited for: a model
/// that thinks for long, or calls a tool.
const MAX_BEFORE_TEXT_BYTES: usize = 64 << 10;

/// Is told how an answer began: its first [`MOST_BYTES`] bytes, or all when it is shorter;
/// nothing at all when it began with no text.
pub struct Opening(Told);

type Told = Box<dyn FnOnce(&[u8])>;

impl Opening {
    /// `told` is called once, unless the response breaks off before.
    #[must_use]
    pub fn new(told: impl FnOnce(&[u8]) + 'static) -> Self {
        Self(Box::new(told))
    }
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opening")
    }
}

/// Gathers it.
#[derive(Debug)]
pub(super) struct Beginning {
    told: Option<Opening>,
    bytes: [u8; MOST_BYTES],
    length: usize,
    is_over: bool,
    /// Of the stream, while nothing is known.
    read_bytes: usize,
}

impl Beginning {
    pub(super) fn new(told: Opening) -> Self {
        Self {
            told: Some(told),
            bytes: [0; MOST_BYTES],
            length: 0,
            is_over: false,
            read_bytes: 0,
        }
    }

    /// More of the first text.
    pub(super) fn push(&mut self, piece: &[u8]) {
        if self.is_over {
            return;
        }
        let taken = piece.len().min(MOST_BYTES - self.length);
        self.bytes[self.length..self.length + taken].copy_from_slice(&piece[..taken]);
        self.length += taken;
        self.is_over |= self.length == MOST_BYTES;
    }

    /// Another block begins: what was said before it was all of the first.
    pub(super) fn end_block(&mut self) {
        self.is_over |= self.length > 0;
    }

    /// There is no more text.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// It broke off, however politely.
    pub(super) fn forget(&mut self) {
        self.told = None;
    }

    /// So many bytes of an event stream went by.
    pub(super) fn pass(&mut self, bytes: usize) {
        self.read_bytes = self.read_bytes.saturating_add(bytes);
        if self.read_bytes > MAX_BEFORE_TEXT_BYTES && self.length == 0 {
            self.is_over = true;
        }
    }

    /// Tells it once it is known; true when nothing is left to do.
    pub(super) fn tell(&mut self) -> bool {
        if self.is_over
            && let Some(Opening(told)) = self.told.take()
        {
            told(&self.bytes[..self.length]);
        }
        self.told.is_none()
    }
}
