//! `--fit`: learns the estimate's weights from texts whose counts are known, and says how far
//! off they are on texts that had no part in it.
//!
//! The texts are those that `bench/corpora/fetch.py` brings: the split `fit` is learnt from,
//! the split `held-out` is what the errors are of. Every block of text is a row: its features
//! and the tokens of the pieces that start in it. Weights are those of least relative squares
//! (rows that are far off weigh less), those of a segment drawn towards those of all text,
//! then moved as little as makes the sum of every category come out right: of texts that were
//! not learnt from, by what the weights of each half of the texts say of the other half.

mod errors;
mod rows;
mod solve;
mod weigh;

use edge_userspace::tokens::estimate::weights::Weights;
use edge_userspace::tokens::{Vocabulary, estimate};
use std::error::Error;
use std::path::Path;

use rows::{Corpora, Split};

/// Learns the weights of each built-in vocabulary, prints the errors, and writes the weights
/// into the folder `into`.
///
/// # Errors
/// If the corpora are not in the folder `corpora`, or weights cannot be written.
pub(crate) fn run(corpora: &Path, into: &Path, date: &str) -> Result<(), Box<dyn Error>> {
    let corpora = Corpora::read(corpora)?;
    for name in Vocabulary::EMBEDDED {
        let vocabulary = Vocabulary::embedded(name).ok_or("a built-in vocabulary is not there")?;
        let rows = rows::of(&corpora, &vocabulary);
        let (tokens, spread) = weigh::weights(&corpora, &rows);
        let weights = Weights {
            vocabulary: name.to_owned(),
            date: date.to_owned(),
            corpora_sha256: corpora.sha256.clone(),
            tokens,
            spread,
        };
        errors::print(&corpora, &rows, &weights, Split::Fit);
        errors::print(&corpora, &rows, &weights, Split::HeldOut);
        std::fs::write(into.join(format!("{name}.txt")), weights.to_string())?;
    }
    Ok(())
}

/// Prints how far off the built-in weights are on the texts held out.
///
/// # Errors
/// If the corpora are not in the folder `corpora`.
pub(crate) fn errors(corpora: &Path) -> Result<(), Box<dyn Error>> {
    let corpora = Corpora::read(corpora)?;
    for name in Vocabulary::EMBEDDED {
        let vocabulary = Vocabulary::embedded(name).ok_or("a built-in vocabulary is not there")?;
        let rows = rows::of(&corpora, &vocabulary);
        let weights = estimate::Estimator::new(&vocabulary).weights();
        errors::print(&corpora, &rows, weights, Split::HeldOut);
    }
    Ok(())
}
