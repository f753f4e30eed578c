//! A directory with all that a daemon needs. It times nothing.

use super::PATIENCE;
use bench::daemon::{self, Daemon};
use bench::peers::{certify, roots};
use rustls::RootCertStore;
use std::fs;
use std::net::SocketAddr;

/// The directory.
pub(crate) struct Place {
    directory: tempfile::TempDir,
    /// The API key.
    pub(crate) key: String,
}

impl Place {
    /// For an edge before those upstreams, of which it believes that each reads so many tokens
    /// in a millisecond.
    pub(crate) fn new(upstreams: &[SocketAddr], remembers: bool, tokens_per_ms: u64) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        certify(directory.path());
        let upstreams: String = (upstreams.iter().enumerate())
            .map(|(number, address)| {
                format!(
                    "[[upstreams]]\nname = \"u{number}\"\nurl = \"http://{address}\"\n\
                     prefill_tokens_per_second = {}\n",
                    tokens_per_ms * 1000
                )
            })
            .collect();
        let text = format!(
            "[listen]\naddresses = [\"127.0.0.1:0\"]\ndrain_timeout = \"0s\"\n\
             [tls]\ncertificate = \"cert.pem\"\nprivate_key = \"key.pem\"\n\
             [keys]\nstore = \"keys.journal\"\naudience = \"demo\"\n\
             [kernel]\nattach = \"off\"\n\
             [context]\nenabled = {remembers}\n\
             [admin]\naddress = \"127.0.0.1:0\"\n\
             [log]\njson = true\n{upstreams}",
        );
        fs::write(directory.path().join("edge.toml"), text).expect("room on the disk");
        Self {
            key: daemon::new_key(directory.path(), "demo"),
            directory,
        }
    }

    /// Who signed the edge's certificate.
    pub(crate) fn roots(&self) -> RootCertStore {
        roots(self.directory.path())
    }

    /// Starts a daemon and waits until it serves.
    pub(crate) fn start(&self) -> Daemon {
        Daemon::start(self.directory.path(), PATIENCE)
    }
}
