//! AVX2 with BMI1, BMI2, POPCNT and LZCNT.

pub(crate) mod blocks;
pub(crate) mod look_up;
pub(super) mod merge;
pub(super) mod scan;
