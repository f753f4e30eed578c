//! Which object a build embeds. In this order:
//!
//! 1. The file that `EDGE_EBPF_OBJECT` names.
//! 2. A fresh build, when the toolchain is complete and `EDGE_EBPF_PREBUILT=1` does not
//!    forbid it. When the prebuilt object records these very sources and these very tools it
//!    is what the fresh build would give (`cargo xtask build-ebpf --check` proves that in
//!    CI), and is taken in its stead: half a minute less for every build directory.
//! 3. The prebuilt object, when it records these very sources, whatever the tools.
//!
//! Else nothing: an object that does not belong to the sources beside it is never embedded.
//! A fresh build that fails is an error, not a reason to go on to 3.

#[cfg(test)]
mod tests;

use crate::{
    BuildError, Features, Missing, NotAnObject, Prebuilt, PrebuiltError, Provenance, Sources,
    SourcesError, Toolchain, build, expect_bpf_object, sha256_hex,
};
use std::fmt;
use std::path::{Path, PathBuf};

/// The wishes of the person who builds.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// `EDGE_EBPF_OBJECT`: this file and no other.
    pub object: Option<PathBuf>,
    /// `EDGE_EBPF_PREBUILT=1`: no fresh build.
    pub prebuilt_only: bool,
}

/// The object to embed.
#[derive(Debug)]
pub struct Choice {
    /// Its bytes.
    pub object: Vec<u8>,
    /// Where it is from.
    pub origin: Origin,
    /// One line for people: `edge --version`, `edge status`.
    pub provenance: String,
    /// Files and folders whose change calls for a new choice. All of them exist.
    pub watch: Vec<PathBuf>,
}

/// Where an object is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The file that `EDGE_EBPF_OBJECT` names.
    Given,
    /// Built just now.
    Fresh,
    /// `edge-ebpf/prebuilt/`.
    Prebuilt,
}

/// Why there is nothing to embed.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// `EDGE_EBPF_OBJECT` names no BPF object.
    #[error("EDGE_EBPF_OBJECT={}: {error}", .path.display())]
    Given {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: String,
    },
    /// The sources could not be hashed.
    #[error(transparent)]
    Sources(#[from] SourcesError),
    /// The fresh build failed.
    #[error("{error}{hint}", hint = if *.prebuilt_fits {
        "\nThe prebuilt object fits these sources: EDGE_EBPF_PREBUILT=1 builds with it instead."
    } else {
        ""
    })]
    Build {
        /// Why.
        error: BuildError,
        /// Whether the prebuilt object would do.
        prebuilt_fits: bool,
    },
    /// No toolchain, and the prebuilt object is of other sources.
    #[error(
        "the prebuilt BPF object is stale: it was built from sources {recorded}, these are \
         {sources}, and {why_not_fresh}.\nRun `cargo xtask setup` and then `cargo xtask \
         build-ebpf`, or name an object with EDGE_EBPF_OBJECT."
    )]
    Stale {
        /// The note's source hash, shortened.
        recorded: String,
        /// The sources' hash, shortened.
        sources: String,
        /// Why a fresh build was not made.
        why_not_fresh: String,
    },
    /// No toolchain, and no usable prebuilt object.
    #[error(
        "no BPF object: {prebuilt}; and {why_not_fresh}.\nRun `cargo xtask setup` and then \
         `cargo xtask build-ebpf`, or name an object with EDGE_EBPF_OBJECT."
    )]
    Nothing {
        /// What is wrong with the prebuilt object.
        prebuilt: PrebuiltError,
        /// Why a fresh build was not made.
        why_not_fresh: String,
    },
}

/// Chooses for the checkout at `workspace`, with the toolchain that is here and the wishes
/// in the environment. A fresh build works in `target_dir`.
///
/// # Errors
/// When there is no object that belongs to the sources, with the command that makes one.
pub fn choose(workspace: &Path, target_dir: &Path) -> Result<Choice, ChooseError> {
    let wishes = Wishes {
        object: std::env::var_os("EDGE_EBPF_OBJECT")
            .filter(|p| !p.is_empty())
            .map(Into::into),
        prebuilt_only: std::env::var_os("EDGE_EBPF_PREBUILT").is_some_and(|set| set == "1"),
    };
    let found = if wishes.object.is_some() || wishes.prebuilt_only {
        Err(Vec::new()) // not asked for: do not spend the time on looking
    } else {
        Toolchain::find()
    };
    choose_with(workspace, &wishes, found, |toolchain| {
        build(toolchain, workspace, target_dir, Features::default(), false)
    })
}

/// [`choose()`] with everything named: the toolchain, or what is missing of it, and what
/// makes a fresh object with it.
///
/// # Errors
/// As [`choose()`].
pub fn choose_with(
    workspace: &Path,
    wishes: &Wishes,
    found: Result<Toolchain, Vec<Missing>>,
    make: impl FnOnce(&Toolchain) -> Result<Vec<u8>, BuildError>,
) -> Result<Choice, ChooseError> {
    if let Some(path) = &wishes.object {
        return given(path);
    }
    let sources = Sources::read(workspace)?;
    let prebuilt = Prebuilt::read(workspace);
    let fitting = prebuilt
        .as_ref()
        .ok()
        .filter(|prebuilt| prebuilt.provenance.source_sha256 == sources.sha256);
    let toolchain = if wishes.prebuilt_only {
        Err(Vec::new())
    } else {
        found
    };
    let watch = |toolchain: Option<&Toolchain>| {
        let tools = toolchain
            .into_iter()
            .flat_map(|t| [t.rustc.clone(), t.linker.clone()]);
        let prebuilt = [
            Prebuilt::object_path(workspace),
            Prebuilt::provenance_path(workspace),
        ];
        let all = sources.watch.iter().cloned().chain(prebuilt).chain(tools);
        all.filter(|path| path.exists()).collect()
    };
    match (&toolchain, fitting) {
        (Ok(toolchain), Some(prebuilt)) if prebuilt.provenance.tools == toolchain.versions => {
            Ok(of_prebuilt(prebuilt, watch(Some(toolchain))))
        }
        (Ok(toolchain), fitting) => {
            let object = make(toolchain).map_err(|error| ChooseError::Build {
                error,
                prebuilt_fits: fitting.is_some(),
            })?;
            let provenance = Provenance::new(&object, &sources.sha256, &toolchain.versions);
            let provenance = Line(Origin::Fresh, &provenance).to_string();
            let watch = watch(Some(toolchain));
            Ok(Choice {
                object,
                origin: Origin::Fresh,
                provenance,
                watch,
            })
        }
        (Err(_), Some(prebuilt)) => Ok(of_prebuilt(prebuilt, watch(None))),
        (Err(missing), None) => {
            let why_not_fresh = why_not_fresh(wishes, missing);
            Err(match prebuilt {
                Ok(prebuilt) => ChooseError::Stale {
                    recorded: short(&prebuilt.provenance.source_sha256).into(),
                    sources: short(&sources.sha256).into(),
                    why_not_fresh,
                },
                Err(prebuilt) => ChooseError::Nothing {
                    prebuilt,
                    why_not_fresh,
                },
            })
        }
    }
}

fn given(path: &Path) -> Result<Choice, ChooseError> {
    let refused = |error: String| ChooseError::Given {
        path: path.into(),
        error,
    };
    let object = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
    expect_bpf_object(&object).map_err(|error: NotAnObject| refused(error.to_string()))?;
    let provenance = format!("given as a file, object {}", short(&sha256_hex(&object)));
    Ok(Choice {
        object,
        origin: Origin::Given,
        provenance,
        watch: vec![path.into()],
    })
}

fn of_prebuilt(prebuilt: &Prebuilt, watch: Vec<PathBuf>) -> Choice {
    Choice {
        object: prebuilt.object.clone(),
        origin: Origin::Prebuilt,
        provenance: Line(Origin::Prebuilt, &prebuilt.provenance).to_string(),
        watch,
    }
}

fn why_not_fresh(wishes: &Wishes, missing: &[Missing]) -> String {
    if wishes.prebuilt_only {
        return "EDGE_EBPF_PREBUILT=1 forbids a fresh build".into();
    }
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    format!(
        "the BPF toolchain cannot build a fresh one ({})",
        missing.join("; ")
    )
}

/// The first 12 digits of a hash, as people compare them.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

/// The line for people.
struct Line<'a>(Origin, &'a Provenance);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(
            origin,
            Provenance {
                source_sha256,
                object_sha256,
                tools,
                ..
            },
        ) = self;
        let origin = match origin {
            Origin::Given => "given",
            Origin::Fresh => "fresh",
            Origin::Prebuilt => "prebuilt",
        };
        write!(
            f,
            "{origin}, object {}, sources {}, rustc {} ({}), LLVM {}, bpf-linker {}",
            short(object_sha256),
            short(source_sha256),
            tools.rustc,
            tools.rustc_commit.get(..9).unwrap_or(&tools.rustc_commit),
            tools.llvm,
            tools.bpf_linker
        )
    }
}
