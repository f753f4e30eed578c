//! From a piece to its number of tokens without merging: the vocabulary's own tokens in shared
//! tables that are laid out ahead and only read, and a bounded memo of what was learnt, one for
//! each counter.
//!
//! Pieces go by their size. Up to seven bytes are one word, up to fifteen are two, padded with
//! zeros, and the top byte of an entry is its count: a piece that holds a NUL would be
//! ambiguous and goes with the long ones, whose length is part of what is compared.

pub(crate) mod batch;
mod keys;
mod long;
pub(crate) mod memo;
pub(crate) mod shared;
mod write;

pub(crate) use keys::{KEY, hash_key, hash_long, hash_medium, hash_short, padded};
pub(crate) use memo::{First, Memo, Tables};
pub(crate) use shared::Shared;
pub(crate) use write::write;
#[cfg(target_arch = "x86_64")]
pub(crate) use {
    keys::{MEDIUM_MULTIPLIERS, SHORT_MULTIPLIER},
    memo::FIRST_BITS,
};
