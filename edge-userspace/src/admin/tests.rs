//! The admin address, asked over TCP.

use super::*;
use crate::context::Contexts;
use crate::keys::store::follow::Follower;
use crate::keys::store::writer::Writer;
use crate::upstream::choose::Random;
use crate::usage::Ledger;
use std::io::{Read as _, Write as _};
use std::net::TcpStream as StdStream;

/// A hang guard.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two, one of which has a request.
fn upstreams() -> Arc<Upstreams> {
    use crate::config::{Choice, Credential, Upstream};
    let of = |name: &str| Upstream {
        name: name.to_owned(),
        models: Vec::new(),
        tls: false,
        host: "::1".to_owned(),
        port: 8000,
        ca_file: None,
        credential: Credential::Pass,
        connect_timeout: PATIENCE,
        first_byte_timeout: PATIENCE,
        idle_timeout: PATIENCE,
        max_connections: 1,
        max_idle: 1,
        keep_idle: PATIENCE,
        prefill_tokens_per_second: 1,
    };
    let choice = Choice {
        cache_saving_percent: 90,
        cache_patience_percent: 400,
        running_percent: 10,
        failure_counts_for: PATIENCE,
        eject_after: 3,
        eject_for: PATIENCE,
        eject_at_most: PATIENCE,
    };
    Arc::new(Upstreams::new(&[of("a"), of("b")], &choice).unwrap())
}

/// One model has been learnt.
fn prompts() -> Prompts {
    let prompts = Prompts::new(&crate::config::Prompt {
        max_tokens: 0,
        max_held_bytes: 1 << 20,
        models: crate::config::Models::default(),
        calibration_file: None,
        calibrated_models: 2,
    });
    prompts.calibration().observe(b"claude-\"x\"", 1000, 1000);
    prompts
}

struct Admin {
    address: SocketAddr,
    view: Arc<View>,
    shutdown: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

fn contexts(metrics: &Arc<Metrics>) -> Option<Arc<Contexts>> {
    let config = crate::config::Context {
        enabled: true,
        table_bytes: 1 << 16,
        huge_pages: false,
        tenant_share_per_mille: 250,
        hints: true,
        hint_entries: 1024,
        preheats_per_minute: 1,
    };
    Contexts::new(&config, 2, metrics).unwrap()
}

impl Admin {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.journal");
        drop(Writer::open_or_create(&path).unwrap());
        let keyring = Arc::new(Keyring::new(7));
        let mut follower = Follower::new(&path, "demo");
        follower.follow(&keyring).unwrap();
        let target = Target::default();
        let mut metrics = Metrics::new();
        let collect = Box::new(Collect::new(target.clone()));
        metrics.registry_mut().register_collector(collect);
        let metrics = Arc::new(metrics);
        let view = Arc::new(View {
            config: "edge.toml".into(),
            started: Instant::now(),
            started_at_s: 1_800_000_000,
            log_lines_lost: Box::new(|| 3),
            listen: vec!["127.0.0.1:443".parse().unwrap()],
            store: Watch::start(follower, Arc::clone(&keyring)).unwrap(),
            ledger: Ledger::new(&crate::config::Quotas::default(), &keyring, &metrics),
            usage_file: None,
            keyring,
            configuration: Box::new(daemon::Configuration::default),
            charges: Box::new(|| charges::Status {
                limits: charges::Limits {
                    window_back_s: 30,
                    window_ahead_s: 5,
                    remember_s: 30,
                    key_per_second: 0,
                    key_per_second_hard: 1000,
                    legacy_deny: false,
                    legacy_per_second: 500,
                    legacy_burst: 1000,
                    legacy_total_per_second: 2000,
                },
                replay_entries: 11,
                replay_capacity: 70,
                replay_full: 2,
                prefix_entries: 1,
                prefix_capacity: 50,
                prefix_evicted: 4,
                key_buckets: 6,
                key_buckets_capacity: 7,
            }),
            kernel: Box::new(|| kernel::Status {
                mode: "generic",
                interfaces: vec![kernel::Interface {
                    name: "eth0".to_owned(),
                    mode: "generic",
                }],
                counters: vec![("tag_wrong", 3), ("hellos", 5), ("answered_alert", 2)],
                ..kernel::Status::none("a note".to_owned())
            }),
            prompts: Arc::new(prompts()),
            upstreams: upstreams(),
            contexts: contexts(&metrics),
            metrics,
            phase: Phase::default(),
        });
        target.set(&view);
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let serving = serve(socket, Arc::clone(&view), shutdown.clone());
        let thread = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(serving).unwrap();
        });
        Self {
            address,
            view,
            shutdown,
            thread: Some(thread),
            _directory: directory,
        }
    }

    fn say(&self, text: &str) -> String {
        let mut tcp = StdStream::connect(self.address).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str) -> String {
        self.say(&format!("GET {path} HTTP/1.0\r\n\r\n"))
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.shutdown.cancel();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

#[test]
fn ready_follows_the_phase() {
    let admin = Admin::start();
    assert!(admin.get("/livez").starts_with("HTTP/1.0 200 "));
    let answer = admin.get("/readyz");
    assert!(answer.starts_with("HTTP/1.0 503 ") && answer.ends_with("starting: not serving yet\n"));
    admin.view.phase.serving();
    assert!(admin.get("/readyz").starts_with("HTTP/1.0 200 "));
    admin.view.phase.stopping();
    let answer = admin.get("/readyz");
    assert!(
        answer.starts_with("HTTP/1.0 503 ") && answer.contains("stopping"),
        "{answer}"
    );
    assert!(
        admin.get("/livez").starts_with("HTTP/1.0 200 "),
        "alive all the same"
    );
}

#[test]
fn metrics_show_keys_and_kernel_beside_the_data_path() {
    let admin = Admin::start();
    let (upstreams, random) = (&admin.view.upstreams, Random::new(1));
    let b = upstreams.named("b");
    let _running = upstreams.pick(None, b, 500, 700, &random).unwrap();
    let answer = admin.get("/metrics");
    assert!(
        answer.contains("content-type: text/plain; version=0.0.4"),
        "{answer}"
    );
    for line in [
        "edge_ready 0",
        "edge_keys 0",
        "edge_keys_capacity 7",
        "edge_keys_complete 1",
        "edge_key_store_failing 0",
        "edge_key_store_errors_total 0",
        "edge_kernel_attached{interface=\"eth0\",mode=\"generic\"} 1",
        "edge_kernel_verdicts_total{verdict=\"reject\",reason=\"tag_wrong\"} 3",
        "edge_kernel_verdicts_total{verdict=\"accept\",reason=\"accepted\"} 0",
        "edge_kernel_hellos_total 5",
        "edge_kernel_answers_total{answer=\"alert\"} 2",
        "edge_open_connections 0",
        "edge_held_body_bytes 0",
        "edge_held_body_bytes_capacity 1048576",
        "edge_decoding_bytes 0",
        "edge_decoding_bytes_capacity 524288",
        "edge_calibration_factor{model=\"claude-\\\"x\\\"\"} 1.0",
        "edge_calibration_answers_total{model=\"claude-\\\"x\\\"\"} 1",
        "edge_calibration_models_capacity 2",
        "edge_calibration_evicted_total 0",
        "edge_calibration_left_out_total 0",
        "edge_upstream_serving{upstream=\"b\"} 1",
        "edge_upstream_requests{upstream=\"b\"} 1",
        "edge_upstream_tokens{upstream=\"b\"} 700",
        "edge_upstream_waiting_tokens{upstream=\"b\"} 250",
        "edge_upstream_requests{upstream=\"a\"} 0",
        "edge_upstream_ejections_total{upstream=\"a\"} 0",
        "edge_upstream_connects_total{upstream=\"a\",outcome=\"failed\"} 0",
        "edge_upstream_picks_total{upstream=\"b\",why=\"affinity\"} 1",
        "# TYPE edge_kernel_verdicts_total counter",
    ] {
        assert!(
            answer.lines().any(|l| l == line),
            "no line {line:?} in\n{answer}"
        );
    }
    let mut families: Vec<_> = (answer.lines())
        .filter(|l| l.starts_with("# TYPE"))
        .collect();
    let count = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), count, "a family stands there twice");
    let page = include_str!("../../../docs/operations.md");
    for family in families {
        let name = family.split(' ').nth(2).unwrap();
        let name = format!("`{}`", name.strip_suffix("_total").unwrap_or(name));
        assert!(
            page.contains(&name),
            "docs/operations.md does not explain {name}"
        );
    }
}

#[test]
fn status_is_json() {
    let admin = Admin::start();
    let metrics = &admin.view.metrics;
    for tokens in [30, 40] {
        metrics.prompts.one(crate::prompt::Kind::Exact);
        (metrics.prompt_tokens).add(crate::prompt::Kind::Exact, tokens);
    }
    metrics
        .prompt_refusals
        .one(telemetry::PromptRefusal::KeyLimit);
    let answer = admin.get("/status");
    let (_, json) = answer.split_once("\r\n\r\n").unwrap();
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(json["kernel"]["mode"], "generic");
    assert_eq!(json["kernel"]["counters"][0][1], 3);
    assert!(
        json["kernel"]["object"]
            .as_str()
            .unwrap()
            .contains("object")
    );
    assert_eq!(json["keys"]["store"]["error"], serde_json::Value::Null);
    assert_eq!(json["listen"][0], "127.0.0.1:443");
    assert_eq!(json["pid"], std::process::id());
    let upstream = &json["upstreams"][1];
    assert_eq!(upstream["name"], "b");
    assert_eq!(upstream["url"], "http://[::1]:8000");
    assert_eq!(upstream["state"], "serving");
    let prompts = &json["prompts"];
    assert_eq!(prompts["exact"]["prompts"], 2);
    assert_eq!(prompts["exact"]["tokens"], 70);
    assert_eq!(prompts["estimate"]["tokens"], 0);
    assert_eq!(prompts["refused"], serde_json::json!([["key_limit", 1]]));
    assert_eq!(prompts["max_tokens"], serde_json::Value::Null);
    assert_eq!(prompts["held_bytes"], 0);
    assert_eq!(prompts["held_bytes_capacity"], 1 << 20);
    let last = prompts["models"].as_array().unwrap().last().unwrap();
    assert_eq!(last["model"], "*");
    assert_eq!(last["estimate"], true);
}

/// Clients choose the names that are shown.
#[test]
fn the_longest_status_is_bounded() {
    use crate::prompt::calibration::MAX_NAME_BYTES;
    let admin = Admin::start();
    let calibration = admin.view.prompts.calibration();
    for n in 0..3 {
        calibration.observe("\"".repeat(MAX_NAME_BYTES - n).as_bytes(), 1000, 1000);
        calibration.observe("\"".repeat(MAX_NAME_BYTES + 1 + n).as_bytes(), 1000, 1000);
    }
    let answer = admin.get("/status");
    let longest = answer.lines().map(str::len).max().unwrap();
    assert!(longest < 2 * MAX_NAME_BYTES + 100, "{longest}");
}

#[test]
fn other_questions_are_answered_too() {
    let admin = Admin::start();
    assert!(admin.get("/").starts_with("HTTP/1.0 404 "));
    let post = admin.say("POST /status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(
        post.starts_with("HTTP/1.1 405 ") && post.contains("allow: GET, HEAD"),
        "{post}"
    );
    let head = admin.say("HEAD /status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    assert!(admin.say("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let mut tcp = StdStream::connect(admin.address).unwrap();
    // It may be closed before all of it is written.
    let _ = tcp.write_all(long.as_bytes());
    let mut answer = [0; 12];
    if tcp.read_exact(&mut answer).is_ok() {
        assert!(answer.starts_with(b"HTTP/1.1 4"), "{answer:?}");
    }
}

#[test]
fn silent_askers_do_not_keep_others_out_for_long() {
    let admin = Admin::start();
    let silent: Vec<_> = (0..MAX_CONNECTIONS)
        .map(|_| StdStream::connect(admin.address).unwrap())
        .collect();
    // Answered when the first of them has overrun the time for its head.
    assert!(admin.get("/livez").starts_with("HTTP/1.0 200 "));
    drop(silent);
}
