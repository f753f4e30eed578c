//! AVX-512 F, BW, VL, DQ, VBMI and VBMI2.

pub(super) mod merge;
