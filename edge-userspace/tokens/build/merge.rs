//! The library's own writer of merge sections.
#![expect(unreachable_pub, reason = "the library uses the rest")]

#[path = "../src/merge/section.rs"]
mod section;
#[path = "../src/merge/write.rs"]
mod write;

pub(crate) use write::write;
