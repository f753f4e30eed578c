//! An edge daemon and a demo model for one script, and what tells the script of them.

use edge_userspace::demo_model::{DemoModel, Options};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A hang guard, not a promise.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Place {
    directory: tempfile::TempDir,
    model: DemoModel,
    key: Key,
    /// Keys that may do less, with the variables that they are told by.
    limited: Vec<(&'static str, Key)>,
    edge: Daemon,
    /// In front of it, in the zero lane.
    sidecar: Option<Sidecar>,
    /// One whose single connection to its upstream is taken.
    full: Daemon,
    /// What takes it.
    _taker: Tls,
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A key as `edge keys new` made it.
struct Key {
    id: String,
    text: String,
}

/// What keys may do less, and the variable that tells of such a key.
const LIMITED: [(&str, &str); 7] = [
    ("EDGE_TEST_SHORT_KEY", "--max-prompt-tokens 1000"),
    ("EDGE_TEST_SLOW_KEY", "--requests-per-minute 1"),
    ("EDGE_TEST_SINGLE_KEY", "--concurrent-requests 1"),
    ("EDGE_TEST_SPENT_KEY", "--tokens-per-day 40"),
    ("EDGE_TEST_CAPPED_KEY", "--tokens-per-day 200"),
    ("EDGE_TEST_OTHER_KEY", "--tokens-per-day 0"),
    ("EDGE_TEST_BOUND_KEY", "--model other-* --model gpt-other"),
];

/// By which way requests come to the edge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Straight from the SDK.
    Legacy,
    /// Through `edge connect`.
    Zero,
}

/// A running `edge connect`; killed when dropped.
struct Sidecar {
    child: Child,
    base: String,
}

/// A running daemon; killed when dropped.
struct Daemon {
    child: Child,
    /// Where it listens, in all its places.
    listen: Vec<SocketAddr>,
    admin: SocketAddr,
}

impl Place {
    pub(crate) fn new(lane: Lane) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let model = DemoModel::start(Options {
            first_token: Duration::from_millis(1),
            inter_token: Duration::ZERO,
            ..Options::default()
        });
        let model = model.unwrap();
        let ca = certificate(&directory);
        let key = new_key(&directory);
        let limited: Vec<_> = LIMITED
            .iter()
            .map(|(name, limits)| {
                let key = new_key(&directory);
                let limit = format!("keys limit --store keys.journal {limits} {}", key.id);
                let output = edge(&directory, &limit).output().unwrap();
                assert!(output.status.success(), "{output:?}");
                (*name, key)
            })
            .collect();
        let upstream = model.address();
        // A client that shares connections between keys meets none of another key's where each
        // has a port of its own.
        let listen = vec!["\"127.0.0.1:0\""; 1 + LIMITED.len()].join(", ");
        let config = |name: &str, upstream_settings: &str| {
            let text = format!(
                "[listen]\naddresses = [{listen}]\nthreads = 1\ndrain_timeout = \"0s\"\n\
                 [tls]\ncertificate = \"cert.pem\"\nprivate_key = \"key.pem\"\n\
                 [keys]\nstore = \"keys.journal\"\naudience = \"demo\"\n\
                 [kernel]\nattach = \"off\"\n\
                 [upstream]\n{upstream_settings}\n\
                 [[upstreams]]\nname = \"model\"\nurl = \"http://{upstream}\"\n\
                 models = [\"claude-*\", \"gpt-*\"]\n\
                 [[upstreams]]\nname = \"absent\"\nurl = \"http://127.0.0.1:1\"\n\
                 models = [\"absent-*\"]\n\
                 [api]\nmax_body_bytes = 4000000\n\
                 [[api.models]]\nid = \"claude-demo\"\ndisplay_name = \"Demo\"\n\
                 created_at = \"2026-01-01T00:00:00Z\"\n\
                 [[api.models]]\nid = \"claude-other\"\n[[api.models]]\nid = \"gpt-demo\"\n\
                 [admin]\naddress = \"127.0.0.1:0\"\n\
                 [log]\njson = true\nfilter = \"info\"\n"
            );
            std::fs::write(directory.path().join(name), text).unwrap();
        };
        config(
            "edge.toml",
            "first_byte_timeout = \"3s\"\nidle_timeout = \"3s\"",
        );
        config("full.toml", "max_connections = 1");
        let full = Daemon::start(&directory, "full.toml");
        let taker = take(&full, &ca, &key.text);
        let since = Instant::now();
        while model.stats().figures().active == 0 {
            assert!(since.elapsed() < PATIENCE, "the request does not arrive");
            std::thread::sleep(Duration::from_millis(1));
        }
        let daemon = Daemon::start(&directory, "edge.toml");
        let sidecar = (lane == Lane::Zero).then(|| Sidecar::start(&directory, &daemon, &key));
        Self {
            edge: daemon,
            sidecar,
            full,
            _taker: taker,
            directory,
            model,
            key,
            limited,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("edge.toml.log")).unwrap()
    }

    /// Tells a script by the SDKs' own variables, and by ours where the demo model and the
    /// edge's figures are.
    pub(crate) fn tell(&self, command: &mut Command) {
        let (base, key, lane) = match &self.sidecar {
            Some(sidecar) => (sidecar.base.clone(), "any", "zero"),
            None => (self.edge.base(0), &*self.key.text, "legacy"),
        };
        let authority = self.path("ca.pem");
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
            command
                .env_remove(name)
                .env_remove(name.to_ascii_lowercase());
        }
        command
            .env("SSL_CERT_FILE", &authority)
            .env("NODE_EXTRA_CA_CERTS", &authority)
            .env("ANTHROPIC_BASE_URL", &base)
            .env("ANTHROPIC_API_KEY", key)
            .env("OPENAI_BASE_URL", base + "/v1")
            .env("OPENAI_API_KEY", key)
            .env("EDGE_TEST_LANE", lane)
            .env("EDGE_TEST_FULL", self.full.base(0))
            .env("EDGE_TEST_ADMIN", format!("http://{}", self.edge.admin))
            .env(
                "EDGE_TEST_MODEL",
                format!("http://{}", self.model.address()),
            );
        for (number, (name, key)) in self.limited.iter().enumerate() {
            command
                .env(name, &key.text)
                .env(name.replace("_KEY", "_BASE"), self.edge.base(1 + number));
        }
    }
}

/// Sends a request that gets no answer.
fn take(daemon: &Daemon, ca: &CertificateDer<'static>, key: &str) -> Tls {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone()).unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(tls, TcpStream::connect(daemon.listen[0]).unwrap());
    let body =
        r#"{"max_tokens":1,"messages":[{"role":"user","content":"?"}],"model":"claude-demo"}"#;
    write!(
        stream,
        "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\
         anthropic-version: 2023-06-01\r\nx-demo-error: hang\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream.flush().unwrap();
    stream
}

/// A CA, and a certificate for `localhost`.
fn certificate(directory: &tempfile::TempDir) -> CertificateDer<'static> {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    // Else both would be called the same, and the leaf be taken for its own issuer.
    ca.distinguished_name
        .push(rcgen::DnType::CommonName, "test CA");
    ca.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    let ca_certificate = ca.self_signed(&ca_key).unwrap();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let mut leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    leaf.use_authority_key_identifier_extension = true;
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    for (name, text) in [
        ("ca.pem", ca_certificate.pem()),
        ("cert.pem", leaf.pem()),
        ("key.pem", key.serialize_pem()),
    ] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    ca_certificate.der().clone()
}

fn edge(directory: &tempfile::TempDir, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_edge"));
    command
        .args(arguments.split_whitespace())
        .current_dir(directory.path())
        .env_remove("NOTIFY_SOCKET");
    command
}

fn new_key(directory: &tempfile::TempDir) -> Key {
    let new = "keys new --store keys.journal --audience demo --json --name sdk";
    let output = edge(directory, new).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    Key {
        id: json["key_id"].as_str().unwrap().to_owned(),
        text: json["api_key"].as_str().unwrap().to_owned(),
    }
}

impl Daemon {
    fn start(directory: &tempfile::TempDir, config: &str) -> Self {
        let log = directory.path().join(format!("{config}.log"));
        let child = edge(directory, &format!("run --config {config}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut daemon = Self {
            child,
            listen: Vec::new(),
            admin: ([0, 0, 0, 0], 0).into(),
        };
        let since = Instant::now();
        loop {
            let said = std::fs::read_to_string(&log).unwrap();
            let lines = said
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let serving = { lines }.find(|line| line["fields"]["message"] == "serving");
            if let Some(serving) = serving {
                let addresses = |field: &str| -> Vec<SocketAddr> {
                    let text = serving["fields"][field].as_str().unwrap();
                    let all = text.trim_matches(['[', ']']).split(", ");
                    all.map(|address| address.parse().unwrap()).collect()
                };
                (daemon.listen, daemon.admin) = (addresses("listen"), addresses("admin")[0]);
                return daemon;
            }
            if let Some(status) = daemon.child.try_wait().unwrap() {
                panic!("the daemon ended with {status}:\n{said}");
            }
            assert!(since.elapsed() < PATIENCE, "it does not serve:\n{said}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Daemon {
    /// The base URL of one of its places.
    fn base(&self, place: usize) -> String {
        format!("https://localhost:{}", self.listen[place].port())
    }
}

impl Sidecar {
    fn start(directory: &tempfile::TempDir, daemon: &Daemon, key: &Key) -> Self {
        std::fs::write(directory.path().join("api.key"), &key.text).unwrap();
        let arguments = format!(
            "connect --edge {} --audience demo --api-key-file api.key --ca-file ca.pem \
             --listen 127.0.0.1:0 --json",
            daemon.base(0)
        );
        let log = directory.path().join("sidecar.log");
        let mut child = edge(directory, &arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut said).unwrap();
        let sidecar = Self {
            child,
            base: serde_json::from_str::<Value>(&said)
                .ok()
                .and_then(|said| said["listening"].as_str().map(str::to_owned))
                .unwrap_or_default(),
        };
        let log = std::fs::read_to_string(&log).unwrap();
        assert!(!sidecar.base.is_empty(), "the sidecar said {said:?}\n{log}");
        sidecar
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
