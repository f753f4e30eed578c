//! A directory with a certificate, and the names that stand in templates for what is in it.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

/// Where a server listens, what it stands before, and its files.
#[derive(Clone, Debug)]
pub struct Site {
    /// Of its files.
    pub directory: PathBuf,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where it sends requests.
    pub upstream: SocketAddr,
    /// The API key that it lets in.
    pub key: String,
}

impl Site {
    /// The name in the certificate.
    pub const NAME: &'static str = "edge.test";

    /// Makes the directory, and in it a certificate.
    ///
    /// # Panics
    /// When there is no room on the disk.
    #[must_use]
    pub fn new(directory: PathBuf, listen: SocketAddr, upstream: SocketAddr, key: &str) -> Self {
        fs::create_dir_all(&directory).expect("room on the disk");
        certify(&directory);
        Self {
            directory,
            listen,
            upstream,
            key: key.to_owned(),
        }
    }

    /// A template with what its names stand for.
    #[must_use]
    pub fn render(&self, template: &str) -> String {
        let file = |name: &str| self.directory.join(name).display().to_string();
        let names = [
            ("@directory@", self.directory.display().to_string()),
            ("@listen@", self.listen.to_string()),
            ("@listen_address@", self.listen.ip().to_string()),
            ("@listen_port@", self.listen.port().to_string()),
            ("@upstream@", self.upstream.to_string()),
            ("@upstream_address@", self.upstream.ip().to_string()),
            ("@upstream_port@", self.upstream.port().to_string()),
            ("@certificate@", file("cert.pem")),
            ("@private_key@", file("key.pem")),
            ("@bundle@", file("bundle.pem")),
            ("@key@", self.key.clone()),
        ];
        let render = |text: String, (name, value): &(&str, String)| text.replace(name, value);
        names.iter().fold(template.to_owned(), render)
    }

    /// Who signed the certificate.
    ///
    /// # Panics
    /// When the file cannot be read.
    #[must_use]
    pub fn roots(&self) -> RootCertStore {
        roots(&self.directory)
    }
}

/// Writes a certificate of P-256 that nobody else has: `cert.pem`, `key.pem`, both in
/// `bundle.pem`, and `ca.pem` of who signed it.
///
/// # Panics
/// When there is no room on the disk.
pub fn certify(directory: &Path) {
    let write = |name: &str, text: &str| {
        fs::write(directory.join(name), text).expect("room on the disk");
    };
    let ca_key = rcgen::KeyPair::generate().expect("a key");
    let mut ca = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    // By default both would have one name, and OpenSSL take the leaf for its own issuer.
    (ca.distinguished_name).push(rcgen::DnType::CommonName, "bench");
    let ca_certificate = ca.self_signed(&ca_key).expect("a certificate");
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let leaf_key = rcgen::KeyPair::generate().expect("a key");
    let leaf = rcgen::CertificateParams::new(vec![Site::NAME.to_owned()]);
    let leaf = leaf.expect("parameters").signed_by(&leaf_key, &issuer);
    let leaf = leaf.expect("a certificate").pem();
    let leaf_key = leaf_key.serialize_pem();
    write("ca.pem", &ca_certificate.pem());
    write("cert.pem", &leaf);
    write("key.pem", &leaf_key);
    write("bundle.pem", &format!("{leaf}{leaf_key}"));
}

/// Who signed that directory's certificate.
///
/// # Panics
/// When the file cannot be read.
#[must_use]
pub fn roots(directory: &Path) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(directory.join("ca.pem"));
    let certificate = certificate.expect("our certificate");
    roots.add(certificate).expect("our certificate");
    roots
}

/// An address of this machine that is free now.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    listener.local_addr().expect("its address")
}
