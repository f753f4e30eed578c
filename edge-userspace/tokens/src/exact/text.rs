//! A text that is still arriving.

use super::Counter;

/// One text in parts. It borrows nothing: it can wait for its next part anywhere.
#[derive(Debug, Default)]
pub struct Text {
    bytes: Vec<u8>,
    tokens: u64,
}

impl Text {
    /// One of which nothing has arrived. `counter` is one of its vocabulary.
    #[must_use]
    pub fn new(_counter: &Counter) -> Self {
        Self::default()
    }

    /// The next part, cut anywhere, also inside of a character.
    ///
    /// `counter` must be of the same vocabulary in all calls.
    pub fn push(&mut self, _counter: &mut Counter, part: &[u8]) {
        self.bytes.extend_from_slice(part);
    }

    /// The text has at least so many tokens already, whatever follows.
    #[must_use]
    pub fn at_least(&self) -> u64 {
        self.tokens
    }

    /// The tokens of the whole text, which ends here.
    pub fn finish(self, counter: &mut Counter) -> u64 {
        counter.count(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain;
    use crate::vocabulary::Vocabulary;

    #[test]
    fn parts_are_the_whole() {
        let vocabulary = Vocabulary::embedded("cl100k_base").unwrap();
        let mut counter = Counter::new(&vocabulary);
        let text = "It's 12345 caf\u{e9}s,\n\n  and more".as_bytes();
        for at in 0..=text.len() {
            let mut parts = Text::new(&counter);
            parts.push(&mut counter, &text[..at]);
            parts.push(&mut counter, &text[at..]);
            assert_eq!(parts.finish(&mut counter), plain::count(&vocabulary, text));
        }
    }
}
