//! Finds the BPF toolchain, builds the XDP object, and tells a stale object from a fresh one.
//!
//! Used at build time alone: by edge-userspace's build script, which embeds the object, and
//! by `cargo xtask setup|doctor|build-ebpf`. It loads nothing into a kernel.
//!
//! [`Toolchain::find`] → [`build()`] → object + [`Provenance`], kept in
//! `edge-ebpf/prebuilt/` and tied to the sources by [`Sources`]. [`choose()`] is the order
//! in which a build takes an object from the environment, from a fresh build, or from there.

mod build;
mod choose;
mod provenance;
mod sources;
mod strip;
#[cfg(test)]
mod test_workspace;
mod toolchain;

pub use build::{BuildError, Features, build, command};
pub use choose::{Choice, ChooseError, Origin, Wishes, choose, choose_with};
pub use provenance::{Prebuilt, PrebuiltError, Provenance};
pub use sources::{Sources, SourcesError};
pub use strip::{NotAnObject, expect_bpf_object, strip_dwarf};
pub use toolchain::{
    Examination, LlvmVersion, Missing, Search, Toolchain, Versions, Way, linker_install_args,
    linker_packages,
};

/// The target that the XDP program is compiled for.
pub const TARGET: &str = "bpfel-unknown-none";

/// SHA-256 of `bytes`, lower-case hex.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    hex::encode(sha2::Sha256::digest(bytes))
}
