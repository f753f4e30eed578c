//! The vocabularies that are built in: their sources and licences are in
//! `vocabularies/PROVENANCE.md`.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::Parts;
use crate::normal_form::NormalForm;
use crate::pattern::Pattern;

/// In the order of [`super::Vocabulary::EMBEDDED`].
pub(super) static ALL: [Parts; 3] = [
    parts(
        "cl100k_base",
        Pattern::Cl100k,
        NormalForm::None,
        128,
        include_bytes!("../../vocabularies/cl100k_base.bin"),
    ),
    parts(
        "o200k_base",
        Pattern::O200k,
        NormalForm::None,
        128,
        include_bytes!("../../vocabularies/o200k_base.bin"),
    ),
    parts(
        "claude-2",
        Pattern::Gpt2,
        NormalForm::Nfkc,
        1024,
        include_bytes!("../../vocabularies/claude-2.bin"),
    ),
];

const fn parts(
    name: &'static str,
    pattern: Pattern,
    normal_form: NormalForm,
    longest_token_bytes: usize,
    compact: &'static [u8],
) -> Parts {
    Parts {
        name: Cow::Borrowed(name),
        pattern,
        normal_form,
        longest_token_bytes,
        compact,
        ranks: OnceLock::new(),
        by_token: OnceLock::new(),
    }
}

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
        }
        assert!(Vocabulary::embedded("p50k_base").is_none());
    }
}
