//! Which BPF toolchain is here, part by part, and the command that mends each missing part.
//!
//! Two ways lead to an object. Debian packages a compiler with `core` precompiled for BPF;
//! elsewhere a rustup nightly compiles `core` from rust-src. Both hand LLVM bitcode to
//! bpf-linker, and bitcode is only sure to be understood by the very LLVM that wrote it:
//! the two LLVM versions must be equal to the patch level.

mod missing;
mod search;
#[cfg(test)]
mod tests;

pub use missing::{Missing, linker_install_args, linker_packages};
pub use search::Search;

use std::fmt;
use std::path::PathBuf;

/// A complete toolchain.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// How `core` is had.
    pub way: Way,
    /// The compiler.
    pub rustc: PathBuf,
    /// The cargo that belongs to it.
    pub cargo: PathBuf,
    /// Root of the compiler's installation.
    pub sysroot: PathBuf,
    /// bpf-linker.
    pub linker: PathBuf,
    /// What goes into the object's provenance.
    pub versions: Versions,
}

/// What decides the object's bytes beside its sources.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    /// The compiler's release, as `1.96.0`.
    pub rustc: String,
    /// The compiler's commit; `unknown` when it does not tell.
    pub rustc_commit: String,
    /// LLVM of compiler and linker, as `22.1.8`.
    pub llvm: String,
    /// bpf-linker's release, as `0.13.0`.
    pub bpf_linker: String,
    /// Where `core` comes from: `precompiled` or `build-std`.
    pub core: String,
}

/// How `core` for BPF is had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Debian's compiler with `core` precompiled (package `libstd-rust-web-dev-bpf`).
    Debian,
    /// A rustup nightly that compiles `core` from its component rust-src.
    Rustup,
}

/// An LLVM version to the patch level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LlvmVersion {
    /// As 22 in 22.1.8.
    pub major: u32,
    /// As 1 in 22.1.8.
    pub minor: u32,
    /// As 8 in 22.1.8.
    pub patch: u32,
}

/// Every part that was looked at. `None`: it depends on a part that is missing.
#[derive(Clone, Debug)]
pub struct Examination {
    /// The way that was examined: the first complete one, else the one that fits the system.
    pub way: Way,
    /// Compiler and cargo: what they are.
    pub compiler: Result<String, Missing>,
    /// `core` for BPF: where it is.
    pub core: Option<Result<String, Missing>>,
    /// bpf-linker: what it is.
    pub linker: Result<String, Missing>,
    /// The LLVM that both share.
    pub llvm: Option<Result<String, Missing>>,
    /// The compiler's LLVM, when there is a compiler.
    pub compiler_llvm: Option<LlvmVersion>,
    /// The toolchain, when every part is good.
    pub toolchain: Option<Toolchain>,
}

impl Toolchain {
    /// Finds a complete toolchain: Debian's first, then a rustup nightly.
    ///
    /// # Errors
    /// All parts that are missing on the way that fits this system.
    pub fn find() -> Result<Self, Vec<Missing>> {
        Search::from_env().examine().into_toolchain()
    }
}

impl Examination {
    /// The toolchain, or all that is missing.
    ///
    /// # Errors
    /// Every part that is not good.
    pub fn into_toolchain(self) -> Result<Toolchain, Vec<Missing>> {
        match self.toolchain {
            Some(toolchain) => Ok(toolchain),
            None => Err([
                self.compiler.err(),
                self.core.and_then(Result::err),
                self.linker.err(),
                self.llvm.and_then(Result::err),
            ]
            .into_iter()
            .flatten()
            .collect()),
        }
    }
}

impl Way {
    /// As the provenance names it.
    fn core(self) -> &'static str {
        match self {
            Self::Debian => "precompiled",
            Self::Rustup => "build-std",
        }
    }
}

impl LlvmVersion {
    /// Reads `22.1.8`, also with a suffix as in `22.1.8-rust-1.97.0`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = |part: &str| {
            let end = part
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(part.len());
            part[..end].parse().ok()
        };
        let mut parts = text.trim().splitn(3, '.');
        Some(Self {
            major: parts.next()?.parse().ok()?,
            minor: parts.next()?.parse().ok()?,
            patch: digits(parts.next()?)?,
        })
    }
}

impl fmt::Display for LlvmVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod version_tests {
    use super::*;

    #[test]
    fn llvm_versions_read_with_and_without_a_suffix() {
        let version = LlvmVersion {
            major: 22,
            minor: 1,
            patch: 8,
        };
        assert_eq!(LlvmVersion::parse("22.1.8"), Some(version));
        assert_eq!(
            LlvmVersion::parse(" 22.1.8-rust-1.97.0-nightly\n"),
            Some(version)
        );
        for text in ["22.1", "22", "", "a.b.c", "22.1.x"] {
            assert_eq!(LlvmVersion::parse(text), None, "{text}");
        }
        assert_eq!(version.to_string(), "22.1.8");
    }
}
