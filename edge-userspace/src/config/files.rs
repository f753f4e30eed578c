//! What a configuration names outside itself: certificates, secrets, interfaces.
//!
//! Everything is opened once at check time, so that a daemon that started does not stumble
//! over it later. Errors are pairs of what is wrong and the cure.

use super::SecretSource;
use crate::keys::store::whose;
use crate::secret::{self, Secret};
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use zeroize::Zeroizing;

/// What is wrong, and what to do about it.
pub(super) type Wrong = (String, String);

/// A certificate chain and its key, which belong together.
pub struct Identity {
    /// For rustls.
    pub certified: CertifiedKey,
    /// Last second at which the leaf is good, Unix time.
    pub not_after_s: i64,
}

/// Why a certificate and a key make no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The certificate is at fault.
    #[error("{path}: {what}", path = .0, what = .1)]
    Certificate(String, String),
    /// The private key is at fault.
    #[error("{path}: {what}", path = .0, what = .1)]
    Key(String, String),
    /// We may not read the private key.
    #[error("{0}: cannot read it: permission denied")]
    KeyDenied(String),
}

impl Identity {
    /// Reads PEM files and matches them.
    ///
    /// # Errors
    /// When one cannot be read, is not PEM, or the key is not the leaf's.
    pub fn read(
        certificate: &Path,
        private_key: &Path,
        provider: &CryptoProvider,
    ) -> Result<Self, IdentityError> {
        let wrong_certificate =
            |what: String| IdentityError::Certificate(certificate.display().to_string(), what);
        let wrong_key = |what: String| IdentityError::Key(private_key.display().to_string(), what);

        let chain = certificates(certificate).map_err(wrong_certificate)?;
        let not_after_s = not_after_s(&chain[0]).map_err(wrong_certificate)?;
        let text = std::fs::read(private_key)
            .map(Zeroizing::new)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    IdentityError::KeyDenied(private_key.display().to_string())
                }
                _ => wrong_key(format!("cannot read it: {error}")),
            })?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
            pem::Error::NoItemsFound => wrong_key("holds no PEM private key".to_owned()),
            _ => wrong_key("is no PEM private key".to_owned()),
        })?;
        let certified =
            CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => wrong_key(format!(
                    "is not the key of the certificate {}",
                    certificate.display()
                )),
                other => wrong_key(format!("cannot be used: {other}")),
            })?;
        Ok(Self {
            certified,
            not_after_s,
        })
    }
}

/// The certificates of a PEM file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = std::fs::read(path).map_err(|error| format!("cannot read it: {error}"))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err("holds no PEM certificate".to_owned()),
        Ok(chain) => Ok(chain),
        Err(_) => Err("is broken PEM".to_owned()),
    }
}

fn not_after_s(certificate: &CertificateDer<'_>) -> Result<i64, String> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|_| "its first certificate is broken".to_owned())?;
    Ok(parsed.validity().not_after.timestamp())
}

/// Whether the key store is there and only its owner can read it.
pub(super) fn key_store(path: &Path) -> Result<(), Wrong> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| {
        let cure = match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("make it: edge keys new --store {shown} --name NAME --audience AUDIENCE")
            }
            std::io::ErrorKind::PermissionDenied => whose(path),
            _ => "let the daemon's user read it".to_owned(),
        };
        (format!("cannot read the key store {shown}: {error}"), cure)
    })?;
    if !metadata.is_file() {
        return Err((
            format!("{shown} is no file"),
            "name the key store's file".to_owned(),
        ));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err((
            format!("others can read or change the key store {shown} (mode {mode:04o})"),
            format!("chmod 600 {shown}"),
        ));
    }
    Ok(())
}

impl SecretSource {
    /// The secret as it is now.
    ///
    /// # Errors
    /// When the file cannot be read or the variable is not set. The text names the place.
    pub fn read(&self) -> Result<Secret, secret::Error> {
        match self {
            Self::File(path) => Secret::read(path),
            Self::Environment(name) => {
                let value = std::env::var_os(name).unwrap_or_default();
                let value = Secret::new(value.into_encoded_bytes());
                // As of a file: whatever put it there may have ended it with a newline.
                match value.expose().trim_ascii_end() {
                    [] => Err(secret::Error::Unset { name: name.clone() }),
                    text => Ok(Secret::new(text.to_vec())),
                }
            }
        }
    }
}

/// Whether there is a network interface of that name.
pub(super) fn interface_exists(name: &str) -> bool {
    use rustix::net::{AddressFamily, SocketType, netdevice, socket};
    socket(AddressFamily::INET, SocketType::DGRAM, None)
        .is_ok_and(|any| netdevice::name_to_index(any, name).is_ok())
}

/// Names of the interfaces there are, for the cure.
pub(super) fn interfaces() -> String {
    use rustix::net::{AddressFamily, SocketType, netdevice, socket};
    let Ok(any) = socket(AddressFamily::INET, SocketType::DGRAM, None) else {
        return "none can be listed".to_owned();
    };
    let names: Vec<_> = (1..=64)
        .filter_map(|index| netdevice::index_to_name(&any, index).ok())
        .collect();
    names.join(", ")
}
