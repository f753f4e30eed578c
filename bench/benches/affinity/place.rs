//! A directory with all that a daemon needs, and the daemon as a process. It times nothing.

use super::PATIENCE;
use bench::daemon::edge;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// The directory.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    /// For an edge before those upstreams, of which it believes that each reads so many tokens
    /// in a millisecond.
    pub(crate) fn new(upstreams: &[SocketAddr], remembers: bool, tokens_per_ms: u64) -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        let write = |name: &str, text: &str| {
            fs::write(place.0.path().join(name), text).expect("room on the disk");
        };
        let ca_key = rcgen::KeyPair::generate().expect("a key");
        let mut ca = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_certificate = ca.self_signed(&ca_key).expect("a certificate");
        let issuer = rcgen::Issuer::new(ca, ca_key);
        let leaf_key = rcgen::KeyPair::generate().expect("a key");
        let leaf = rcgen::CertificateParams::new(vec!["edge.test".to_owned()]);
        let leaf = leaf.expect("parameters").signed_by(&leaf_key, &issuer);
        write("ca.pem", &ca_certificate.pem());
        write("cert.pem", &leaf.expect("a certificate").pem());
        write("key.pem", &leaf_key.serialize_pem());
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
        write("edge.toml", &text);
        let new = "keys new --store keys.journal --name bench --audience demo --api-key-out key";
        let output = edge(place.0.path(), new).output().expect("edge keys new");
        assert!(output.status.success(), "{output:?}");
        place
    }

    /// Who signed the edge's certificate.
    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(self.0.path().join("ca.pem"));
        (roots.add(certificate.expect("our certificate"))).expect("our certificate");
        roots
    }

    /// The API key.
    pub(crate) fn key(&self) -> String {
        let text = fs::read_to_string(self.0.path().join("key")).expect("the key");
        text.trim().to_owned()
    }
}

/// A running daemon. Dropping it ends it.
pub(crate) struct Daemon {
    daemon: bench::daemon::Daemon,
    /// Where clients connect.
    pub(crate) address: SocketAddr,
}

impl Daemon {
    /// Starts one and waits until it serves.
    pub(crate) fn start(place: &Place) -> Self {
        let daemon = bench::daemon::Daemon::start(place.0.path(), PATIENCE);
        Self {
            address: daemon.address("listen"),
            daemon,
        }
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.daemon.id()
    }

    /// How many there are of a histogram of seconds, and their sum.
    pub(crate) fn histogram(&self, name: &str) -> (f64, f64) {
        let mut admin =
            TcpStream::connect(self.daemon.address("admin")).expect("the admin address");
        (admin.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")).expect("the admin address");
        let mut text = String::new();
        admin.read_to_string(&mut text).expect("metrics");
        let value = |what: &str| -> f64 {
            let name = format!("{name}_{what} ");
            let value = text.lines().find_map(|line| line.strip_prefix(&name));
            value
                .and_then(|value| value.parse().ok())
                .expect("the metric")
        };
        (value("count"), value("sum"))
    }
}
