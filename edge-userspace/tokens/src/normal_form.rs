//! The normal form that a vocabulary has text brought into before it is cut (Unicode Standard
//! Annex 15).

use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization as _;

/// What is done with text before it is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormalForm {
    /// Nothing.
    None,
    /// NFC, as Qwen 2 has it.
    Nfc,
    /// NFKC, as Claude 2 has it.
    Nfkc,
}

impl NormalForm {
    /// A whole text in this form.
    #[must_use]
    pub fn whole(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::None => Cow::Borrowed(text),
            _ if text.is_ascii() => Cow::Borrowed(text),
            Self::Nfc => Cow::Owned(text.nfc().collect()),
            Self::Nfkc => Cow::Owned(text.nfkc().collect()),
        }
    }
}
