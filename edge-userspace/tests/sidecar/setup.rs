//! A sidecar in this process, in front of edges.

use crate::scripted::Scripted;
use crate::world::{ALICE, AUDIENCE, NAME, World};
use edge_client::{ApiKey, Endpoint, Limits, Tls};
use edge_userspace::sidecar::{self, ContextIds, Options, Sidecar, Status};
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// An edge to go to, of either kind.
pub(crate) trait Edge {
    fn at(&self) -> SocketAddr;
    fn ca(&self) -> PathBuf;

    fn endpoint(&self) -> Endpoint {
        let url = format!("https://{NAME}:{}", self.at().port());
        Endpoint::parse(&url).unwrap().at(self.at())
    }
}

impl Edge for World {
    fn at(&self) -> SocketAddr {
        self.address
    }

    fn ca(&self) -> PathBuf {
        self.files.path("ca.pem")
    }
}

impl Edge for Scripted {
    fn at(&self) -> SocketAddr {
        self.address
    }

    fn ca(&self) -> PathBuf {
        self.files.path("ca.pem")
    }
}

/// A running sidecar; stopped when dropped.
pub(crate) struct Local {
    pub(crate) address: SocketAddr,
    pub(crate) sidecar: Arc<Sidecar>,
    stop: CancellationToken,
}

pub(crate) fn tls(edges: &[&dyn Edge]) -> Tls {
    let mut roots = RootCertStore::empty();
    for edge in edges {
        for certificate in CertificateDer::pem_file_iter(edge.ca()).unwrap() {
            roots.add(certificate.unwrap()).unwrap();
        }
    }
    Tls::new(roots).unwrap()
}

pub(crate) fn options(edges: &[&dyn Edge]) -> Options {
    Options {
        edges: edges.iter().map(|edge| edge.endpoint()).collect(),
        audience: AUDIENCE.to_owned(),
        key: ApiKey::new(ALICE.as_bytes().to_vec()),
        tls: tls(edges),
        discover: true,
        ids: ContextIds::default(),
        fingerprint: true,
        limits: Limits::default(),
        held_bytes: 64 << 20,
        connections: 100,
    }
}

impl Local {
    pub(crate) async fn new(edges: &[&dyn Edge]) -> Self {
        Self::with(options(edges)).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sidecar = Sidecar::new(options).unwrap();
        let stop = CancellationToken::new();
        let drain = Duration::from_secs(1);
        let serving = sidecar::serve(Arc::clone(&sidecar), listener, stop.clone(), drain);
        tokio::spawn(serving);
        Self {
            address,
            sidecar,
            stop,
        }
    }

    pub(crate) fn status(&self) -> Status {
        self.sidecar.status()
    }

    /// Which edge requests go to.
    pub(crate) fn current(&self) -> usize {
        let edges = self.status().edges;
        edges.iter().position(|edge| edge.is_current).unwrap()
    }

    /// Waits until every edge has been checked, so that what comes is no matter of the start.
    pub(crate) async fn settled(&self) {
        crate::world::until("a first round of checks", || self.status().rounds > 0).await;
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
