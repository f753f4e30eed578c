//! Of what kind a stretch of text is: a few comparisons of its counts.
//!
//! Above ASCII the script decides, which the lead bytes tell. Within ASCII it is how often
//! characters other than letters come three in a row, lines begin with blanks, digits and
//! brackets stand; where the limits lie was read off a regression tree grown on the texts
//! that weights are fitted on. Names say what most of a segment is, not what all of it is.

use super::algebra::{Counts, at};
use super::bytes_of;
use super::classes::{run, set};

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
        let lead = |group: usize, lane: usize| counts[at::LEAD + 8 * group + lane];
        let second = |set: usize, lane: usize| counts[at::SECOND + 8 * set + lane];
        // A second byte may belong to the lead of the block before.
        let rest = |lane: usize| {
            let known = second(0, lane) + second(1, lane);
            lead(0, lane).saturating_sub(known)
        };
        let emoji = 4 * second(0, 7);
        if emoji * 20 >= bytes {
            return Self::Emoji;
        }
        let han = 3 * (0..6).map(|lane| lead(2, lane)).sum::<u64>();
        let kana = 3 * lead(0, 3).saturating_sub(second(0, 3));
        let latin = 2 * (lead(0, 4) + lead(1, 0) + lead(1, 1) + lead(1, 2));
        // Dashes and quotation marks are no symbols.
        let symbols = 3 * lead(0, 2).saturating_sub(second(1, 2) + second(0, 2));
        let minor_hangul = lead(0, 6).saturating_sub(second(0, 6));
        let rare = 2 * lead(1, 4)
            + 3 * (rest(1) + second(1, 2) + minor_hangul)
            + 4 * lead(0, 7).saturating_sub(second(0, 7));
        let scripts = [
            (Self::Latin, latin + 3 * second(0, 1)),
            (Self::Cyrillic, 2 * (lead(0, 5) + lead(1, 5))),
            (Self::Arabic, 2 * lead(1, 7)),
            (Self::Hebrew, 2 * lead(1, 6)),
            (Self::Greek, 2 * lead(1, 3)),
            (Self::Thai, 3 * second(0, 0)),
            (Self::Devanagari, 3 * second(1, 0)),
            (Self::Indic, 3 * rest(0)),
            (Self::Eastern, 3 * second(1, 1)),
            (Self::Rare, rare),
            (
                if kana * 5 >= han + kana {
                    Self::Kana
                } else {
                    Self::Han
                },
                han + kana,
            ),
            (Self::Hangul, 3 * (second(0, 6) + lead(2, 6))),
            (Self::Emoji, emoji + symbols),
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
        let more = |feature: usize, per_myriad: u64| counts[feature] * 10_000 > bytes * per_myriad;
        let blanks = counts[at::RUN + run::SPACE] + counts[at::RUN + run::NEWLINE];
        if bytes >= 64 && blanks * 25 < bytes && !more(at::RUN + run::PUNCTUATION, 600) {
            Self::Encoded
        } else if !more(at::SET3 + set::BREAK, 600) {
            let letters = counts[at::RUN + run::LETTER];
            let english = counts[at::SET + set::ENGLISH] * 1000;
            let accented = counts[at::RUN + run::HIGH] * 300 > bytes;
            if blanks * 11 < bytes {
                Self::Minified
            } else if more(at::SET_START + set::VOWEL, 2900) {
                Self::Vowels
            } else if english > letters * if accented { 80 } else { 50 } {
                Self::Prose
            } else {
                Self::Words
            }
        } else if more(NEWLINE_SPACE, 107) {
            if more(at::SET_START + set::BRACKET, 89) {
                Self::Code
            } else {
                Self::Indented
            }
        } else if more(at::START + run::DIGIT, 446) {
            Self::Numbers
        } else if more(at::RUN + run::NEWLINE, 5) {
            Self::Lines
        } else {
            Self::Minified
        }
    }
}

const NEWLINE_SPACE: usize = super::algebra::pair(run::NEWLINE, run::SPACE);
