//! Puts the XDP object where [`edge_userspace::kernel::object`] includes it. Which object,
//! and why a stale one never, is told in edge-ebpf/builder/src/choose.rs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Without `..`: compiler messages and remapped paths name it.
    let workspace = workspace
        .canonicalize()
        .expect("the workspace is where it was compiled");
    println!("cargo:rerun-if-env-changed=EDGE_EBPF_OBJECT");
    println!("cargo:rerun-if-env-changed=EDGE_EBPF_PREBUILT");
    println!("cargo:rerun-if-changed=build.rs");

    let choice = match edge_ebpf_builder::choose(&workspace, &out.join("ebpf")) {
        Ok(choice) => choice,
        Err(error) => {
            for line in error.to_string().lines() {
                println!("cargo:error={line}");
            }
            return ExitCode::FAILURE;
        }
    };
    for path in &choice.watch {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    println!("cargo:rustc-env=EDGE_EBPF_PROVENANCE={}", choice.provenance);
    let path = out.join("edge-ebpf.o");
    if let Err(error) = std::fs::write(&path, &choice.object) {
        println!("cargo:error={}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
