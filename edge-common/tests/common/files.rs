//! The ClientHellos on file: those of real clients in `tests/hellos`, and those made by hand
//! in `tests/hellos/handmade`, which say in their first lines what must come of them.
//!
//! The kernel's tests read the same files through this module.

use edge_common::client_hello::Scanned;
use std::path::{Path, PathBuf};

/// A ClientHello on file.
#[derive(Clone, Debug)]
pub(crate) struct Fixture {
    pub(crate) name: String,
    /// What it offers; empty when it is no whole hello.
    pub(crate) names: Vec<Vec<u8>>,
    pub(crate) bytes: Vec<u8>,
    /// What the scanner must make of the whole.
    pub(crate) scanned: Scanned,
    /// Whether rustls reads the names in it, refuses it, or waits for more.
    pub(crate) rustls: Rustls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rustls {
    Reads,
    Refuses,
    Waits,
}

impl Fixture {
    /// The hello's own record, without what is sent behind it. For whole hellos.
    pub(crate) fn hello(&self) -> &[u8] {
        let length = usize::from(u16::from_be_bytes([self.bytes[3], self.bytes[4]]));
        &self.bytes[..5 + length]
    }
}

/// The hellos of real clients, by name.
pub(crate) fn captured() -> Vec<Fixture> {
    let fixtures = read_all(&folder());
    assert!(fixtures.len() >= 38, "only {} are there", fixtures.len());
    fixtures
}

/// The hand-made ones, by name.
pub(crate) fn handmade() -> Vec<Fixture> {
    let fixtures = read_all(&folder().join("handmade"));
    assert!(fixtures.len() >= 100, "only {} are there", fixtures.len());
    fixtures
}

/// All of both.
pub(crate) fn all() -> Vec<Fixture> {
    [captured(), handmade()].concat()
}

/// Where they lie: the crates stand side by side.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../edge-common/tests/hellos")
}

fn read_all(folder: &Path) -> Vec<Fixture> {
    let mut paths: Vec<_> = (folder.read_dir().unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "hex"))
        .collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Fixture {
    let text = std::fs::read_to_string(path).unwrap();
    let said = |what: &str| {
        let start = format!("# {what}:");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.map(str::trim)
    };
    let names = said("alpn").unwrap_or_default().split_ascii_whitespace();
    let names: Vec<_> = names.map(unquoted).collect();
    let digits: String = text.lines().filter(|line| !line.starts_with('#')).collect();
    Fixture {
        name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
        scanned: match said("scanned") {
            Some("found") => Scanned::Found,
            Some("absent") => Scanned::Absent,
            Some("malformed") => Scanned::Malformed,
            Some("record_fragmented") => Scanned::RecordFragmented,
            Some("not_tls") => Scanned::NotTls,
            Some("incomplete") => Scanned::Incomplete,
            // A captured one says what it offers instead.
            None if names.iter().any(|name| name.starts_with(b"ezl1-")) => Scanned::Found,
            None => Scanned::Absent,
            Some(other) => panic!("{}: `# scanned: {other}`", path.display()),
        },
        rustls: match said("rustls") {
            Some("reads") | None => Rustls::Reads,
            Some("refuses") => Rustls::Refuses,
            Some("waits") => Rustls::Waits,
            Some(other) => panic!("{}: `# rustls: {other}`", path.display()),
        },
        names,
        bytes: hex::decode(digits).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
    }
}

/// Takes off percent-encoding (RFC 3986 section 2.1).
fn unquoted(text: &str) -> Vec<u8> {
    let mut parts = text.split('%');
    let mut name = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        name.extend(hex::decode(digits).unwrap());
        name.extend(rest.as_bytes());
    }
    name
}
