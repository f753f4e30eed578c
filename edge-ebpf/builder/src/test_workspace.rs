//! A workspace shaped like this one, small enough to change in a test.

use std::path::Path;
use tempfile::TempDir;

/// Writes it into a new temporary folder.
pub(crate) fn workspace() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in FILES {
        write(&folder.path().join(file), text.as_bytes());
    }
    folder
}

/// Writes a file and the folders above it.
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// A BPF object with one empty section of this name.
pub(crate) fn object(section: &str) -> Vec<u8> {
    use object::write::Object;
    let mut file = Object::new(
        object::BinaryFormat::Elf,
        object::Architecture::Bpf,
        object::Endianness::Little,
    );
    file.add_section(Vec::new(), section.into(), object::SectionKind::Text);
    file.write().unwrap()
}

const FILES: [(&str, &str); 7] = [
    ("edge-common/src/lib.rs", "pub mod deep;\n"),
    ("edge-common/src/deep/er.rs", "\n"),
    ("edge-ebpf/src/main.rs", "fn main() {}\n"),
    (
        "Cargo.toml",
        r#"
[workspace.package]
version = "0.1.0"
edition = "2024"
[workspace.dependencies]
aya-ebpf = "=0.2.1"
aya = "0.14"
tokio = "1"
"#,
    ),
    (
        "edge-common/Cargo.toml",
        r#"
[package]
name = "edge-common"
description = "shared"
[features]
user = []
[dependencies]
aya = { version = "0.14", optional = true }
[dev-dependencies]
proptest = "1"
"#,
    ),
    (
        "edge-ebpf/Cargo.toml",
        r#"
[package]
name = "edge-ebpf"
[features]
log = []
[dependencies]
aya-ebpf = "=0.2.1"
edge-common = { path = "../edge-common" }
"#,
    ),
    (
        "Cargo.lock",
        r#"
version = 4
[[package]]
name = "aya-ebpf"
version = "0.2.1"
checksum = "aa"
dependencies = ["aya-ebpf-bindings 0.2.0"]
[[package]]
name = "aya-ebpf-bindings"
version = "0.2.0"
checksum = "bb"
[[package]]
name = "aya"
version = "0.14.0"
checksum = "cc"
"#,
    ),
];
