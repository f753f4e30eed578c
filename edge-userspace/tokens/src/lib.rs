//! How many tokens a text has, before anyone is asked to answer it.
//!
//! Two answers, never mixed up: an exact count, equal to the reference tokenizer's, and an
//! estimate with its interval. Counting needs no token ids, so none are made. Not here: what
//! of a request is text, and what a model adds to it; that is the edge's business.

pub mod arch;
mod code_points;
pub mod estimate;
mod exact;
mod lookup;
pub mod merge;
mod normal_form;
pub mod pattern;
#[doc(hidden)]
pub mod plain;
pub mod text;
mod vocabulary;

pub use arch::{ISA_VARIABLE, Isa};
pub use exact::{Counter, Text};
pub use normal_form::{NormalForm, Normalizer};
pub use pattern::Pattern;
pub use vocabulary::{CompactError, NotMerged, Ranks, RanksError, Vocabulary, VocabularyError};
