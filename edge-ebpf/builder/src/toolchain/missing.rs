//! What can be missing, and the command that mends it.

use super::{LlvmVersion, Way};
use std::path::PathBuf;

/// The bpf-linker release that the recipe was measured with; it can be built for these
/// majors of LLVM. A newer LLVM takes the newest release instead.
const BPF_LINKER: (&str, std::ops::RangeInclusive<u32>) = ("0.13.0", 21..=23);

/// A part of the toolchain that is not here or does not fit. [`Missing::fix`] says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// No compiler that could build for BPF.
    #[error("no compiler for {TARGET}: neither {debian} nor a rustup toolchain `nightly`", TARGET = crate::TARGET, debian = .debian.display())]
    Compiler {
        /// Where Debian's compiler would be.
        debian: PathBuf,
        /// The way that fits this system.
        way: Way,
    },
    /// A compiler without its cargo.
    #[error("{} is there, its cargo {} is not", .rustc.display(), .cargo.display())]
    Cargo {
        /// The compiler.
        rustc: PathBuf,
        /// Where its cargo was looked for.
        cargo: PathBuf,
        /// The compiler's way.
        way: Way,
    },
    /// The compiler is there but did not say what it is.
    #[error("`{} -vV` did not name a release and an LLVM version: {said}", .rustc.display())]
    CompilerUnreadable {
        /// The compiler.
        rustc: PathBuf,
        /// Its output, or why it could not be run.
        said: String,
        /// The compiler's way.
        way: Way,
    },
    /// No `core` for BPF.
    #[error("{} has no `core` for {TARGET}: {} does not hold it", .rustc.display(), .looked_in.display(), TARGET = crate::TARGET)]
    Core {
        /// The compiler.
        rustc: PathBuf,
        /// Where it would be.
        looked_in: PathBuf,
        /// The compiler's way.
        way: Way,
    },
    /// No bpf-linker.
    #[error("bpf-linker is neither on the PATH nor in cargo's bin directory")]
    Linker {
        /// The LLVM that it must be built for, when a compiler is there.
        llvm: Option<LlvmVersion>,
        /// The compiler's way.
        way: Way,
    },
    /// bpf-linker is there but did not say what it is.
    #[error("{} did not tell its version and its LLVM's: {said}", .linker.display())]
    LinkerUnreadable {
        /// The linker.
        linker: PathBuf,
        /// Its output, or why it could not be run.
        said: String,
        /// The LLVM that it must be built for, when a compiler is there.
        llvm: Option<LlvmVersion>,
        /// The compiler's way.
        way: Way,
    },
    /// Compiler and linker hold different LLVMs.
    #[error("{} has LLVM {linker_llvm}, the compiler has LLVM {llvm}: they must be equal to the patch level", .linker.display())]
    LlvmMismatch {
        /// The linker.
        linker: PathBuf,
        /// The linker's LLVM.
        linker_llvm: LlvmVersion,
        /// The compiler's LLVM.
        llvm: LlvmVersion,
        /// The compiler's way.
        way: Way,
    },
}

impl Missing {
    /// One command that mends it.
    #[must_use]
    pub fn fix(&self) -> String {
        const APT: &str = "apt-get install -y --no-install-recommends";
        match self {
            Self::Compiler {
                way: Way::Debian, ..
            } => {
                format!("{APT} rustc-web cargo-web libstd-rust-web-dev-bpf")
            }
            Self::Cargo {
                way: Way::Debian, ..
            } => format!("{APT} cargo-web"),
            Self::CompilerUnreadable {
                way: Way::Debian, ..
            } => {
                format!("{APT} --reinstall rustc-web")
            }
            Self::Core {
                way: Way::Debian, ..
            } => format!("{APT} libstd-rust-web-dev-bpf"),
            Self::Compiler { .. } | Self::Cargo { .. } => {
                "rustup toolchain install nightly --component rust-src".into()
            }
            Self::CompilerUnreadable { .. } => "rustup update nightly".into(),
            Self::Core { .. } => "rustup component add rust-src --toolchain nightly".into(),
            Self::Linker { llvm, way } | Self::LinkerUnreadable { llvm, way, .. } => {
                install_linker(*llvm, *way)
            }
            Self::LlvmMismatch { llvm, way, .. } => install_linker(Some(*llvm), *way),
        }
    }
}

/// The command that installs a bpf-linker with `llvm`.
fn install_linker(llvm: Option<LlvmVersion>, way: Way) -> String {
    let Some(LlvmVersion { major, .. }) = llvm else {
        // The compiler decides which LLVM; it is missing too and comes first.
        return "cargo xtask setup".into();
    };
    match way {
        // Without LLVM_PREFIX the build takes whichever llvm-config comes first.
        Way::Debian => format!(
            "apt-get install -y --no-install-recommends {} && \
             LLVM_PREFIX=/usr/lib/llvm-{major} cargo install {}",
            linker_packages(major).join(" "),
            linker_install_args(major).join(" "),
        ),
        // Nightlies carry an LLVM that no system packages; the published binaries follow it.
        Way::Rustup => "rustup update nightly && cargo binstall --force bpf-linker".into(),
    }
}

/// Debian's packages that bpf-linker is built against.
#[must_use]
pub fn linker_packages(llvm_major: u32) -> [String; 4] {
    [
        format!("llvm-{llvm_major}-dev"),
        format!("libpolly-{llvm_major}-dev"),
        "zlib1g-dev".into(),
        "libzstd-dev".into(),
    ]
}

/// What follows `cargo install` to build bpf-linker against LLVM `llvm_major`, with
/// `LLVM_PREFIX` naming that LLVM's directory.
#[must_use]
pub fn linker_install_args(llvm_major: u32) -> Vec<String> {
    let (release, majors) = BPF_LINKER;
    let mut args = vec!["bpf-linker".to_owned()];
    if majors.contains(&llvm_major) {
        args.extend(["--version".into(), release.into()]);
    }
    args.extend(["--locked", "--force", "--no-default-features", "--features"].map(Into::into));
    args.push(format!("llvm-{llvm_major}"));
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_llvm_takes_the_newest_linker() {
        assert!(linker_install_args(22).contains(&"0.13.0".to_owned()));
        assert!(!linker_install_args(99).contains(&"--version".to_owned()));
    }
}
