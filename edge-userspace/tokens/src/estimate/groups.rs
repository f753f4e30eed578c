//! Scripts, as the estimate tells characters above ASCII apart. The build script reads this file
//! too.

/// Code points from here on are of one class: all are rare.
pub(crate) const FIRST_BEYOND: u32 = 0x3_0000;

macro_rules! groups {
    ($($name:ident)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Group { $($name,)* }
        /// As many as there are.
        pub(crate) const GROUPS: usize = [$(Group::$name,)*].len();
    };
}

groups! {
    Signs Latin LatinMore Phonetic Marks Greek Cyrillic Armenian Hebrew Arabic Rare Devanagari
    Indic Thai Eastern Jamo LatinAdditional Punctuation Symbols CjkPunctuation Hiragana Katakana
    HanRare Han Hangul Compatibility Beyond Emoji
}

/// Code points of one block of the table of classes.
pub(crate) const BLOCK: usize = 128;
