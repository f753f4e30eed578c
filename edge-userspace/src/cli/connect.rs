//! `edge connect`.

mod check;
mod environment;

use super::output::{Failure, Outcome, print_line};
use crate::keys::store::line::check_new_audience;
use crate::secret::{ApiKey, Secret};
use crate::sidecar::{self, ContextIds, Sidecar};
use edge_client::{Endpoint, Limits, Tls, fingerprint, tls};
use http::header::HeaderValue;
use sd_notify::NotifyState;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Give programs on this machine the zero lane: plain HTTP here, tokened TLS to an edge.
///
/// Any SDK reaches the edges by its base URL (see --print-env). Each connection to an edge offers a
/// fresh pre-auth token, and the API key is put into every request, so whoever reaches this
/// address can use the key: it listens on loopback, and turns web pages away. Of several edges the
/// nearest that is not full is taken; one that is slow, refuses or cannot be reached is left
/// for another, and a request moves on only when no edge has begun with it. Logs go to standard
/// error; SIGTERM and SIGINT stop it, a second one at once.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge connect --edge https://edge.example --audience demo --api-key-file alice.key
  edge connect --edge https://eu.example:8443 --edge https://us.example:8443 --audience demo --api-key-file alice.key
  edge connect --edge https://edge.example --audience demo --api-key-file alice.key --check
  eval \"$(edge connect --print-env)\"                   the variables for SDKs, then run the program
  EDGE_API_KEY=… edge connect --edge https://edge.example --audience demo

How it is: curl http://127.0.0.1:8788/edge-connect/status

Exit codes: 0 good, 1 failed (--check: no edge serves), 2 wrong usage.")]
pub(super) struct Connect {
    /// An edge, https://host[:port]. May be given several times.
    #[arg(
        long = "edge",
        alias = "to",
        env = "EDGE_URL",
        value_name = "URL",
        value_delimiter = ',',
        required_unless_present = "print_env",
        value_parser = Endpoint::parse
    )]
    edges: Vec<Endpoint>,
    /// The edges' audience (their keys.audience).
    #[arg(long, env = "EDGE_AUDIENCE", required_unless_present = "print_env")]
    audience: Option<String>,
    /// File that holds the API key and nothing else. Without it the environment variable
    /// EDGE_API_KEY.
    #[arg(long, env = "EDGE_API_KEY_FILE", value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Where it listens; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8788")]
    listen: SocketAddr,
    /// Listen where other machines reach it too: they can all use the key, in the clear.
    #[arg(long)]
    allow_remote: bool,
    /// PEM certificates that the edges' are signed by; default: those of the system.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Find that host and port at this address, as `curl --resolve` does.
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = Resolve::parse)]
    resolve: Vec<Resolve>,
    /// Only the edges that are named here, not those that they tell of (GET /v1/regions).
    #[arg(long)]
    no_discovery: bool,
    /// Whose conversations these are: requests without x-anthropic-context-id get the SHA-256 of
    /// this name, so that they are not mixed up with others' of the same key.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// A name of the context that programs here ask for: edges make ready for it when a program
    /// connects (x-anthropic-context-hint).
    #[arg(long, value_name = "NAME")]
    context_hint: Option<HeaderValue>,
    /// Put no anthropic-fingerprint into requests that have none: bodies go on as they come.
    #[arg(long)]
    no_fingerprint: bool,
    /// What is kept of requests' bodies so that they can go to another edge, in all, MiB.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(..=65_536))]
    held_mib: u64,
    /// Connections of local programs at once; more wait.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,
    /// How long answers may take to their end when it is stopped.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = super::moment::parse_duration)]
    drain: Duration,
    /// Which log lines: error, warn, info, debug.
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "warn,edge_userspace::sidecar=info"
    )]
    log: String,
    /// Print the environment variables that lead SDKs here, as shell commands, and end.
    #[arg(long, conflicts_with = "check")]
    print_env: bool,
    /// Ask each edge once how it is, print it, and end.
    #[arg(long)]
    check: bool,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Where a host is, whatever the resolver says.
#[derive(Clone, Debug)]
struct Resolve {
    host: String,
    port: u16,
    address: SocketAddr,
}

impl Resolve {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "write HOST:PORT:ADDRESS, such as edge.example:8443:192.0.2.1".to_owned();
        let (host, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (port, address) = rest.split_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let address = address.trim_start_matches('[').trim_end_matches(']');
        let address = address.parse().map_err(|_| wrong())?;
        Ok(Self {
            host: host.to_owned(),
            port,
            address: SocketAddr::new(address, port),
        })
    }
}

impl Connect {
    pub(super) fn run(self) -> Outcome {
        if self.print_env {
            return environment::print(self.listen, self.json);
        }
        if !self.listen.ip().is_loopback() && !self.allow_remote {
            return Err(Failure::Usage(format!(
                "--listen {}: other machines would reach it and could use the key; take 127.0.0.1, or add --allow-remote",
                self.listen
            )));
        }
        let json = self.json;
        let check = self.check;
        let (listen, drain) = (self.listen, self.drain);
        self.start_log()?;
        let options = self.options()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        match check {
            true => runtime.block_on(check::check(options, json)),
            false => runtime.block_on(serve(Sidecar::new(options)?, listen, drain, json)),
        }
    }

    fn start_log(&self) -> Outcome {
        let filter = EnvFilter::builder().parse(&self.log);
        let filter = filter.map_err(|error| Failure::because(format!("--log: {error}")))?;
        let lines = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr);
        match self.json {
            true => lines.json().init(),
            false => lines.without_time().with_target(false).init(),
        }
        Ok(())
    }

    fn options(self) -> Result<sidecar::Options, Failure> {
        let audience = self.audience.unwrap_or_default();
        check_new_audience(&audience)
            .map_err(|what| Failure::because(format!("--audience: {what}")))?;
        let key = match &self.api_key_file {
            Some(path) => super::keys::read_api_key(path)?,
            None => key_of_environment()?,
        };
        let roots = match &self.ca_file {
            Some(path) => tls::roots_of(path)
                .map_err(|error| Failure::because(format!("--ca-file {error}")))?,
            None => tls::system_roots()
                .map_err(|error| Failure::because(format!("{error}: --ca-file")))?,
        };
        let is_alone = self.edges.len() == 1;
        let resolve = self.resolve;
        let edges = self.edges.into_iter().map(|edge| {
            let found =
                (resolve.iter()).find(|one| one.host == edge.host() && one.port == edge.port());
            match found {
                Some(one) => edge.at(one.address),
                None => edge,
            }
        });
        let id = self.user.map(|name| fingerprint::context_id(&name));
        Ok(sidecar::Options {
            edges: edges.collect(),
            audience,
            key,
            tls: Tls::new(roots)?,
            discover: !self.no_discovery,
            ids: ContextIds {
                id: id.map(HeaderValue::try_from).transpose()?,
                hint: self.context_hint,
            },
            limits: match is_alone {
                true => Limits::default(),
                // Another edge takes what this one has no place for.
                false => Limits {
                    connect: Duration::from_secs(5),
                    wait: Duration::from_secs(1),
                    ..Limits::default()
                },
            },
            fingerprint: !self.no_fingerprint,
            held_bytes: self.held_mib << 20,
            connections: self.max_connections as usize,
        })
    }
}

/// Never from an argument: arguments are seen by all users of a machine.
fn key_of_environment() -> Result<ApiKey, Failure> {
    let name = "EDGE_API_KEY";
    let text = std::env::var_os(name).unwrap_or_default();
    let text = Secret::new(text.into_encoded_bytes());
    let text = text.expose().trim_ascii_end();
    if text.is_empty() {
        return Err(Failure::Usage(format!(
            "no API key: name a file that holds it (--api-key-file), or set {name}"
        )));
    }
    Ok(ApiKey::new(text.to_vec()))
}

async fn serve(
    sidecar: std::sync::Arc<Sidecar>,
    listen: SocketAddr,
    drain: Duration,
    json: bool,
) -> Outcome {
    let bound = TcpListener::bind(listen).await;
    let listener = bound.map_err(|error| {
        Failure::because(format!("--listen {listen}: cannot listen there: {error}"))
    })?;
    let address = listener.local_addr()?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let url = format!("http://{address}");
    print_line(match json {
        true => serde_json::json!({ "listening": url }).to_string(),
        false => format!("listening on {url}"),
    })?;
    tell_systemd(&[NotifyState::Ready]);
    let stop = CancellationToken::new();
    let stopper = stop.clone();
    let mut serving = std::pin::pin!(sidecar::serve(sidecar, listener, stop, drain));
    for signals in 0..2 {
        tokio::select! {
            () = serving.as_mut() => return Ok(()),
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        if signals == 0 {
            tell_systemd(&[NotifyState::Stopping]);
            stopper.cancel();
        }
    }
    Err(Failure::because(
        "stopped at once: answers that ran are cut off",
    ))
}

fn tell_systemd(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, state) {
        tracing::warn!(%error, "systemd could not be told");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_where_they_are_said_to_be() {
        for (text, address) in [
            ("edge.example:8443:192.0.2.1", "192.0.2.1:8443"),
            ("edge.example:8443:[2001:db8::1]", "[2001:db8::1]:8443"),
            ("edge.example:8443:2001:db8::1", "[2001:db8::1]:8443"),
        ] {
            let resolve = Resolve::parse(text).unwrap();
            assert_eq!(resolve.address, address.parse().unwrap(), "{text}");
        }
        for text in ["", "edge", "edge:8443", "edge:x:192.0.2.1", "edge:1:name"] {
            let told = Resolve::parse(text).unwrap_err();
            assert!(told.contains("HOST:PORT:ADDRESS"), "{text}: {told}");
        }
    }
}
