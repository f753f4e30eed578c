//! Plain Rust: what the others have to equal.

pub(crate) mod blocks;
pub(super) mod merge;
pub(super) mod scan;
