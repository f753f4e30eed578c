//! One value of a request as 32 bytes: short texts as they are, others by their hash.

use crate::context::hash::digest;
use highway::{HighwayHash as _, HighwayHasher, Key};

/// A value. Two are equal when the values are, but for chance in 2^128 that nobody can steer
/// who does not know the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell(pub(super) [u64; 4]);

/// What kind of value it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A text that is short enough to stand there itself.
    Short = 1,
    /// A text.
    Text,
    /// A number by its value.
    Number,
    /// A number as it is written.
    Spelled,
    /// `true`, `false` or `null`.
    Literal,
    Object,
    Array,
    /// The first elements of a long array.
    Folded,
}

/// Longest text that stands there itself.
pub(super) const SHORT_BYTES: usize = 24;

impl Cell {
    /// No value.
    pub(super) const NONE: Self = Self([0; 4]);

    /// A short text.
    pub(super) const fn short(text: &str) -> Self {
        let text = text.as_bytes();
        assert!(text.len() <= SHORT_BYTES, "short texts only");
        let mut bytes = [0; SHORT_BYTES];
        let mut at = 0;
        while at < text.len() {
            bytes[at] = text[at];
            at += 1;
        }
        Self::inline(Kind::Short, text.len(), &bytes)
    }

    /// [`Self::inline`] at run time.
    fn of_short(kind: Kind, length: usize, bytes: &[u8; SHORT_BYTES]) -> Self {
        let words = bytes.as_chunks::<8>().0;
        let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
        Self([head(kind, length as u64), word(0), word(1), word(2)])
    }

    const fn inline(kind: Kind, length: usize, bytes: &[u8; SHORT_BYTES]) -> Self {
        let mut words = [head(kind, length as u64), 0, 0, 0];
        let mut at = 0;
        while at < SHORT_BYTES {
            words[1 + at / 8] |= (bytes[at] as u64) << (8 * (at % 8));
            at += 1;
        }
        Self(words)
    }

    pub(super) const fn hashed(kind: Kind, length: u64, [a, b]: [u64; 2]) -> Self {
        Self([head(kind, length), a, b, 0])
    }

    pub(super) const fn word(kind: Kind, word: u64) -> Self {
        Self([head(kind, 0), word, 0, 0])
    }

    /// Of a whole text, as [`Text`] makes it of its pieces.
    pub(super) fn text(text: &[u8], key: &Key) -> Self {
        let mut short = [0; SHORT_BYTES];
        match short.get_mut(..text.len()) {
            Some(start) => {
                start.copy_from_slice(text);
                Self::of_short(Kind::Short, text.len(), &short)
            }
            None => Self::hashed(Kind::Text, text.len() as u64, digest(key, text)),
        }
    }

    /// Of a number's or another text's bytes, under a kind of its own.
    pub(super) fn of(kind: Kind, bytes: &[u8], key: &Key) -> Self {
        let mut short = [0; SHORT_BYTES];
        match short.get_mut(..bytes.len()) {
            Some(start) => {
                start.copy_from_slice(bytes);
                // A length beyond any hashed one's tells them apart.
                Self::of_short(kind, bytes.len() | SPELLED_OUT, &short)
            }
            None => Self::hashed(kind, bytes.len() as u64, digest(key, bytes)),
        }
    }

    /// 128 bits of it.
    pub(super) fn digest(self, key: &Key) -> [u64; 2] {
        match self.kind() {
            Kind::Object if self.wrapped() == 0 => [self.0[1], self.0[2]],
            _ => digest(key, bytemuck::cast_slice(&self.0)),
        }
    }

    /// Of what an object or array holds.
    pub(super) fn container(kind: Kind, count: u64, cells: &[[u64; 4]], key: &Key) -> Self {
        match (kind, cells) {
            (Kind::Object, [kind, is_text, name, text])
                if [*kind, *is_text, *name] == TEXT_BLOCK =>
            {
                Self::text_block(Self(*text), key)
            }
            (Kind::Array, [one]) if count == 1 => Self::list_of(Self(*one), key),
            _ => Self::hashed(kind, count, digest(key, bytemuck::cast_slice(cells))),
        }
    }

    /// A block of text, as `{"type": "text", "text": …}` is one. What most messages are needs no
    /// hash: one text, in a block, in a list.
    pub(super) fn text_block(text: Self, key: &Key) -> Self {
        text.wrap(BLOCK).unwrap_or_else(|| {
            let [kind, is_text, name] = TEXT_BLOCK;
            let cells = [kind, is_text, name, text.0];
            Self::hashed(Kind::Object, 2, digest(key, bytemuck::cast_slice(&cells)))
        })
    }

    /// A list of one value.
    pub(super) fn list_of(one: Self, key: &Key) -> Self {
        one.wrap(LIST).unwrap_or_else(|| {
            let digest = digest(key, bytemuck::cast_slice(&one.0));
            Self::hashed(Kind::Array, 1, digest)
        })
    }

    /// A text as the text of a block, or a block as the only one of a list.
    fn wrap(self, how: u64) -> Option<Self> {
        let is_text = matches!(self.kind(), Kind::Short | Kind::Text);
        let is_free = match how {
            BLOCK => is_text && self.wrapped() == 0,
            _ => self.wrapped() & LIST == 0 && self.kind() != Kind::Folded,
        };
        let [head, a, b, c] = self.0;
        is_free.then_some(Self([head | how, a, b, c]))
    }

    const fn wrapped(self) -> u64 {
        self.0[0] & (BLOCK | LIST)
    }

    fn kind(self) -> Kind {
        const ALL: [Kind; 8] = [
            Kind::Short,
            Kind::Text,
            Kind::Number,
            Kind::Spelled,
            Kind::Literal,
            Kind::Object,
            Kind::Array,
            Kind::Folded,
        ];
        ALL[(self.0[0] as usize & 0xff) - 1]
    }
}

/// What a block of text holds before its text.
const TEXT_BLOCK: [[u64; 4]; 3] = {
    let text = Cell::short("text").0;
    [Cell::short("type").0, text, text]
};

/// Bits of the length.
const SPELLED_OUT: usize = 1 << 40;
const BLOCK: u64 = 1 << 62;
const LIST: u64 = 1 << 63;

const fn head(kind: Kind, length: u64) -> u64 {
    kind as u64 | length << 8
}

/// A text or a key that comes in pieces.
#[derive(Default)]
pub(super) struct Text {
    is_key: bool,
    length: u64,
    short: [u8; SHORT_BYTES],
    /// When it is longer.
    hasher: Option<HighwayHasher>,
}

impl Text {
    pub(super) fn begin(&mut self, is_key: bool) {
        self.is_key = is_key;
        self.length = 0;
        self.short = [0; SHORT_BYTES];
        self.hasher = None;
    }

    pub(super) fn push(&mut self, piece: &[u8], key: &Key) {
        let before = self.length as usize;
        self.length += piece.len() as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.append(piece);
        } else if let Some(short) = self.short.get_mut(before..before + piece.len()) {
            short.copy_from_slice(piece);
        } else {
            let mut hasher = HighwayHasher::new(Key(key.0));
            hasher.append(&self.short[..before]);
            hasher.append(piece);
            self.hasher = Some(hasher);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The whole text, and whether it is a key.
    pub(super) fn end(&mut self) -> (Cell, bool) {
        let cell = match self.hasher.take() {
            Some(hasher) => Cell::hashed(Kind::Text, self.length, hasher.finalize128()),
            None => Cell::of_short(Kind::Short, self.length as usize, &self.short),
        };
        (cell, self.is_key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_cell_whole_and_in_pieces() {
        let key = Key([1, 2, 3, 4]);
        let all: Vec<u8> = (0..100).collect();
        for length in 0..=all.len() {
            let (text, _) = all.split_at(length);
            let whole = Cell::text(text, &key);
            for size in [1, 7, 24, 25, 64] {
                let mut pieces = Text::default();
                pieces.begin(false);
                (text.chunks(size)).for_each(|piece| pieces.push(piece, &key));
                assert_eq!(pieces.end(), (whole, false), "{length} by {size}");
            }
        }
    }
}
