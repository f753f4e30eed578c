//! The object that is kept in the repository, and the note of what it was made from.

use crate::{Versions, expect_bpf_object, sha256_hex};
use std::path::{Path, PathBuf};

/// What an object was made from and with.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// [`crate::Sources::sha256`].
    pub source_sha256: String,
    /// SHA-256 of the object, lower-case hex.
    pub object_sha256: String,
    /// Flags and profile, without the paths that are remapped.
    pub recipe: String,
    /// The tools.
    pub tools: Versions,
}

/// `edge-ebpf/prebuilt/`, read and whole.
#[derive(Clone, Debug)]
pub struct Prebuilt {
    /// The object.
    pub object: Vec<u8>,
    /// Its note.
    pub provenance: Provenance,
}

/// Why the prebuilt object cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PrebuiltError {
    /// A file could not be read or written.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The note is not what `cargo xtask build-ebpf` writes.
    #[error("{}: {error}", .path.display())]
    Note {
        /// The file.
        path: PathBuf,
        /// Where and why.
        error: String,
    },
    /// The object is not the one of the note.
    #[error(
        "{} has SHA-256 {found}, its provenance.toml records {recorded}: restore both files \
         together", .path.display()
    )]
    Altered {
        /// The object.
        path: PathBuf,
        /// Its hash.
        found: String,
        /// The note's.
        recorded: String,
    },
}

impl Provenance {
    /// Of `object`, made from sources of this hash with these tools.
    #[must_use]
    pub fn new(object: &[u8], source_sha256: &str, tools: &Versions) -> Self {
        Self {
            source_sha256: source_sha256.into(),
            object_sha256: sha256_hex(object),
            recipe: crate::build::recipe(),
            tools: tools.clone(),
        }
    }
}

impl Prebuilt {
    /// Where the object lies in the checkout at `workspace`.
    #[must_use]
    pub fn object_path(workspace: &Path) -> PathBuf {
        workspace.join("edge-ebpf/prebuilt/edge-ebpf.o")
    }

    /// Where its note lies.
    #[must_use]
    pub fn provenance_path(workspace: &Path) -> PathBuf {
        workspace.join("edge-ebpf/prebuilt/provenance.toml")
    }

    /// Reads both files and holds one against the other.
    ///
    /// # Errors
    /// When one is missing or unreadable, or the object is not the one of the note.
    pub fn read(workspace: &Path) -> Result<Self, PrebuiltError> {
        let path = Self::provenance_path(workspace);
        let bytes = read(&path)?;
        let provenance: Provenance =
            toml::from_slice(&bytes).map_err(|error| PrebuiltError::Note {
                path,
                error: error.to_string(),
            })?;
        let path = Self::object_path(workspace);
        let object = read(&path)?;
        let found = sha256_hex(&object);
        if found != provenance.object_sha256 {
            let recorded = provenance.object_sha256;
            return Err(PrebuiltError::Altered {
                path,
                found,
                recorded,
            });
        }
        expect_bpf_object(&object).map_err(|error| PrebuiltError::Note {
            path,
            error: error.to_string(),
        })?;
        Ok(Self { object, provenance })
    }

    /// Writes both files, the note last: a half-written pair is refused by [`Self::read`].
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, workspace: &Path) -> Result<(), PrebuiltError> {
        let (object, note) = (
            Self::object_path(workspace),
            Self::provenance_path(workspace),
        );
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| PrebuiltError::Io { path, error }
        };
        let folder = workspace.join("edge-ebpf/prebuilt");
        std::fs::create_dir_all(&folder).map_err(io(&folder))?;
        let text =
            toml::to_string_pretty(&self.provenance).map_err(|error| PrebuiltError::Note {
                path: note.clone(),
                error: error.to_string(),
            })?;
        let text =
            format!("# Written by `cargo xtask build-ebpf`, with the object beside it.\n{text}");
        std::fs::write(&object, &self.object).map_err(io(&object))?;
        std::fs::write(&note, text).map_err(io(&note))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, PrebuiltError> {
    std::fs::read(path).map_err(|error| PrebuiltError::Io {
        path: path.into(),
        error,
    })
}
