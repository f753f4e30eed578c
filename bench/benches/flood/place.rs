//! A directory with all that the servers need: certificate, key, key store, configurations.
//! The same certificate and the same API key for all of them. It times nothing.

use super::net::{ATTACKED, HONEST, PORT};
use bench::daemon::new_key;
use bench::peers::Site;
use edge_common::token::{KeyId, Token};
use edge_userspace::keys::derive;
use edge_userspace::secret::ApiKey;
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const AUDIENCE: &str = "flood";
/// Connections without a token that the edge takes from one prefix (/24), a second and at once:
/// few, as one who expects tokens sets it. By default it is 500 and 1,000.
pub(crate) const LEGACY_RATE: u32 = 50;

/// The directory, and what the key in it gives.
pub(crate) struct Place {
    pub(crate) site: Site,
    key_id: KeyId,
    mac_key: [u64; 2],
    _directory: tempfile::TempDir,
}

impl Place {
    /// Before that upstream.
    pub(crate) fn new(upstream: SocketAddr) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let key = new_key(path, AUDIENCE);
        let listen = SocketAddr::from(([0, 0, 0, 0], PORT));
        let api_key = ApiKey::new(key.as_bytes().to_vec());
        Self {
            site: Site::new(path.to_owned(), listen, upstream, &key),
            key_id: derive::key_id(&api_key),
            mac_key: derive::mac_key(&api_key, AUDIENCE).words(),
            _directory: directory,
        }
    }

    /// Writes `edge.toml`, with the kernel half attached in that way.
    pub(crate) fn configure(&self, attach: &str) {
        let Site {
            directory,
            listen,
            upstream,
            ..
        } = &self.site;
        let text = format!(
            "[listen]\naddresses = [\"{listen}\"]\nthreads = 1\ndrain_timeout = \"0s\"\n\
             [tls]\ncertificate = \"cert.pem\"\nprivate_key = \"key.pem\"\n\
             [keys]\nstore = \"keys.journal\"\naudience = \"{AUDIENCE}\"\n\
             [kernel]\nattach = \"{attach}\"\ninterfaces = [\"{ATTACKED}\", \"{HONEST}\"]\n\
             [legacy]\nconnections_per_second = {LEGACY_RATE}\nburst = {LEGACY_RATE}\n\
             [upstream]\nurl = \"http://{upstream}\"\n\
             [admin]\naddress = \"127.0.0.1:0\"\n\
             [log]\njson = true\n",
        );
        fs::write(directory.join("edge.toml"), text).expect("room on the disk");
    }

    /// A token that nobody has seen.
    pub(crate) fn token(&self) -> Token {
        static NONCE: AtomicU64 = AtomicU64::new(1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_s = now.expect("a clock after 1970").as_secs();
        let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
        Token::issue(self.key_id, self.mac_key, now_s as u32, nonce)
    }
}
