//! What goes into the object, as one hash that does not depend on where the checkout lies.
//!
//! In: every file under `edge-common/src` and `edge-ebpf/src`, those parts of the manifests
//! that the object's compilation reads, the lock file's entries of the object's own
//! dependencies, and the recipe (flags and profile). Out: everything of userspace, so that
//! its dependencies can move without making the object stale. Comments and tests inside the
//! two source folders count as sources: a wrong "stale" costs a rebuild, a wrong "fresh"
//! would run another program than the one that was read.

use crate::build;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The crates of this workspace that the object consists of.
const CRATES: [&str; 2] = ["edge-common", "edge-ebpf"];
/// Keys of `[package]` that reach the compiler.
const PACKAGE_KEYS: [&str; 6] = [
    "name",
    "version",
    "edition",
    "rust-version",
    "build",
    "links",
];
/// Tables of a member's manifest that the object's compilation reads.
const MANIFEST_TABLES: [&str; 6] = [
    "features",
    "dependencies",
    "build-dependencies",
    "target",
    "lib",
    "bin",
];

/// The object's sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// SHA-256 over all of it, lower-case hex.
    pub sha256: String,
    /// Files and folders to watch for changes.
    pub watch: Vec<PathBuf>,
}

/// Why the sources could not be hashed.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    /// A file could not be read.
    #[error("{}: {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A manifest or the lock file is not TOML.
    #[error("{}: {error}", .path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        error: Box<toml::de::Error>,
    },
    /// The lock file has no such package.
    #[error("{} has no package `{package}`: run `cargo metadata --format-version 1` to mend it", .path.display())]
    NotLocked {
        /// The lock file.
        path: PathBuf,
        /// The package, with its version where several are locked.
        package: String,
    },
}

impl Sources {
    /// Hashes the sources of the checkout at `workspace`.
    ///
    /// # Errors
    /// When a file cannot be read, or the lock file lacks one of the object's dependencies.
    pub fn read(workspace: &Path) -> Result<Self, SourcesError> {
        let mut hash = Hash(Sha256::new());
        let mut watch = vec![workspace.join("Cargo.toml"), workspace.join("Cargo.lock")];
        hash.text("recipe", &build::recipe());

        for name in CRATES {
            let folder = workspace.join(name);
            for relative in files(&folder.join("src"))? {
                let path = folder.join("src").join(&relative);
                hash.bytes(&format!("{name}/src/{relative}"), &read(&path)?);
            }
            watch.extend([folder.join("src"), folder.join("Cargo.toml")]);
        }

        let root = parse(&workspace.join("Cargo.toml"))?;
        let mut direct = BTreeSet::new();
        for name in CRATES {
            let manifest = parse(&workspace.join(name).join("Cargo.toml"))?;
            hash.value(
                &format!("{name}/Cargo.toml"),
                &Value::Table(relevant(&manifest)),
            );
            direct.extend(dependencies(name, &manifest));
        }
        for key in ["package", "dependencies"] {
            let Some(Value::Table(table)) = at(&root, &["workspace", key]) else {
                continue;
            };
            let wanted = |name: &str| match key {
                "package" => PACKAGE_KEYS.contains(&name),
                _ => direct.contains(name),
            };
            for (name, value) in table.iter().filter(|(name, _)| wanted(name)) {
                hash.value(&format!("workspace.{key}.{name}"), value);
            }
        }
        for key in ["patch", "replace"] {
            if let Some(value) = root.get(key) {
                hash.value(key, value);
            }
        }

        let lock_path = workspace.join("Cargo.lock");
        for (name, package) in locked(&lock_path, &direct)? {
            hash.value(&format!("lock {name}"), &package);
        }
        Ok(Self {
            sha256: hex::encode(hash.0.finalize()),
            watch,
        })
    }
}

/// The parts of a member's manifest that the object's compilation reads.
fn relevant(manifest: &Table) -> Table {
    let mut kept = Table::new();
    for key in MANIFEST_TABLES {
        if let Some(value) = manifest.get(key) {
            kept.insert(key.into(), value.clone());
        }
    }
    if let Some(Value::Table(package)) = manifest.get("package") {
        let package = package
            .iter()
            .filter(|(key, _)| PACKAGE_KEYS.contains(&key.as_str()));
        let package = package
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        kept.insert("package".into(), Value::Table(package));
    }
    kept
}

/// Names of the registry dependencies that reach the object. edge-common's optional ones
/// are userspace's alone.
fn dependencies(member: &str, manifest: &Table) -> Vec<String> {
    let mut names = Vec::new();
    for key in ["dependencies", "build-dependencies"] {
        let Some(Value::Table(table)) = manifest.get(key) else {
            continue;
        };
        for (name, value) in table {
            let optional = value
                .get("optional")
                .and_then(Value::as_bool)
                .unwrap_or(false);
            if !(optional && member == "edge-common" || CRATES.contains(&name.as_str())) {
                names.push(name.clone());
            }
        }
    }
    names
}

/// The lock file's entries for `direct` and all that they depend on, by `name version`.
fn locked(path: &Path, direct: &BTreeSet<String>) -> Result<BTreeMap<String, Value>, SourcesError> {
    let lock = parse(path)?;
    let empty = Vec::new();
    let packages = lock
        .get("package")
        .and_then(Value::as_array)
        .unwrap_or(&empty);
    let text = |package: &Value, key: &str| {
        package
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut found = BTreeMap::new();
    let mut wanted: Vec<String> = direct.iter().cloned().collect();
    while let Some(name) = wanted.pop() {
        // A dependency reads `name`, or `name version` where several versions are locked.
        let mut words = name.split(' ');
        let (bare, version) = (words.next().unwrap_or_default(), words.next());
        let package = packages
            .iter()
            .find(|package| {
                text(package, "name") == bare
                    && version.is_none_or(|version| text(package, "version") == version)
            })
            .ok_or_else(|| SourcesError::NotLocked {
                path: path.into(),
                package: name.clone(),
            })?;
        let id = format!("{bare} {}", text(package, "version"));
        if found.insert(id, package.clone()).is_none()
            && let Some(Value::Array(next)) = package.get("dependencies")
        {
            wanted.extend(next.iter().filter_map(Value::as_str).map(str::to_owned));
        }
    }
    Ok(found)
}

/// Files under `folder`, relative, with `/`, sorted.
fn files(folder: &Path) -> Result<Vec<String>, SourcesError> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let failed = |error| SourcesError::Read {
            path: folder.clone(),
            error,
        };
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                folders.push((entry.path(), name + "/"));
            } else {
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter()
        .try_fold(table.get(*first)?, |value, key| value.get(*key))
}

fn read(path: &Path) -> Result<Vec<u8>, SourcesError> {
    std::fs::read(path).map_err(|error| SourcesError::Read {
        path: path.into(),
        error,
    })
}

fn parse(path: &Path) -> Result<Table, SourcesError> {
    String::from_utf8_lossy(&read(path)?)
        .parse()
        .map_err(|error| SourcesError::Parse {
            path: path.into(),
            error: Box::new(error),
        })
}

/// Feeds named parts, each with its length, so that no two lists of parts look alike.
struct Hash(Sha256);

impl Hash {
    fn bytes(&mut self, name: &str, bytes: &[u8]) {
        for part in [name.as_bytes(), bytes] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    fn text(&mut self, name: &str, text: &str) {
        self.bytes(name, text.as_bytes());
    }

    fn value(&mut self, name: &str, value: &Value) {
        match value {
            Value::Table(table) => {
                let sorted: BTreeMap<_, _> = table.iter().collect();
                for (key, value) in sorted {
                    self.value(&format!("{name}.{key}"), value);
                }
            }
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    self.value(&format!("{name}[{index}]"), value);
                }
            }
            Value::String(text) => self.text(name, text),
            other => self.text(name, &other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_workspace as fixture;

    fn changed(edit: impl FnOnce(&Path)) -> bool {
        let workspace = fixture::workspace();
        let before = Sources::read(workspace.path()).unwrap().sha256;
        edit(workspace.path());
        Sources::read(workspace.path()).unwrap().sha256 != before
    }

    fn replace(root: &Path, file: &str, from: &str, to: &str) {
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no {from:?}");
        std::fs::write(path, text.replace(from, to)).unwrap();
    }

    #[test]
    fn the_place_of_the_checkout_does_not_matter() {
        let (one, other) = (fixture::workspace(), fixture::workspace());
        assert_ne!(one.path(), other.path());
        assert_eq!(
            Sources::read(one.path()).unwrap().sha256,
            Sources::read(other.path()).unwrap().sha256
        );
    }

    #[test]
    fn what_reaches_the_object_changes_the_hash() {
        for file in [
            "edge-common/src/lib.rs",
            "edge-common/src/deep/er.rs",
            "edge-ebpf/src/main.rs",
        ] {
            assert!(
                changed(|root| std::fs::write(root.join(file), "// other").unwrap()),
                "{file}"
            );
        }
        assert!(changed(|root| {
            std::fs::rename(
                root.join("edge-common/src/deep/er.rs"),
                root.join("edge-common/src/deep/est.rs"),
            )
            .unwrap();
        }));
        for (file, from, to) in [
            ("edge-ebpf/Cargo.toml", "log = []", "log = [\"x\"]"),
            ("edge-common/Cargo.toml", "user = []", "user = [\"y\"]"),
            ("Cargo.toml", "edition = \"2024\"", "edition = \"2021\""),
            (
                "Cargo.toml",
                "aya-ebpf = \"=0.2.1\"",
                "aya-ebpf = \"=0.2.2\"",
            ),
            ("Cargo.lock", "checksum = \"aa\"", "checksum = \"ab\""),
            ("Cargo.lock", "checksum = \"bb\"", "checksum = \"bc\""),
        ] {
            assert!(
                changed(|root| replace(root, file, from, to)),
                "{file}: {from} -> {to}"
            );
        }
    }

    #[test]
    fn what_is_userspace_alone_does_not() {
        for (file, from, to) in [
            ("Cargo.toml", "tokio = \"1\"", "tokio = \"2\""),
            ("Cargo.lock", "checksum = \"cc\"", "checksum = \"cd\""),
            (
                "edge-common/Cargo.toml",
                "proptest = \"1\"",
                "proptest = \"2\"",
            ),
            (
                "edge-common/Cargo.toml",
                "description = \"shared\"",
                "description = \"both\"",
            ),
        ] {
            assert!(
                !changed(|root| replace(root, file, from, to)),
                "{file}: {from} -> {to}"
            );
        }
    }

    #[test]
    fn a_dependency_that_is_not_locked_is_named() {
        let workspace = fixture::workspace();
        replace(
            workspace.path(),
            "Cargo.lock",
            "name = \"aya-ebpf-bindings\"",
            "name = \"other\"",
        );
        let error = Sources::read(workspace.path()).unwrap_err().to_string();
        assert!(
            error.contains("aya-ebpf-bindings") && error.contains("Cargo.lock"),
            "{error}"
        );
    }
}
