//! `edge status`.

mod contexts;
mod prompts;
mod upstreams;
mod usage;

use super::moment;
use super::output::{Failure, Outcome, many, print_line};
use crate::config;
use crate::config::values::show_duration;
use crate::prompt::calibration;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// For the whole question and answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer: as many models as can be learnt, with the longest names, have room in it.
const MAX_BYTES: usize = 16 << 20;
const _: () = assert!(4096 * (2 * calibration::MAX_NAME_BYTES + 300) < MAX_BYTES);

/// Ask a running daemon how it is.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge status
  edge status --config /etc/edge/edge.toml
  edge status --admin 127.0.0.1:9901 --json | jq .kernel.mode")]
pub(super) struct Status {
    /// The daemon's admin address. Default: that of --config, else 127.0.0.1:9901.
    #[arg(long, env = "EDGE_ADMIN", value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
    /// The daemon's configuration, to learn its admin address.
    #[arg(long, env = "EDGE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// JSON, as the daemon sent it.
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(super) fn run(self) -> Outcome {
        let address = match (self.admin, &self.config) {
            (Some(address), _) => address,
            (None, Some(file)) => config::admin_address(file)?,
            (None, None) => SocketAddr::from(([127, 0, 0, 1], 9901)),
        };
        if address.port() == 0 {
            return Err(Failure::Because(
                "admin.address has port 0, so that each start takes a free one: pass the one that the daemon's log line \"serving\" names as --admin".to_owned(),
            ));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let text = runtime
            .block_on(async { tokio::time::timeout(PATIENCE, ask(address)).await })
            .unwrap_or_else(|_| Err(format!("gave no answer within {PATIENCE:?}")))
            .map_err(|what| {
                Failure::because(format!(
                    "http://{address}/status: {what}; is the daemon running, and is this its admin.address?"
                ))
            })?;
        if self.json {
            return print_line(text.trim_end());
        }
        let status: Value = serde_json::from_str(&text)?;
        print_line(for_people(&status).trim_end())
    }
}

async fn ask(address: SocketAddr) -> Result<String, String> {
    let tcp = (tokio::net::TcpStream::connect(address).await).map_err(|e| e.to_string())?;
    let (mut sender, connection) = (hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await)
        .map_err(|e| e.to_string())?;
    let question = http::Request::get("/status")
        .header(http::header::HOST, address.to_string())
        .body(Empty::<bytes::Bytes>::new())
        .map_err(|e| e.to_string())?;
    let exchange = async {
        let answer = (sender.send_request(question).await).map_err(|e| e.to_string())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
        let body = body.map_err(|e| e.to_string())?.to_bytes();
        if status != http::StatusCode::OK {
            return Err(format!("answered {status}"));
        }
        String::from_utf8(body.into()).map_err(|e| e.to_string())
    };
    tokio::select! {
        answer = exchange => answer,
        // Ends only when the exchange cannot go on.
        ended = connection => Err(ended.err().map_or("closed".into(), |e| e.to_string())),
    }
}

/// The figures that people ask for first.
fn for_people(status: &Value) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        // A String takes everything.
        let _ = writeln!(out, "{name:12} {text}");
    };
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let texts = |value: &Value| -> Vec<String> {
        (value.as_array().into_iter().flatten())
            .map(|item| {
                item.as_str()
                    .map_or_else(|| item.to_string(), str::to_owned)
            })
            .collect()
    };
    line(
        "edge",
        format!(
            "{} up {}, {}",
            status["version"].as_str().unwrap_or("?"),
            show_duration(Duration::from_secs(number(&status["uptime_s"]))),
            status["ready"].as_str().unwrap_or("ready"),
        ),
    );
    line(
        "config",
        status["config"].as_str().unwrap_or("?").to_owned(),
    );
    let configuration = &status["configuration"];
    if let Some(error) = configuration["error"].as_str() {
        line(
            "",
            format!("REFUSED, older settings are in effect: {error}"),
        );
    }
    let waiting = texts(&configuration["needs_restart"]);
    if !waiting.is_empty() {
        line("", format!("NEEDS A RESTART: {}", waiting.join(", ")));
    }
    if let Some(at_s) = configuration["window_widens_at_s"].as_u64() {
        line(
            "",
            format!("the token window widens at {}", moment::show(at_s)),
        );
    }
    line("listens", texts(&status["listen"]).join(", "));
    let kernel = &status["kernel"];
    let interfaces: Vec<_> = (kernel["interfaces"].as_array().into_iter().flatten())
        .filter_map(|interface| {
            Some(format!(
                "{} ({})",
                interface["name"].as_str()?,
                interface["mode"].as_str()?
            ))
        })
        .collect();
    line(
        "kernel half",
        match kernel["mode"].as_str() {
            Some("none") | None => "none: userspace decides everything".to_owned(),
            Some(mode) => format!(
                "{mode} on {}; {}, policy {}",
                interfaces.join(", "),
                many(number(&kernel["keys"]), "key"),
                if kernel["policy_complete"] == true {
                    "complete"
                } else {
                    "INCOMPLETE"
                },
            ),
        },
    );
    for note in texts(&kernel["notes"]) {
        line("", note);
    }
    if let Some(object) = kernel["object"].as_str() {
        line("XDP object", object.to_owned());
    }
    let flows = &kernel["flows"];
    if number(&flows["capacity"]) > 0 {
        line(
            "flows",
            format!(
                "{} of {} in the last minute, {} unfinished",
                number(&flows["recent"]),
                number(&flows["capacity"]),
                many(number(&flows["unfinished"]), "hello"),
            ),
        );
        let reaped = &kernel["reaped"];
        line(
            "refused",
            format!(
                "{} destroyed, {} closed by the client, {} gone, {} spared, {} failed, {} wait",
                many(number(&reaped["destroyed"]), "socket"),
                number(&reaped["closed"]),
                number(&reaped["gone"]),
                number(&reaped["spared"]),
                number(&reaped["failed"]),
                number(&reaped["waiting"]),
            ),
        );
    }
    let differences = kernel["comparisons"]["differences"].as_array();
    for difference in differences.into_iter().flatten() {
        line(
            "",
            format!(
                "THE KERNEL AND USERSPACE DISAGREE: {} there, {} here, {}",
                difference[0].as_str().unwrap_or("?"),
                difference[1].as_str().unwrap_or("?"),
                many(number(&difference[2]), "hello"),
            ),
        );
    }
    for (name, text) in prompts::lines(status) {
        line(name, text);
    }
    for (name, text) in contexts::lines(status) {
        line(name, text);
    }
    for (name, text) in usage::lines(status) {
        line(name, text);
    }
    let keys = &status["keys"];
    line(
        "keys",
        format!(
            "{} of at most {}, {} for this edge's audience, generation {}{}",
            number(&keys["keys"]),
            number(&keys["capacity"]),
            number(&keys["for_audience"]),
            number(&keys["generation"]),
            match number(&keys["refused_for_capacity"]) {
                0 => String::new(),
                more => format!(", {more} MORE REFUSED"),
            },
        ),
    );
    if number(&keys["for_audience"]) == 0 {
        line(
            "",
            "NO KEY IS FOR THIS EDGE'S AUDIENCE: nobody can connect".to_owned(),
        );
    }
    let store = &keys["store"];
    line(
        "key store",
        format!(
            "{}: {}, last change taken {}",
            store["path"].as_str().unwrap_or("?"),
            many(number(&store["records"]), "record"),
            moment::show(number(&store["applied_at_s"])),
        ),
    );
    if let Some(error) = store["error"].as_str() {
        line("", format!("REFUSED: {error}"));
    }
    if let Some(warning) = store["warning"].as_str() {
        line("", format!("WARNING: {warning}"));
    }
    let charges = &status["charges"];
    let limits = &charges["limits"];
    let rate = |limit: &Value| match number(limit) {
        0 => "any number".to_owned(),
        some => some.to_string(),
    };
    line(
        "limits",
        format!(
            "tokens from {} s ago to {} s ahead; connections a second: {} a key, refused from {}; without a token {}",
            number(&limits["window_back_s"]),
            number(&limits["window_ahead_s"]),
            rate(&limits["key_per_second"]),
            rate(&limits["key_per_second_hard"]),
            if limits["legacy_deny"] == true {
                "none".to_owned()
            } else {
                format!("{} a prefix", rate(&limits["legacy_per_second"]))
            },
        ),
    );
    line(
        "used tokens",
        format!(
            "{} of at most {}{}; {} of at most {}{}",
            number(&charges["replay_entries"]),
            number(&charges["replay_capacity"]),
            match number(&charges["replay_full"]) {
                0 => String::new(),
                more => format!(", {more} HAD NO ROOM"),
            },
            many(number(&charges["prefix_entries"]), "prefix"),
            number(&charges["prefix_capacity"]),
            match number(&charges["prefix_evicted"]) {
                0 => String::new(),
                more => format!(", {more} evicted"),
            },
        ),
    );
    for (name, text) in upstreams::lines(status) {
        line(name, text);
    }
    let traffic = &status["traffic"];
    line(
        "traffic",
        format!(
            "{} open, {} so far; {}, {} running",
            many(number(&traffic["open_connections"]), "connection"),
            number(&traffic["connections"]),
            many(number(&traffic["requests"]), "request"),
            many(number(&traffic["open_streams"]), "response"),
        ),
    );
    line(
        "certificate",
        format!(
            "until {}",
            moment::show(number(&traffic["certificate_not_after_s"]))
        ),
    );
    for (name, counters) in [
        ("in kernel", &kernel["counters"]),
        ("in userspace", &traffic["verdicts"]),
    ] {
        let counters: Vec<_> = (counters.as_array().into_iter().flatten())
            .filter(|pair| number(&pair[1]) > 0)
            .map(|pair| format!("{} {}", pair[0].as_str().unwrap_or("?"), number(&pair[1])))
            .collect();
        if !counters.is_empty() {
            line(name, counters.join(", "));
        }
    }
    out
}
