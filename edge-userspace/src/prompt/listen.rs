//! Two who listen to one reading.

use super::json::{Duplicate, Literal, Visit};

/// Tells both, the first one first.
pub(super) struct Both<'a, A, B>(pub(super) &'a mut A, pub(super) &'a mut B);

impl<A: Visit, B: Visit> Visit for Both<'_, A, B> {
    #[inline]
    fn at(&mut self, offset: u64) {
        self.0.at(offset);
        self.1.at(offset);
    }

    #[inline]
    fn begin_object(&mut self) {
        self.0.begin_object();
        self.1.begin_object();
    }

    #[inline]
    fn end_object(&mut self) {
        self.0.end_object();
        self.1.end_object();
    }

    #[inline]
    fn begin_array(&mut self) {
        self.0.begin_array();
        self.1.begin_array();
    }

    #[inline]
    fn end_array(&mut self) {
        self.0.end_array();
        self.1.end_array();
    }

    #[inline]
    fn begin_string(&mut self, is_key: bool) {
        self.0.begin_string(is_key);
        self.1.begin_string(is_key);
    }

    #[inline]
    fn string(&mut self, piece: &[u8]) {
        self.0.string(piece);
        self.1.string(piece);
    }

    #[inline]
    fn end_string(&mut self) -> Result<(), Duplicate> {
        self.0.end_string()?;
        self.1.end_string()
    }

    #[inline]
    fn whole_string(&mut self, is_key: bool, text: &[u8], last: u64) -> Result<(), Duplicate> {
        self.0.whole_string(is_key, text, last)?;
        self.1.whole_string(is_key, text, last)
    }

    #[inline]
    fn begin_number(&mut self) {
        self.0.begin_number();
        self.1.begin_number();
    }

    #[inline]
    fn number(&mut self, piece: &[u8]) {
        self.0.number(piece);
        self.1.number(piece);
    }

    #[inline]
    fn end_number(&mut self) {
        self.0.end_number();
        self.1.end_number();
    }

    #[inline]
    fn literal(&mut self, literal: Literal) {
        self.0.literal(literal);
        self.1.literal(literal);
    }
}
