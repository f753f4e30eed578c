//! Plain Rust: what the others have to equal.

pub(super) mod merge;
pub(super) mod scan;
