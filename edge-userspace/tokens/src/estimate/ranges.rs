//! The code points of each script: what the build script lays the table of classes out by, and
//! what tests hold it against.

use super::groups::Group;

/// The first code point of each range.
pub(crate) const RANGES: [(u32, Group); 39] = {
    use Group::*;
    [
        (0, Signs),
        (0xC0, Latin),
        (0x180, LatinMore),
        (0x250, Phonetic),
        (0x300, Marks),
        (0x370, Greek),
        (0x400, Cyrillic),
        (0x530, Armenian),
        (0x590, Hebrew),
        (0x600, Arabic),
        // Syriac, Thaana, N'Ko
        (0x700, Rare),
        (0x900, Devanagari),
        (0x980, Indic),
        (0xE00, Thai),
        // Lao, Tibetan
        (0xE80, Indic),
        // Burmese, Georgian
        (0x1000, Eastern),
        (0x1100, Jamo),
        // Ethiopic, Cherokee
        (0x1200, Eastern),
        // from Canadian syllables to Balinese
        (0x1400, Rare),
        (0x1E00, LatinAdditional),
        (0x1F00, Greek),
        (0x2000, Punctuation),
        (0x2070, Symbols),
        // from Glagolitic to radicals
        (0x2C00, Rare),
        (0x3000, CjkPunctuation),
        (0x3040, Hiragana),
        (0x30A0, Katakana),
        // Bopomofo, enclosed characters
        (0x3100, Rare),
        (0x3400, HanRare),
        (0x4E00, Han),
        // Yi and minor scripts
        (0xA000, Rare),
        (0xAC00, Hangul),
        // more Jamo, private use
        (0xD7B0, Rare),
        (0xF900, Compatibility),
        // selectors of a character's looks
        (0xFE00, Marks),
        (0xFE10, Compatibility),
        (0x1_0000, Beyond),
        (0x1_F000, Emoji),
        (0x2_0000, Beyond),
    ]
};
