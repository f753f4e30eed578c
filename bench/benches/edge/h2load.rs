//! h2load: the fastest client at hand. A process has one connection, since each connection of the
//! edge's clients offers a token of its own; several run at once.

use crate::target::Target;
use bench::peers::Speaks;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Connections over TLS, and requests at a time on each.
const CONNECTIONS: usize = 4;
const AT_A_TIME: usize = 8;

/// What came of a run.
pub(crate) struct Outcome {
    pub(crate) requests: usize,
    pub(crate) took: Duration,
    /// Of all bodies.
    pub(crate) body_bytes: u64,
}

/// Whether there is one.
pub(crate) fn is_here() -> bool {
    let output = Command::new("h2load").arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

/// Sends the body in that file so often, and asserts that each request got its 200.
pub(crate) fn run(target: &Target, body: &Path, requests: usize) -> Outcome {
    let processes = match target.speaks {
        Speaks::Tls => CONNECTIONS,
        Speaks::Plain => 1,
    };
    let each = requests.div_ceil(processes);
    let began = Instant::now();
    let children: Vec<Child> = (0..processes).map(|_| start(target, body, each)).collect();
    let mut outcome = Outcome {
        requests: each * processes,
        took: Duration::ZERO,
        body_bytes: 0,
    };
    for child in children {
        let output = child.wait_with_output().expect("h2load");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "h2load: {text}");
        let number = |line: &str, word: &str| -> u64 {
            let line = text.lines().find(|text| text.starts_with(line));
            let line = line.unwrap_or_else(|| panic!("h2load said: {text}"));
            let before = line.split(word).next().unwrap_or_default();
            let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next();
            let number = digits.and_then(|digits| digits.parse().ok());
            number.unwrap_or_else(|| panic!("no `{word}` in: {line}"))
        };
        assert_eq!(number("requests:", " succeeded"), each as u64, "{text}");
        assert_eq!(number("status codes:", " 2xx"), each as u64, "{text}");
        // "10.5KB (10752) data"
        outcome.body_bytes += number("traffic:", ") data");
    }
    outcome.took = began.elapsed();
    outcome
}

fn start(target: &Target, body: &Path, requests: usize) -> Child {
    let mut command = Command::new("h2load");
    command.args(["--requests", &requests.to_string()]);
    command.arg("--data").arg(body);
    let headers = [
        "content-type: application/json".to_owned(),
        "anthropic-version: 2023-06-01".to_owned(),
        match target.is_chat {
            true => format!("authorization: Bearer {}", target.key),
            false => format!("x-api-key: {}", target.key),
        },
    ];
    let more = target.headers.iter();
    let more = more.map(|(name, value)| format!("{name}: {value}"));
    for header in headers.into_iter().chain(more) {
        command.args(["--header", &header]);
    }
    let scheme = match target.speaks {
        Speaks::Tls => {
            let names = target.alpn().join(&b',');
            let names = String::from_utf8_lossy(&names);
            command.args(["--groups", "X25519", "--npn-list", &names]);
            command.args(["--clients", "1", "--max-concurrent-streams"]);
            command.arg(AT_A_TIME.to_string());
            "https"
        }
        Speaks::Plain => {
            let clients = (CONNECTIONS * AT_A_TIME).min(requests);
            command.args(["--h1", "--max-concurrent-streams", "1", "--clients"]);
            command.arg(clients.to_string());
            "http"
        }
    };
    command.arg(format!("{scheme}://{}{}", target.address, target.path()));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().expect("h2load of nghttp2-client")
}
