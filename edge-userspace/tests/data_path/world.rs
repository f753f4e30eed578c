//! An edge with a key store, a certificate and a demo model, for one test.

use edge_common::policy::{Answer, KeyPolicy, Window};
use edge_common::token::Token;
use edge_userspace::charges::Charges;
use edge_userspace::config::{self, Config};
use edge_userspace::context::Contexts;
use edge_userspace::demo_model::{DemoModel, Options};
use edge_userspace::keys::{Edit, KeyRecord, Keyring, derive};
use edge_userspace::listener;
use edge_userspace::memory::Keeping;
use edge_userspace::prompt::Prompts;
use edge_userspace::secret::ApiKey;
use edge_userspace::session::{Sessions, Stop};
use edge_userspace::telemetry::Metrics;
use edge_userspace::upstream::Upstreams;
use edge_userspace::usage::Ledger;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::task::LocalSet;

/// The name in the edge's certificate and in the model's.
pub(crate) const NAME: &str = "edge.test";
pub(crate) const AUDIENCE: &str = "test";
/// Nothing here takes this long unless it hangs.
const HANG: Duration = Duration::from_secs(60);

pub(crate) const ALICE: &str = "sk-edge-alice";
pub(crate) const BOB: &str = "sk-edge-bob";
/// Needs no header key.
pub(crate) const CAROL: &str = "sk-edge-carol";
/// Not in the store.
pub(crate) const MALLORY: &str = "sk-edge-mallory";

pub(crate) struct World {
    pub(crate) address: SocketAddr,
    /// All of them; `address` is the first.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) model: DemoModel,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) charges: Arc<Charges>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) prompts: Arc<Prompts>,
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) contexts: Option<Arc<Contexts>>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) files: Files,
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
}

/// Certificates in a directory of their own.
pub(crate) struct Files {
    directory: TempDir,
}

impl Files {
    pub(crate) fn new() -> Self {
        let files = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        ca.distinguished_name
            .push(rcgen::DnType::CommonName, "test CA");
        let ca_certificate = ca.self_signed(&ca_key).unwrap();
        let issuer = rcgen::Issuer::new(ca, ca_key);
        let leaf_key = rcgen::KeyPair::generate().unwrap();
        let names = vec![NAME.to_owned(), "localhost".to_owned()];
        let leaf = rcgen::CertificateParams::new(names).unwrap();
        let leaf = leaf.signed_by(&leaf_key, &issuer).unwrap();
        let write = |name: &str, text: String| std::fs::write(files.path(name), text).unwrap();
        write("ca.pem", ca_certificate.pem());
        write("cert.pem", leaf.pem());
        write("key.pem", leaf_key.serialize_pem());
        files
    }

    /// For a server of a test's own that has the certificate.
    pub(crate) fn server_config(&self) -> ServerConfig {
        let certificate = CertificateDer::from_pem_file(self.path("cert.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.path("key.pem")).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// What a test wants to be different.
pub(crate) struct Wishes {
    pub(crate) threads: usize,
    pub(crate) model: Options,
    pub(crate) model_tls: bool,
    /// Where the upstream is, instead of the demo model.
    pub(crate) upstream: Option<SocketAddr>,
    /// More upstreams, `more-0` and so on, like the first.
    pub(crate) more: Vec<SocketAddr>,
    /// The threads, and whoever lets them begin; the sockets listen already.
    pub(crate) begin: Option<Arc<Barrier>>,
    /// Conversations are remembered, so equal requests go to one place.
    pub(crate) contexts: bool,
    pub(crate) config: fn(&mut Config),
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            threads: 1,
            model: Options {
                first_token: Duration::ZERO,
                inter_token: Duration::ZERO,
                ..Options::default()
            },
            model_tls: false,
            upstream: None,
            more: Vec::new(),
            begin: None,
            contexts: true,
            config: |_| {},
        }
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Wishes::default())
    }

    pub(crate) fn configured(config: fn(&mut Config)) -> Self {
        Self::with(Wishes {
            config,
            ..Wishes::default()
        })
    }

    pub(crate) fn with(wishes: Wishes) -> Self {
        let files = Files::new();
        let mut options = wishes.model;
        if wishes.model_tls {
            options.tls = Some((files.path("cert.pem"), files.path("key.pem")));
        }
        let model = DemoModel::start(options).unwrap();
        let upstream = wishes.upstream.unwrap_or(model.address());
        let mut config = config(&files, upstream, wishes.model_tls);
        for (number, address) in wishes.more.iter().enumerate() {
            config.upstreams.push(config::Upstream {
                name: format!("more-{number}"),
                host: address.ip().to_string(),
                port: address.port(),
                ..config.upstreams[0].clone()
            });
        }
        config.context.enabled = wishes.contexts;
        (wishes.config)(&mut config);
        let threads = NonZeroUsize::new(wishes.threads).unwrap();
        let listen = &config.listen;
        let mut sockets: Vec<Vec<TcpListener>> = Vec::new();
        sockets.resize_with(threads.get(), Vec::new);
        let mut addresses = Vec::new();
        for address in &listen.addresses {
            let (backlog, wait) = (listen.backlog, listen.handshake_timeout);
            let bound = listener::bind(*address, backlog, wait, threads).unwrap();
            addresses.push(bound[0].local_addr().unwrap());
            for (of_thread, socket) in sockets.iter_mut().zip(bound) {
                of_thread.push(socket);
            }
        }
        let keyring = keyring(config.keys.capacity);
        let sessions = Arc::new(Sessions::new());
        keyring.observe(Arc::clone(&sessions) as _);
        let metrics = Arc::new(Metrics::new());
        let charges = Charges::new(&config, &keyring, None).unwrap();
        let shared = listener::Shared::new(
            Arc::new(config),
            Arc::clone(&keyring),
            Arc::clone(&charges),
            Arc::clone(&metrics),
            Arc::clone(&sessions),
        );
        let shared = Arc::new(shared.unwrap());
        let stop = Stop::new();
        let serve = |sockets| {
            let (shared, stop) = (Arc::clone(&shared), stop.clone());
            let begin = wishes.begin.clone();
            std::thread::spawn(move || {
                if let Some(begin) = begin {
                    begin.wait();
                }
                let mut builder = tokio::runtime::Builder::new_current_thread();
                let runtime = builder.enable_all().build().unwrap();
                let _keeping = Keeping::begin();
                LocalSet::new().block_on(&runtime, listener::serve(sockets, shared, stop));
            })
        };
        Self {
            address: addresses[0],
            addresses,
            model,
            keyring,
            charges,
            sessions,
            metrics,
            prompts: Arc::clone(shared.prompts()),
            upstreams: Arc::clone(shared.upstreams()),
            contexts: shared.contexts().cloned(),
            ledger: Arc::clone(shared.ledger()),
            files,
            stop: stop.clone(),
            threads: sockets.into_iter().map(serve).collect(),
        }
    }

    /// Begins the end; [`World::stopped`] waits for it.
    pub(crate) fn stop(&self) {
        self.stop.drain();
    }

    pub(crate) fn stopped(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    pub(crate) fn revoke(&self, key: &str) {
        self.keyring.apply([Edit::Revoke(key_id(key))]);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.drain();
        let deadline = Instant::now() + HANG;
        while !self.stopped() && !std::thread::panicking() {
            assert!(Instant::now() < deadline, "the edge does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
        if !std::thread::panicking() {
            let open = self.metrics.open_connections.get();
            assert_eq!(open, 0, "connections are counted down");
            let streams = self.metrics.open_streams.get();
            assert_eq!(streams, 0, "streams are counted down");
            let idle = self.metrics.idle_upstream_connections.get();
            assert_eq!(idle, 0, "idle upstream connections are counted down");
            assert!(self.sessions.is_empty(), "sessions are taken out");
            assert_eq!(
                self.prompts.room().bytes(),
                0,
                "bodies give their room back"
            );
            let used = self.ledger.status();
            let held = [used.running, used.reserved_input, used.reserved_output];
            assert_eq!(held, [0; 3], "what was reserved came back: {used:?}");
            for entry in self.ledger.entries() {
                assert_eq!(entry.usage.reserved_today, 0, "{entry:?}");
            }
            for upstream in self.upstreams.status() {
                let (requests, tokens) = (upstream.requests, upstream.tokens);
                let outstanding = [requests, tokens, upstream.waiting_tokens];
                assert_eq!(outstanding, [0; 3], "nothing is outstanding: {upstream:?}");
            }
        }
    }
}

fn config(files: &Files, upstream: SocketAddr, upstream_tls: bool) -> Config {
    Config {
        listen: config::Listen {
            addresses: vec![([127, 0, 0, 1], 0).into()],
            threads: NonZeroUsize::MIN,
            backlog: 4096,
            handshake_timeout: Duration::from_secs(30),
            max_hello_bytes: 65_536,
            max_unread_hellos: 4096,
            max_connections: 65_536,
            max_streams: 256,
            unread_timeout: Some(Duration::from_secs(180)),
            // Tests that drop the world do not wait for streams.
            drain_timeout: Duration::from_millis(200),
            proxy_protocol: config::ProxyProtocol::default(),
        },
        tls: config::Tls {
            certificate: files.path("cert.pem"),
            private_key: files.path("key.pem"),
            ticket_rotation: Duration::from_secs(6 * 3600),
        },
        keys: config::Keys {
            store: PathBuf::from("/nonexistent"),
            audience: AUDIENCE.to_owned(),
            capacity: 100,
            window: Window {
                back_s: 30,
                ahead_s: 5,
            },
            connections_per_second: 0,
            connections_per_second_hard: 0,
            replay_capacity: 65_536,
        },
        kernel: config::Kernel {
            attach: config::Attach::Off,
            interfaces: Vec::new(),
            answer: Answer::Alert,
            heartbeat_max_age: Duration::from_secs(3),
            flows: 1024,
            answers_per_second: 1000,
            connection_check: true,
            events_per_second: 100,
        },
        legacy: config::Legacy {
            deny: false,
            connections_per_second: 0,
            burst: 1,
            connections_per_second_total: 0,
            waiting: 1024,
            prefix_capacity: 1024,
        },
        clients: config::Clients::default(),
        upstreams: vec![config::Upstream {
            name: "model".to_owned(),
            models: Vec::new(),
            tls: upstream_tls,
            host: if upstream_tls {
                "localhost".to_owned()
            } else {
                upstream.ip().to_string()
            },
            port: upstream.port(),
            ca_file: Some(files.path("ca.pem")),
            credential: config::Credential::Pass,
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: HANG,
            idle_timeout: HANG,
            max_connections: 4096,
            max_idle: 256,
            keep_idle: HANG,
            prefill_tokens_per_second: 10_000,
        }],
        choice: config::Choice {
            cache_saving_percent: 90,
            cache_patience_percent: 400,
            running_percent: 10,
            failure_counts_for: Duration::from_secs(5),
            eject_after: 3,
            eject_for: Duration::from_secs(1),
            eject_at_most: Duration::from_secs(60),
        },
        api: config::Api {
            versions: vec!["2023-06-01".to_owned()],
            max_body_bytes: 32 << 20,
            ping_after: Duration::from_secs(15),
            node: "node-test".to_owned(),
            url: None,
            zone: None,
            models: Vec::new(),
            layer_secret: Some(config::SecretSource::File(layer_secret(files))),
        },
        regions: Vec::new(),
        prompt: config::Prompt {
            max_tokens: 0,
            max_held_bytes: 512 << 20,
            models: config::Models::default(),
            calibration_file: None,
            calibrated_models: 64,
        },
        quotas: config::Quotas {
            reserve_output_percent: 10,
            default_max_tokens: 4096,
            reserve_each_choice: true,
            burst_tokens: 1_000_000,
            ..config::Quotas::default()
        },
        context: config::Context {
            enabled: true,
            table_bytes: 1 << 20,
            huge_pages: false,
            tenant_share_per_mille: 250,
            hints: true,
            hint_entries: 4096,
            preheats_per_minute: 60,
        },
        admin: config::Admin {
            address: ([127, 0, 0, 1], 0).into(),
        },
        log: config::Log {
            filter: "info".to_owned(),
            json: false,
        },
    }
}

/// A configuration file's text with `more` at its end.
pub(crate) fn configuration(files: &Files, more: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let store = files.path("keys.journal");
    std::fs::write(&store, "").unwrap();
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o600)).unwrap();
    format!(
        "[listen]\naddresses = [\"127.0.0.1:0\"]\n[tls]\ncertificate = \"cert.pem\"\n\
         private_key = \"key.pem\"\n[keys]\nstore = \"keys.journal\"\naudience = \"{AUDIENCE}\"\n\
         [kernel]\nattach = \"off\"\n[upstream]\nurl = \"http://127.0.0.1:1\"\n{more}"
    )
}

pub(crate) const LAYER_SECRET: &[u8] = b"layer-secret-of-the-test";

fn layer_secret(files: &Files) -> PathBuf {
    let path = files.path("layer.secret");
    std::fs::write(&path, LAYER_SECRET).unwrap();
    path
}

fn keyring(capacity: u32) -> Arc<Keyring> {
    let keyring = Arc::new(Keyring::new(capacity));
    keyring.apply([ALICE, BOB, CAROL].map(|key| Edit::Put(record(key))));
    keyring
}

pub(crate) fn record(key: &str) -> KeyRecord {
    let text = ApiKey::new(key.as_bytes().to_vec());
    KeyRecord {
        id: derive::key_id(&text),
        name: key.trim_start_matches("sk-edge-").into(),
        key_hash: derive::key_hash(&text),
        policy: Some(KeyPolicy {
            mac_key: derive::mac_key(&text, AUDIENCE).words(),
            not_before_s: 0,
            not_after_s: u64::MAX,
            flags: 0,
            ..KeyPolicy::UNLIMITED
        }),
        not_before_s: 0,
        not_after_s: u64::MAX,
        alpn_only: key == CAROL,
        rates: Default::default(),
        max_prompt_tokens: None,
        allowance: None,
        revoked: false,
    }
}

fn key_id(key: &str) -> edge_common::token::KeyId {
    derive::key_id(&ApiKey::new(key.as_bytes().to_vec()))
}

/// A token of that key, issued `ahead_s` seconds from now, as an ALPN name.
pub(crate) fn token_at(key: &str, ahead_s: i64) -> Vec<u8> {
    static NONCE: AtomicU64 = AtomicU64::new(1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let issued_at_s = u32::try_from(i64::try_from(now.as_secs()).unwrap() + ahead_s).unwrap();
    let text = ApiKey::new(key.as_bytes().to_vec());
    let mac_key = derive::mac_key(&text, AUDIENCE).words();
    let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
    Token::issue(derive::key_id(&text), mac_key, issued_at_s, nonce)
        .to_name()
        .to_vec()
}

pub(crate) fn token(key: &str) -> Vec<u8> {
    token_at(key, 0)
}

/// Waits until `done`; a minute is a hang.
pub(crate) async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + HANG;
    while !done() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Fails when `future` takes a minute.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(HANG, future).await {
        Ok(value) => value,
        Err(_) => panic!("not within a minute: {what}"),
    }
}

pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}
