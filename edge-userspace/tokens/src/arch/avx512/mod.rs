//! AVX-512 F, BW, VL, DQ, VBMI and VBMI2.

pub(crate) mod blocks;
pub(crate) mod look_up;
pub(super) mod merge;
pub(super) mod scan;
