//! The product, as the bench calls it.

use edge_userspace::tokens::estimate::{Estimator, Scan};
use edge_userspace::tokens::{Counter, Isa, Vocabulary};

/// The embedded vocabulary of that name.
pub(crate) fn vocabulary(name: &str) -> Vocabulary {
    Vocabulary::embedded(name).expect("an embedded vocabulary")
}

/// An exact counter of one set of instructions.
pub(crate) fn counter(vocabulary: &str, isa: Isa) -> Counter {
    Counter::with_isa(&self::vocabulary(vocabulary), isa).expect("an available set")
}

/// An estimate of a text that is there whole.
pub(crate) fn estimate(estimator: &Estimator, isa: Isa, text: &[u8]) -> u64 {
    let mut scan = Scan::with_isa(isa).expect("an available set");
    scan.push(text);
    estimator.estimate(&scan.finish()).tokens
}

/// The estimator for a vocabulary.
pub(crate) fn estimator(vocabulary: &str) -> Estimator {
    Estimator::new(&self::vocabulary(vocabulary))
}
