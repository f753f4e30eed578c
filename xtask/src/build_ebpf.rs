//! `cargo xtask build-ebpf`: the XDP object, from its sources, and the copy of it that the
//! repository keeps.

mod compare;

use crate::cargo;
use crate::ui::{self, Tone, paint};
use anyhow::Context as _;
use edge_ebpf_builder::{Features, Prebuilt, Provenance, Sources, Toolchain, build, sha256_hex};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Build the XDP object and refresh edge-ebpf/prebuilt/
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask build-ebpf            build, refresh the prebuilt object and its provenance
  cargo xtask build-ebpf --check    build, compare with the prebuilt object, change nothing
  cargo xtask build-ebpf --log      an object that logs; embed it with EDGE_EBPF_OBJECT=FILE")]
pub(crate) struct Args {
    /// Compare a fresh build with the prebuilt object and name the first difference. With
    /// other tool versions than the recorded ones the two may differ: that is said, and is
    /// no failure.
    #[arg(long)]
    check: bool,

    /// Build with aya-log's log lines, for debugging. Never becomes the prebuilt object.
    #[arg(long, conflicts_with = "check")]
    log: bool,
}

impl Args {
    /// Compare, change nothing.
    pub(crate) fn check() -> Self {
        Self {
            check: true,
            log: false,
        }
    }
}

/// Builds, then refreshes or compares.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let workspace = crate::workspace();
    let sources = Sources::read(&workspace)?;
    let prebuilt = Prebuilt::read(&workspace);
    if args.check {
        let prebuilt = prebuilt
            .as_ref()
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        if prebuilt.provenance.source_sha256 != sources.sha256 {
            anyhow::bail!(
                "the prebuilt object is stale: it records sources {}, these are {}. Run \
                 `cargo xtask build-ebpf` and commit edge-ebpf/prebuilt/",
                prebuilt.provenance.source_sha256,
                sources.sha256
            );
        }
    }

    let toolchain = match Toolchain::find() {
        Ok(toolchain) => toolchain,
        Err(missing) => {
            eprintln!(
                "{} the BPF toolchain is incomplete:",
                paint(Tone::Bad, "error:")
            );
            for part in missing {
                eprintln!("  {part}\n      {}", part.fix());
            }
            eprintln!("`cargo xtask setup` installs all of it where it can.");
            return Ok(ExitCode::FAILURE);
        }
    };
    ui::step(&format!("building edge-ebpf with {}", tools(&toolchain)));
    let target_dir = cargo::metadata()?.target_directory.join("ebpf");
    let object = build(
        &toolchain,
        &workspace,
        &target_dir,
        Features { log: args.log },
        true,
    )?;
    let fresh = Provenance::new(&object, &sources.sha256, &toolchain.versions);

    if args.log {
        let path = target_dir.join("edge-ebpf-log.o");
        std::fs::write(&path, &object).with_context(|| path.display().to_string())?;
        println!("{} ({} bytes)", path.display(), object.len());
        println!(
            "embed it: EDGE_EBPF_OBJECT={} cargo build --bin edge",
            path.display()
        );
        return Ok(ExitCode::SUCCESS);
    }
    match prebuilt {
        Ok(prebuilt) if args.check => check(&prebuilt, &object, &fresh),
        prebuilt => refresh(prebuilt.ok(), object, fresh, &workspace),
    }
}

fn check(prebuilt: &Prebuilt, object: &[u8], fresh: &Provenance) -> anyhow::Result<ExitCode> {
    if prebuilt.provenance.tools != fresh.tools {
        println!(
            "{} the prebuilt object records {:?}, here is {:?}: instructions may differ, the \
             packet fixtures compare behaviour",
            paint(Tone::Note, "not compared:"),
            prebuilt.provenance.tools,
            fresh.tools
        );
        return Ok(ExitCode::SUCCESS);
    }
    match compare::first_difference(&prebuilt.object, object)? {
        None => {
            println!(
                "{} rebuilt with the recorded tools: instructions, relocations and maps are \
                 the prebuilt object's ({})",
                paint(Tone::Good, "equal:"),
                if prebuilt.object == object {
                    "so is every other byte"
                } else {
                    "other bytes differ"
                }
            );
            Ok(ExitCode::SUCCESS)
        }
        Some(difference) => {
            println!("{} {difference}", paint(Tone::Bad, "different:"));
            println!("run `cargo xtask build-ebpf` and commit edge-ebpf/prebuilt/");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn refresh(
    before: Option<Prebuilt>,
    object: Vec<u8>,
    provenance: Provenance,
    workspace: &Path,
) -> anyhow::Result<ExitCode> {
    let path: PathBuf = Prebuilt::object_path(workspace);
    let unchanged =
        before.is_some_and(|before| before.provenance == provenance && before.object == object);
    let word = if unchanged {
        "unchanged:"
    } else {
        "refreshed:"
    };
    println!(
        "{} {} ({} bytes, SHA-256 {})",
        paint(Tone::Good, word),
        path.display(),
        object.len(),
        sha256_hex(&object)
    );
    if !unchanged {
        Prebuilt { object, provenance }.write(workspace)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tools(toolchain: &Toolchain) -> String {
    let versions = &toolchain.versions;
    format!(
        "rustc {} ({} core), LLVM {}, bpf-linker {}",
        versions.rustc, versions.core, versions.llvm, versions.bpf_linker
    )
}
