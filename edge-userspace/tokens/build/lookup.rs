//! The library's own writer of look-up sections.
#![expect(dead_code, reason = "the library uses the rest")]

#[path = "../src/lookup/keys.rs"]
mod keys;
#[path = "../src/lookup/write.rs"]
mod write;

pub(crate) use write::write;
