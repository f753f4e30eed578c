//! Puts the XDP object where `src/kernel/object.rs` includes it. Which object, and why never
//! a stale one, is told in `edge-ebpf/builder/src/choose.rs`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Asked now, not when this was compiled: checkouts that share a build directory share
    // this program too.
    let variable = |name: &str| {
        PathBuf::from(std::env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")))
    };
    let out = variable("OUT_DIR");
    let mut workspace = variable("CARGO_MANIFEST_DIR");
    workspace.pop();
    println!("cargo::rerun-if-env-changed=EDGE_EBPF_OBJECT");
    println!("cargo::rerun-if-env-changed=EDGE_EBPF_PREBUILT");
    println!("cargo::rerun-if-changed=build.rs");

    let choice = match edge_ebpf_builder::choose(&workspace, &out.join("ebpf")) {
        Ok(choice) => choice,
        Err(error) => {
            for line in error.to_string().lines() {
                println!("cargo::error={line}");
            }
            return ExitCode::FAILURE;
        }
    };
    for path in &choice.watch {
        // Relative, so that each checkout looks at its own files.
        let path = match path.strip_prefix(&workspace) {
            Ok(inside) => Path::new("..").join(inside),
            Err(_) => path.clone(),
        };
        println!("cargo::rerun-if-changed={}", path.display());
    }
    println!(
        "cargo::rustc-env=EDGE_EBPF_PROVENANCE={}",
        choice.provenance
    );
    let path = out.join("edge-ebpf.o");
    if let Err(error) = std::fs::write(&path, &choice.object) {
        println!("cargo::error={}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
