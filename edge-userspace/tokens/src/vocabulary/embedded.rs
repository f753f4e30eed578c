//! The vocabularies that are built in: their sources and licences are in
//! `vocabularies/PROVENANCE.md`.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::Parts;
use super::section::{Page, Section};
use crate::normal_form::NormalForm;
use crate::pattern::Pattern;

/// A table that the build script made.
macro_rules! table {
    ($name:literal) => {{
        static TABLE: &Page<[u8]> = &Page(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name)));
        Section::Embedded(&TABLE.0)
    }};
}

/// In the order of [`super::Vocabulary::EMBEDDED`].
pub(super) static ALL: [Parts; 3] = [
    Parts {
        name: Cow::Borrowed("cl100k_base"),
        pattern: Pattern::Cl100k,
        normal_form: NormalForm::None,
        longest_token_bytes: 128,
        compact: include_bytes!("../../vocabularies/cl100k_base.bin"),
        lookup: table!("cl100k_base.lookup.bin"),
        merge: table!("cl100k_base.merge.bin"),
        ranks: OnceLock::new(),
        by_token: OnceLock::new(),
    },
    Parts {
        name: Cow::Borrowed("o200k_base"),
        pattern: Pattern::O200k,
        normal_form: NormalForm::None,
        longest_token_bytes: 128,
        compact: include_bytes!("../../vocabularies/o200k_base.bin"),
        lookup: table!("o200k_base.lookup.bin"),
        merge: table!("o200k_base.merge.bin"),
        ranks: OnceLock::new(),
        by_token: OnceLock::new(),
    },
    Parts {
        name: Cow::Borrowed("claude-2"),
        pattern: Pattern::Gpt2,
        normal_form: NormalForm::Nfkc,
        longest_token_bytes: 1024,
        compact: include_bytes!("../../vocabularies/claude-2.bin"),
        lookup: table!("claude-2.lookup.bin"),
        merge: table!("claude-2.merge.bin"),
        ranks: OnceLock::new(),
        by_token: OnceLock::new(),
    },
];

#[cfg(test)]
mod tests {
    use super::super::Vocabulary;

    #[test]
    fn each_is_found_by_its_name_and_whole() {
        for (name, tokens) in Vocabulary::EMBEDDED
            .into_iter()
            .zip([100_256, 199_998, 64_995])
        {
            let vocabulary = Vocabulary::embedded(name).unwrap();
            assert_eq!(vocabulary.name(), name);
            assert_eq!(vocabulary.ranks().tokens(), tokens);
            assert_eq!(
                vocabulary.ranks().longest_token_bytes(),
                vocabulary.longest_token_bytes()
            );
            // As if it had been loaded.
            let loaded = Vocabulary::of(
                name,
                vocabulary.ranks().clone(),
                vocabulary.pattern(),
                vocabulary.normal_form(),
            );
            assert!(loaded.merge_section() == vocabulary.merge_section());
        }
        assert!(Vocabulary::embedded("p50k_base").is_none());
    }
}
