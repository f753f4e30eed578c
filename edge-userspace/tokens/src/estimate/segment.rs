//! Of what kind a stretch of text is: a few comparisons of its counts.
//!
//! Above ASCII the script decides. Within ASCII it is how often
//! characters other than letters come three in a row, lines begin with blanks, digits and
//! brackets stand; where the limits lie was read off a regression tree grown on the texts
//! that weights are fitted on. Names say what most of a segment is, not what all of it is.

use super::algebra::{Counts, at, pair};
use super::bytes_of;
use super::characters::Group;
use super::classes::{kind, run, set};

macro_rules! segments {
    ($($(#[$doc:meta])* $segment:ident $name:literal,)*) => {
        /// The kinds of text that have weights of their own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Segment { $($(#[$doc])* $segment,)* }

        impl Segment {
            /// All that there are.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$segment),*];

            /// Its name in files of weights.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$segment => $name,)* }
            }
        }
    };
}

segments! {
    /// Prose in English.
    Prose "prose",
    /// Words of other languages without accents, and names.
    Words "words",
    /// Prose of languages with many vowels.
    Vowels "vowels",
    /// Prose of Latin script with many letters above ASCII.
    Latin "latin",
    /// Source code, indented.
    Code "code",
    /// Indented, with few brackets: manuals, lists, data.
    Indented "indented",
    /// Lines that begin without a blank: markup, tables, flat code.
    Lines "lines",
    /// One endless line: minified code, JSON without blanks.
    Minified "minified",
    /// Many numbers: logs, tables, dumps.
    Numbers "numbers",
    /// Letters and digits mixed, without blanks: base64, hexadecimal.
    Encoded "encoded",
    /// What is hardly text: control characters, punctuation and blanks of many sorts in a row,
    /// letters without vowels. Estimates of it are rather too high.
    Soup "soup",
    /// Cyrillic.
    Cyrillic "cyrillic",
    /// Arabic.
    Arabic "arabic",
    /// Hebrew, Armenian.
    Hebrew "hebrew",
    /// Greek, and texts full of combining marks.
    Greek "greek",
    /// Thai.
    Thai "thai",
    /// Devanagari.
    Devanagari "devanagari",
    /// The other Indic scripts.
    Indic "indic",
    /// Georgian, Burmese, Ethiopic.
    Eastern "eastern",
    /// Scripts that vocabularies know little of: about a token a byte.
    Rare "rare",
    /// Han characters.
    Han "han",
    /// Japanese: kana among Han characters.
    Kana "kana",
    /// Hangul.
    Hangul "hangul",
    /// Emoji and symbols.
    Emoji "emoji",
}

impl Segment {
    /// Of what kind a block with these counts is.
    pub(crate) fn of(counts: &Counts) -> Self {
        let bytes = bytes_of(counts);
        let high = counts[at::RUN + run::HIGH];
        // More than 15 %.
        if high * 20 > bytes * 3 {
            Self::of_script(counts, bytes)
        } else if high * 50 > bytes {
            match Self::of_script(counts, bytes) {
                Self::Latin => Self::of_ascii_or(counts, bytes, Self::Latin),
                Self::Emoji => Self::Emoji,
                _ => Self::of_ascii(counts, bytes),
            }
        } else {
            Self::of_ascii(counts, bytes)
        }
    }

    /// The script that most bytes above ASCII are of.
    fn of_script(counts: &Counts, bytes: u64) -> Self {
        let of = |group: Group| counts[at::GROUP + group as usize];
        let emoji = 4 * of(Group::Emoji);
        if emoji * 20 >= bytes {
            return Self::Emoji;
        }
        let han = 3 * of(Group::Han);
        let kana = 3 * (of(Group::Hiragana) + of(Group::Katakana));
        let latin = 2 * (of(Group::Latin) + of(Group::LatinMore) + of(Group::Phonetic));
        let rare = 3 * (of(Group::Rare) + of(Group::Jamo) + of(Group::HanRare));
        let scripts = [
            (
                Self::Latin,
                latin + 2 * of(Group::Signs) + 3 * of(Group::LatinAdditional),
            ),
            (Self::Cyrillic, 2 * of(Group::Cyrillic)),
            (Self::Arabic, 2 * of(Group::Arabic)),
            (Self::Hebrew, 2 * (of(Group::Hebrew) + of(Group::Armenian))),
            (Self::Greek, 2 * (of(Group::Greek) + of(Group::Marks))),
            (Self::Thai, 3 * of(Group::Thai)),
            (Self::Devanagari, 3 * of(Group::Devanagari)),
            (Self::Indic, 3 * of(Group::Indic)),
            (Self::Eastern, 3 * of(Group::Eastern)),
            (Self::Rare, rare + 4 * of(Group::Beyond)),
            (
                if kana * 5 >= han + kana {
                    Self::Kana
                } else {
                    Self::Han
                },
                han + kana,
            ),
            (Self::Hangul, 3 * of(Group::Hangul)),
            (Self::Emoji, emoji + 3 * of(Group::Symbols)),
            // What else is mostly marks is no text that weights of a script are for.
            (Self::Soup, 3 * of(Group::Punctuation)),
            (
                Self::Soup,
                3 * (of(Group::CjkPunctuation) + of(Group::Compatibility)),
            ),
        ];
        let first = scripts[0];
        scripts
            .into_iter()
            .fold(
                first,
                |most, next| if next.1 > most.1 { next } else { most },
            )
            .0
    }

    fn of_ascii_or(counts: &Counts, bytes: u64, prose: Self) -> Self {
        match Self::of_ascii(counts, bytes) {
            Self::Prose | Self::Words | Self::Vowels => prose,
            other => other,
        }
    }

    fn of_ascii(counts: &Counts, bytes: u64) -> Self {
        let share = |count: u64, per_myriad: u64| count * 10_000 > bytes * per_myriad;
        let starts = |lane: usize| counts[at::RUN + lane] - counts[at::RUN2 + lane];
        let set_starts = |lane: usize| counts[at::SET + lane] - counts[at::SET2 + lane];
        let blanks = counts[at::RUN + run::SPACE] + counts[at::RUN + run::NEWLINE];
        // Runs are long where they are of one character; those of several are soups.
        let mixed = |lane: usize| counts[at::RUN2 + lane] - counts[at::SAME + lane];
        let soup = mixed(run::PUNCTUATION) + mixed(run::SPACE);
        let letters = counts[at::RUN + run::LETTER];
        let vowels = counts[at::SET + set::VOWEL] + counts[at::KIND + kind::CAPITAL_VOWEL];
        let punctuation = counts[at::RUN + run::PUNCTUATION];
        if share(counts[at::KIND + kind::CONTROL], 150)
            || share(soup, 2500)
            || share(punctuation, 6000)
        {
            Self::Soup
        } else if bytes >= 64 && blanks * 25 < bytes && !share(punctuation, 600) {
            Self::Encoded
        } else if letters * 2 > bytes && vowels * 100 < letters * 12 {
            Self::Soup
        } else if !share(counts[at::SET2 + set::BREAK], 1040) {
            let english = counts[at::KIND + kind::ENGLISH] * 1000;
            let accented = counts[at::RUN + run::HIGH] * 300 > bytes;
            if blanks * 11 < bytes {
                Self::Minified
            } else if share(set_starts(set::VOWEL), 2900) {
                Self::Vowels
            } else if english > letters * if accented { 80 } else { 50 } {
                Self::Prose
            } else {
                Self::Words
            }
        } else if share(counts[pair(0, run::NEWLINE, run::SPACE)], 107) {
            if share(set_starts(set::BRACKET), 89) {
                Self::Code
            } else {
                Self::Indented
            }
        } else if share(starts(run::DIGIT), 446) {
            Self::Numbers
        } else if share(counts[at::RUN + run::NEWLINE], 5) {
            Self::Lines
        } else {
            Self::Minified
        }
    }
}
