//! The library's own reader of compact vocabularies.
#![expect(dead_code, unreachable_pub, reason = "the library uses the rest")]

#[path = "../src/vocabulary/compact.rs"]
mod compact;
#[path = "../src/vocabulary/ranks.rs"]
mod ranks;

pub(crate) use ranks::Ranks;
