//! Which vector instructions this machine has, decided once, and the code that uses them.
//!
//! Every routine that exists for speed has one variant for each [`Isa`] behind one suite of
//! tests; the scalar variant is what the others have to equal.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod blocks;
pub(crate) mod look_up;
pub(crate) mod merge;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
pub(crate) mod scan;

use std::fmt;
use std::sync::OnceLock;

/// The environment variable that forces one variant, by [`Isa::name`]. What the machine lacks
/// cannot be forced: the best that it has is taken then.
pub const ISA_VARIABLE: &str = "EDGE_TOKENS_ISA";

/// A set of vector instructions that routines are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// None: plain Rust.
    Scalar,
    /// AVX2, BMI1 and BMI2, POPCNT, LZCNT: x86-64 since 2013 (Haswell), 2015 (Excavator).
    Avx2,
    /// AVX-512 F, BW, VL, DQ, VBMI, VBMI2, VPOPCNTDQ, BITALG and GFNI beside AVX2: since Ice Lake
    /// (2019), Zen 4 (2022).
    Avx512,
    /// NEON: every 64-bit Arm.
    Neon,
}

impl Isa {
    /// All that there are, the plainest first.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Avx2, Self::Avx512, Self::Neon];

    /// The variant to use here: the one that [`ISA_VARIABLE`] names if this machine can run it,
    /// else the best. Asked for once in a process.
    #[must_use]
    pub fn detect() -> Self {
        static DETECTED: OnceLock<Isa> = OnceLock::new();
        *DETECTED.get_or_init(|| {
            let forced = std::env::var(ISA_VARIABLE)
                .ok()
                .and_then(|name| Self::named(&name));
            forced
                .filter(|isa| isa.is_available())
                .unwrap_or_else(Self::best)
        })
    }

    /// The best that this machine can run.
    #[must_use]
    pub fn best() -> Self {
        let order = [Self::Avx512, Self::Avx2, Self::Neon];
        order
            .into_iter()
            .find(|isa| isa.is_available())
            .unwrap_or(Self::Scalar)
    }

    /// Those that this machine can run, the plainest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// Whether this machine, and its operating system, can run it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            Self::Neon => cfg!(target_arch = "aarch64"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => has_avx2(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => has_avx2() && has_avx512(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// Its name in figures and in [`ISA_VARIABLE`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|isa| isa.name() == name)
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("lzcnt")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("avx512vpopcntdq")
        && is_x86_feature_detected!("avx512bitalg")
        && is_x86_feature_detected!("gfni")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for isa in Isa::ALL {
            assert_eq!(Isa::named(isa.name()), Some(isa));
        }
        assert_eq!(Isa::named("sse9"), None);
    }

    #[test]
    fn the_best_is_available() {
        assert!(Isa::best().is_available());
        assert!(Isa::available().any(|isa| isa == Isa::best()));
        assert_eq!(Isa::available().next(), Some(Isa::Scalar));
    }
}
