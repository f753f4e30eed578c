//! Vocabularies: three that are built in, more from files. A vocabulary is its ranks, its
//! pattern and its normal form; all is read-only and shared by all threads.

pub(crate) mod compact;
mod embedded;
mod error;
mod ranks;
mod section;
mod tiktoken;
mod tokenizer_json;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

pub use compact::{CompactError, NotMerged};
pub use error::VocabularyError;
pub use ranks::{Ranks, RanksError};

use self::section::Section;
use crate::lookup;
use crate::merge;
use crate::normal_form::NormalForm;
use crate::pattern::Pattern;

/// A vocabulary. A clone is the same one: cheap, for another thread.
#[derive(Clone)]
pub struct Vocabulary(Inner);

#[derive(Clone)]
enum Inner {
    Embedded(&'static Parts),
    Loaded(Arc<Parts>),
}

struct Parts {
    name: Cow<'static, str>,
    pattern: Pattern,
    normal_form: NormalForm,
    longest_token_bytes: usize,
    /// Of an embedded one, its compact form: unpacked when the ranks are asked for, which
    /// counting does not do.
    compact: &'static [u8],
    lookup: Section,
    merge: Section,
    ranks: OnceLock<Ranks>,
    by_token: OnceLock<HashMap<Box<[u8]>, u32>>,
}

impl Vocabulary {
    /// Names of those that are built in.
    pub const EMBEDDED: [&str; 3] = ["cl100k_base", "o200k_base", "claude-2"];

    /// A vocabulary file has so many bytes at most.
    pub const MOST_FILE_BYTES: u64 = 64 << 20;

    /// The built-in one of that name: its tables lie in the program, so this takes no time.
    #[must_use]
    pub fn embedded(name: &str) -> Option<Self> {
        let parts = embedded::ALL.iter().find(|parts| parts.name == name)?;
        Some(Self(Inner::Embedded(parts)))
    }

    /// Whether it is the same one, not only an equal one.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self.parts(), other.parts())
    }

    /// Reads a `.tiktoken` file or a byte-level BPE `tokenizer.json`. The latter says its
    /// pattern; the former does not, so `pattern` does, unless the file's name is that of a
    /// vocabulary whose pattern is known (`cl100k_base`, `o200k_base`, `p50k_base`,
    /// `r50k_base`). A pattern that is given has to be the file's, if that says one.
    ///
    /// # Errors
    /// [`VocabularyError`] if the file cannot be read, is damaged or is of a kind that is not
    /// counted here.
    pub fn load(path: &Path, pattern: Option<Pattern>) -> Result<Self, VocabularyError> {
        let (name, file) = read_file(path)?;
        let stem = Path::new(&name).file_stem().unwrap_or_default();
        match Path::new(&name).extension().and_then(|e| e.to_str()) {
            Some("tiktoken") => {
                let known = pattern.or_else(|| known_pattern(stem.to_str()?));
                let pattern = known.ok_or_else(|| VocabularyError::NoPattern {
                    name: name.clone(),
                    patterns: Pattern::ALL.map(Pattern::name).join(", "),
                })?;
                Self::from_tiktoken(&stem.to_string_lossy(), &file, pattern)
            }
            Some("json") => {
                let vocabulary = Self::from_tokenizer_json(&stem.to_string_lossy(), &file)?;
                match pattern.filter(|given| *given != vocabulary.pattern()) {
                    Some(given) => Err(VocabularyError::OtherPattern {
                        name,
                        found: vocabulary.pattern(),
                        given,
                    }),
                    None => Ok(vocabulary),
                }
            }
            _ => Err(VocabularyError::Extension { name }),
        }
    }

    /// The vocabulary of a `.tiktoken` file's content, which has no normal form.
    ///
    /// # Errors
    /// [`VocabularyError`] if it is damaged.
    pub fn from_tiktoken(
        name: &str,
        file: &[u8],
        pattern: Pattern,
    ) -> Result<Self, VocabularyError> {
        let ranks = tiktoken::read(name, file)?;
        Ok(Self::of(name, ranks, pattern, NormalForm::None))
    }

    /// The vocabulary of a byte-level BPE `tokenizer.json`'s content, which says its pattern and
    /// its normal form: GPT-2's, Llama 3's, Qwen 2's and their like.
    ///
    /// # Errors
    /// [`VocabularyError`] if it is damaged, or not of that kind.
    pub fn from_tokenizer_json(name: &str, file: &[u8]) -> Result<Self, VocabularyError> {
        let read = tokenizer_json::read(name, file)?;
        Ok(Self::of(name, read.ranks, read.pattern, read.normal_form))
    }

    /// A vocabulary of these ranks.
    #[must_use]
    pub fn of(name: &str, ranks: Ranks, pattern: Pattern, normal_form: NormalForm) -> Self {
        let tokens: Vec<&[u8]> = (0..ranks.end())
            .map(|rank| ranks.get(rank).unwrap_or_default())
            .collect();
        let merge = Section::loaded(&merge::write(&tokens));
        let lookup = Section::loaded(&lookup::write(tokens.into_iter()));
        Self(Inner::Loaded(Arc::new(Parts {
            name: Cow::Owned(name.to_owned()),
            pattern,
            normal_form,
            longest_token_bytes: ranks.longest_token_bytes(),
            compact: &[],
            lookup,
            merge,
            ranks: OnceLock::from(ranks),
            by_token: OnceLock::new(),
        })))
    }

    /// Its name: of an embedded one as in [`Self::EMBEDDED`], else what it was loaded as.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.parts().name
    }

    /// How it cuts text into pieces.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        self.parts().pattern
    }

    /// The form that text is brought into before it is cut.
    #[must_use]
    pub fn normal_form(&self) -> NormalForm {
        self.parts().normal_form
    }

    /// The bytes of the longest token.
    #[must_use]
    pub fn longest_token_bytes(&self) -> usize {
        self.parts().longest_token_bytes
    }

    /// What its tables take, which all threads share, in bytes.
    #[must_use]
    pub fn shared_bytes(&self) -> usize {
        self.parts().lookup.bytes() + self.parts().merge.bytes()
    }

    /// The table that `lookup::write` wrote.
    pub(crate) fn lookup_section(&self) -> &[u64] {
        self.parts().lookup.words()
    }

    /// The table that [`merge::write`](crate::merge::write()) wrote.
    #[must_use]
    pub fn merge_section(&self) -> &[u64] {
        self.parts().merge.words()
    }

    /// Its tokens. Of an embedded one they are unpacked at the first call, which takes tens of
    /// milliseconds; counting does not ask for them.
    #[must_use]
    pub fn ranks(&self) -> &Ranks {
        let parts = self.parts();
        parts.ranks.get_or_init(|| {
            Ranks::from_compact(parts.compact).expect("the embedded vocabularies are tested")
        })
    }

    /// The rank of each token, for the plain counter.
    pub(crate) fn by_token(&self) -> &HashMap<Box<[u8]>, u32> {
        self.parts().by_token.get_or_init(|| {
            let tokens = self.ranks().iter();
            tokens.map(|(rank, token)| (token.into(), rank)).collect()
        })
    }

    fn parts(&self) -> &Parts {
        match &self.0 {
            Inner::Embedded(parts) => parts,
            Inner::Loaded(parts) => parts,
        }
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary")
            .field("name", &self.name())
            .field("pattern", &self.pattern())
            .field("normal_form", &self.normal_form())
            .finish_non_exhaustive()
    }
}

fn read_file(path: &Path) -> Result<(String, Vec<u8>), VocabularyError> {
    use std::io::Read as _;
    let read = || {
        let file = std::fs::File::open(path)?;
        let mut bytes = Vec::new();
        file.take(Vocabulary::MOST_FILE_BYTES + 1)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let file = read().map_err(|source| VocabularyError::Read {
        path: path.display().to_string(),
        source,
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let bytes = file.len() as u64;
    if bytes > Vocabulary::MOST_FILE_BYTES {
        return Err(VocabularyError::TooLarge {
            name: name.into_owned(),
            bytes,
            most: Vocabulary::MOST_FILE_BYTES,
        });
    }
    Ok((name.into_owned(), file))
}

/// The pattern of a rank file that is known by its name.
fn known_pattern(stem: &str) -> Option<Pattern> {
    match stem {
        "cl100k_base" => Some(Pattern::Cl100k),
        "o200k_base" => Some(Pattern::O200k),
        "p50k_base" | "r50k_base" => Some(Pattern::Gpt2),
        _ => None,
    }
}
