//! AVX-512 F, BW, VL, DQ, VBMI and VBMI2.

pub(crate) mod blocks;
pub(super) mod merge;
pub(super) mod scan;
