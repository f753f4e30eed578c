//! Drives cargo for the BPF target, so that the same sources and tools give the same object
//! wherever the checkout, cargo's home and the toolchain lie.

use crate::strip::{NotAnObject, strip_dwarf};
use crate::{TARGET, Toolchain, Way};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Compiler flags beside the paths' remapping. XDP needs no CPU's registers, so one
/// `bpf_target_arch` serves every host and the object is the same on all of them.
///
/// Blocks stay in the order of the source: LLVM's own placement may turn a loop so that its
/// end falls through into its middle, which the verifier of 6.1 refuses as a back-edge.
const FLAGS: [&str; 4] = [
    "--cfg=bpf_target_arch=\"x86_64\"",
    "-Cdebuginfo=2",
    "-Clink-arg=--btf",
    "-Clink-arg=--llvm-args=-disable-block-placement",
];

/// The release profile, as the environment's words override the workspace's. bpf-linker
/// does the link-time optimisation; BTF is made from the debug information.
const PROFILE: [(&str, &str); 9] = [
    ("CODEGEN_UNITS", "1"),
    ("DEBUG", "2"),
    ("DEBUG_ASSERTIONS", "false"),
    ("INCREMENTAL", "false"),
    ("LTO", "off"),
    ("OPT_LEVEL", "3"),
    ("OVERFLOW_CHECKS", "false"),
    ("PANIC", "abort"),
    ("STRIP", "none"),
];

/// Variables of cargo's and rustup's that the nested cargo may see; the others come from
/// the cargo around a build script and would change the recipe.
const KEPT: [&str; 8] = [
    "CARGO_HOME",
    "CARGO_HTTP_",
    "CARGO_MAKEFLAGS",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_SOURCE_",
    "RUSTUP_HOME",
];

/// Features of edge-ebpf to build with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Log lines through aya-log. Never in the prebuilt object.
    pub log: bool,
}

/// Why there is no object.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// cargo could not be started.
    #[error("{}: {error}", .cargo.display())]
    Start {
        /// The cargo.
        cargo: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The compilation failed.
    #[error("edge-ebpf does not build for {TARGET} ({status}):\n{said}")]
    Failed {
        /// cargo's exit.
        status: std::process::ExitStatus,
        /// What cargo and the compiler said; empty when it went to the terminal.
        said: String,
    },
    /// The built file could not be read.
    #[error("{}: {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// What was built is no BPF object.
    #[error("{}: {error}", .path.display())]
    NotAnObject {
        /// The file.
        path: PathBuf,
        /// Why.
        error: NotAnObject,
    },
}

/// Builds edge-ebpf of the checkout at `workspace` and returns the object without DWARF.
/// Intermediate files stay in `target_dir`. `progress`: cargo writes to this process's
/// standard error; otherwise its words are kept for the error.
///
/// # Errors
/// When cargo cannot be started, fails, or makes something else than a BPF object.
pub fn build(
    toolchain: &Toolchain,
    workspace: &Path,
    target_dir: &Path,
    features: Features,
    progress: bool,
) -> Result<Vec<u8>, BuildError> {
    let mut cargo = command(toolchain, workspace, target_dir, "build");
    if features.log {
        cargo.args(["--features", "log"]);
    }
    cargo.stderr(if progress {
        Stdio::inherit()
    } else {
        Stdio::piped()
    });
    let output = cargo.output().map_err(|error| BuildError::Start {
        cargo: toolchain.cargo.clone(),
        error,
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr)
            .trim_end()
            .to_owned();
        return Err(BuildError::Failed {
            status: output.status,
            said,
        });
    }
    let path = target_dir.join(TARGET).join("release/edge-ebpf");
    let linked = std::fs::read(&path).map_err(|error| BuildError::Read {
        path: path.clone(),
        error,
    })?;
    strip_dwarf(&linked).map_err(|error| BuildError::NotAnObject { path, error })
}

/// `cargo SUBCOMMAND` for edge-ebpf with the recipe's environment: `build`, `check`, or
/// `clippy`, which is the toolchain's own, since another's does not read its `core`.
pub fn command(
    toolchain: &Toolchain,
    workspace: &Path,
    target_dir: &Path,
    subcommand: &str,
) -> Command {
    let mut cargo = match subcommand {
        "clippy" => Command::new(toolchain.cargo.with_file_name("cargo-clippy")),
        _ => Command::new(&toolchain.cargo),
    };
    for (name, _) in std::env::vars_os() {
        if is_cargos(&name) {
            cargo.env_remove(name);
        }
    }
    cargo
        .current_dir(workspace)
        .stdin(Stdio::null())
        .args([subcommand, "--locked", "--release", "--package", "edge-ebpf"])
        .args(["--target", TARGET])
        .arg("--target-dir")
        .arg(target_dir)
        .env("CARGO", &toolchain.cargo)
        .env("RUSTC", &toolchain.rustc)
        .env("RUSTC_WRAPPER", "")
        .env("RUSTC_WORKSPACE_WRAPPER", "")
        // aya-ebpf uses asm_experimental_arch, a released compiler refuses it otherwise.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", &toolchain.linker)
        .env("CARGO_ENCODED_RUSTFLAGS", flags(toolchain, workspace).join("\u{1f}"));
    for (name, value) in PROFILE {
        cargo.env(format!("CARGO_PROFILE_RELEASE_{name}"), value);
    }
    if toolchain.way == Way::Rustup {
        cargo.arg("-Zbuild-std=core");
    }
    cargo
}

/// Flags and profile as text, without paths: part of the sources' hash.
pub(crate) fn recipe() -> String {
    let profile = PROFILE
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    FLAGS
        .iter()
        .map(ToString::to_string)
        .chain(profile)
        .collect::<Vec<_>>()
        .join(" ")
}

fn flags(toolchain: &Toolchain, workspace: &Path) -> Vec<String> {
    let cargo_home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let library = toolchain.sysroot.join("lib/rustlib/src/rust");
    let mut flags: Vec<String> = FLAGS.map(str::to_owned).into();
    // The last match wins: the more special path comes later.
    let remapped = cargo_home
        .map(|home| (home, "/cargo"))
        .into_iter()
        .chain([(library, "/rustc")])
        .chain([(workspace.to_owned(), "/edge")]);
    for (path, name) in remapped {
        flags.push(format!("--remap-path-prefix={}={name}", path.display()));
    }
    flags
}

fn is_cargos(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let cargos = ["CARGO", "RUST"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    cargos && name != "RUST_BACKTRACE" && !KEPT.iter().any(|kept| name.starts_with(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_surrounding_cargo_does_not_reach_the_nested_one() {
        for name in [
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_BUILD_TARGET",
            "CARGO_TARGET_DIR",
            "RUSTC",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTFLAGS",
            "RUSTUP_TOOLCHAIN",
        ] {
            assert!(is_cargos(OsStr::new(name)), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "CARGO_MAKEFLAGS",
        ] {
            assert!(!is_cargos(OsStr::new(name)), "{name}");
        }
    }
}
