//! A directory with all that a daemon needs, and the daemon as a process. It times nothing.

use super::PATIENCE;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Set for the processes that are to be `edge`.
const AS_EDGE: &str = "EDGE_BENCH_AS_EDGE";

/// Whether this process is to be `edge`.
pub(crate) fn is_edge() -> bool {
    std::env::var_os(AS_EDGE).is_some()
}

/// The system's load of the last minutes, and how many CPUs bear it.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<_> = text.split(' ').take(3).collect();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} on {cpus} CPUs", load.join(", "))
}

/// The directory.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    /// For an edge before those upstreams.
    pub(crate) fn new(upstreams: &[SocketAddr], remembers: bool) -> Self {
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
                    super::TOKENS_PER_MS * 1000
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
        let output = place.edge(new).output().expect("edge keys new");
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

    /// This program as `edge`. It ends with us, however we end.
    fn edge(&self, arguments: &str) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(std::env::current_exe().expect("our own path"))
            .args(arguments.split(' '))
            .current_dir(self.0.path())
            .env(AS_EDGE, "1")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null());
        command
    }
}

/// A running daemon. Dropping it ends it.
pub(crate) struct Daemon {
    child: Child,
    /// Where clients connect.
    pub(crate) address: SocketAddr,
}

impl Daemon {
    /// Starts one and waits until it serves.
    pub(crate) fn start(place: &Place) -> Self {
        let log = place.0.path().join("log");
        let mut command = place.edge("run --config edge.toml");
        command
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).expect("a log"));
        let began = Instant::now();
        let mut child = command.spawn().expect("setpriv of util-linux");
        loop {
            let text = fs::read_to_string(&log).expect("the log");
            let serving = (text.lines()).find(|line| line.contains("\"message\":\"serving\""));
            if let Some(address) = serving.and_then(listens) {
                return Self { child, address };
            }
            let ended = child.try_wait().expect("our child");
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "{text}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The address in the log's line.
fn listens(line: &str) -> Option<SocketAddr> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let listen = line["listen"]
        .as_str()
        .or(line["fields"]["listen"].as_str())?;
    listen.trim_matches(['[', ']']).parse().ok()
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
