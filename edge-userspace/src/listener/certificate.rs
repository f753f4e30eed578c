//! The edge's certificate, read again when its files change.

use super::Error;
use crate::config::{self, Identity, IdentityError};
use crate::telemetry::{CertificateReload, Metrics};
use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often the files are looked at. Looking is two stat(2), and sees through the symbolic
/// links that Kubernetes swaps, which watching a directory does not.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After how long files that were no good are read again though they have not changed.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// The certificate in use.
pub(super) struct Certificate {
    certified: ArcSwap<CertifiedKey>,
    files: Files,
    provider: Arc<CryptoProvider>,
    metrics: Arc<Metrics>,
}

struct Files {
    certificate: PathBuf,
    private_key: PathBuf,
}

/// What stat(2) tells of both files; differs when one was changed or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp([Option<FileStamp>; 2]);

/// Device, inode, modification time in two parts, length.
type FileStamp = (u64, u64, i64, i64, u64);

impl Certificate {
    /// Reads the files, and again whenever they change, for as long as the certificate
    /// exists.
    pub(super) fn watched(
        config: &config::Tls,
        provider: &Arc<CryptoProvider>,
        metrics: &Arc<Metrics>,
    ) -> Result<Arc<Self>, Error> {
        let files = Files {
            certificate: config.certificate.clone(),
            private_key: config.private_key.clone(),
        };
        let stamp = files.stamp();
        let identity = files.read(provider)?;
        metrics.certificate_not_after_s.set(identity.not_after_s);
        let certificate = Arc::new(Self {
            certified: ArcSwap::from_pointee(identity.certified),
            files,
            provider: Arc::clone(provider),
            metrics: Arc::clone(metrics),
        });
        let watched = Arc::downgrade(&certificate);
        std::thread::Builder::new()
            .name("certificate".to_owned())
            .spawn(move || watch(&watched, stamp))
            .map_err(Error::Watcher)?;
        Ok(certificate)
    }

    /// A bad new certificate changes nothing but a counter and the log. Tells whether it was good.
    fn reload(&self) -> bool {
        let outcome = match self.files.read(&self.provider) {
            Ok(identity) => {
                self.certified.store(Arc::new(identity.certified));
                self.metrics
                    .certificate_not_after_s
                    .set(identity.not_after_s);
                tracing::info!(
                    certificate = %self.files.certificate.display(),
                    not_after_s = identity.not_after_s,
                    "the new certificate is in use"
                );
                CertificateReload::Loaded
            }
            Err(error) => {
                tracing::error!(%error, "the new certificate is no good; the old one stays in use");
                CertificateReload::Refused
            }
        };
        self.metrics.certificate_reloads.one(outcome);
        outcome == CertificateReload::Loaded
    }
}

/// Two files are written one after the other: they are read when they have been the same
/// for one look.
fn watch(certificate: &Weak<Certificate>, mut read: Stamp) {
    let mut seen = read;
    let mut refused: Option<Instant> = None;
    loop {
        std::thread::sleep(LOOK_EVERY);
        let Some(certificate) = certificate.upgrade() else {
            return;
        };
        let now = certificate.files.stamp();
        if now != seen {
            refused = None;
        } else if now != read && refused.is_none_or(|at| at.elapsed() >= TRY_AGAIN) {
            if certificate.reload() {
                read = now;
            } else {
                // It may have been the moment's fault: no descriptor was left, say.
                refused = Some(Instant::now());
            }
        }
        seen = now;
    }
}

impl Files {
    fn read(&self, provider: &CryptoProvider) -> Result<Identity, IdentityError> {
        Identity::read(&self.certificate, &self.private_key, provider)
    }

    fn stamp(&self) -> Stamp {
        let of = |path: &Path| {
            let file = std::fs::metadata(path).ok()?;
            Some((
                file.dev(),
                file.ino(),
                file.mtime(),
                file.mtime_nsec(),
                file.len(),
            ))
        };
        Stamp([of(&self.certificate), of(&self.private_key)])
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certified.load_full())
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Writes a new self-signed pair; gives the certificate.
    fn write_pair(dir: &Path) -> Vec<u8> {
        let made = rcgen::generate_simple_self_signed(["edge.test".to_owned()]).unwrap();
        std::fs::write(dir.join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(dir.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        made.cert.der().to_vec()
    }

    fn in_use(certificate: &Certificate) -> Vec<u8> {
        certificate.certified.load().cert[0].to_vec()
    }

    fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(Instant::now() < deadline, "not within a minute: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_new_pair_is_taken_and_a_bad_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let first = write_pair(dir.path());
        let metrics = Arc::new(Metrics::new());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = config::Tls {
            certificate: dir.path().join("cert.pem"),
            private_key: dir.path().join("key.pem"),
            ticket_rotation: Duration::from_secs(3600),
        };
        let certificate = Certificate::watched(&config, &provider, &metrics).unwrap();
        assert_eq!(in_use(&certificate), first);
        assert!(metrics.certificate_not_after_s.get() > 0);

        let second = write_pair(dir.path());
        wait_until("the second pair", || in_use(&certificate) == second);

        std::fs::write(&config.certificate, "no certificate").unwrap();
        let refused = || metrics.certificate_reloads.get(CertificateReload::Refused);
        wait_until("the refusal", || refused() == 1);
        assert_eq!(in_use(&certificate), second, "the last good one stays");

        let third = write_pair(dir.path());
        wait_until("the third pair", || in_use(&certificate) == third);
        assert_eq!(
            metrics.certificate_reloads.get(CertificateReload::Loaded),
            2
        );
    }
}
