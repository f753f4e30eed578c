//! AVX2 with BMI1, BMI2, POPCNT and LZCNT.

pub(super) mod merge;
pub(super) mod scan;
