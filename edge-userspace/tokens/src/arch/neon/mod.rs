//! NEON.

pub(super) mod scan;
